"""An isolated fixture: who the tests are, who the code is, and what the one cannot do to the other."""

from __future__ import annotations

import docker
import pytest

from runner.sandbox.volumes import tar_of
from tests.engine.lab import repaired
from tests.engine.verifiers import Judgement, semver, verifiers
from tests.hostile.forgeries import Attempt

pytestmark = pytest.mark.engine

#: What the tests of this file begin with. `code(...)`: run in Python as the code's user.
HEAD = """
import os, subprocess, sys, time
def run(*argv, **options):
    return subprocess.run([os.environ["ACPBENCH_RUN_CODE"], *argv], capture_output=True, text=True, **options)
def code(program, **options):
    return run("python3", "-I", "-c", "import os, signal, socket\\n" + program, **options)
workspace = os.environ["ACPBENCH_WORKSPACE"]
"""


def judged(engine: docker.DockerClient, test: str, *, timeout_s: float = 30.0) -> Judgement:
    """The verdict of a test in Python (exit code alone) on the fixture as it is."""
    command = ["python3", "-I", "test.py"]
    fixture, _ = semver(command=command, parser="exit-code", tests=None, timeout_s=timeout_s)
    with verifiers(engine, fixture, tar_of({"test.py": (HEAD + test).encode()})) as place:
        return place.judge(Attempt("isolated", "as-it-is", {"src/semver.js": repaired()}).archive())


def said(judgement: Judgement) -> str:
    assert judgement.verdict is not None, judgement.reason
    return judgement.verdict.output


def test_two_users_two_places(engine: docker.DockerClient) -> None:
    ends = judged(
        engine,
        "print(os.getuid(), os.getgid(), os.getgroups(), os.getcwd(), os.environ['HOME'])\n"
        "print(code('print(os.getuid(), os.getgid(), os.getgroups(), os.getcwd(), os.environ[\"HOME\"])').stdout)\n"
        "print(sorted(os.environ))\n"
        "print(open(workspace + '/src/semver.js').readline())\n"
        "open(os.environ['TMPDIR'] + '/x', 'w').close()\n",
    )
    lines = said(ends).splitlines()
    assert lines[0] == "1001 1001 [1001] /acpbench/isolated/tests /acpbench/isolated/home"
    assert lines[1] == "1000 1000 [1000] /workspace/semver /home/agent"
    assert "ACPBENCH_RUN_CODE" in lines[3]
    assert lines[4].startswith("// Semantic versions")
    assert ends.outcome == "passed", ends.reason


def test_the_code_reaches_neither_the_tests_nor_their_process(engine: docker.DockerClient) -> None:
    ends = judged(
        engine,
        "me = os.getpid()\n"
        "for attempt in (\n"
        "    'os.listdir(\"/acpbench/isolated\")', 'open(\"/acpbench/isolated/tests/test.py\")',\n"
        "    'open(\"/acpbench/isolated/run-code\")', 'os.listdir(\"/acpbench/isolated/home\")',\n"
        '    \'open("/acpbench/x", "w")\', \'os.rename("/acpbench/isolated", "/tmp/x")\',\n'
        "    'socket.socket(socket.AF_UNIX).connect(\"/acpbench/isolated/socket\")',\n"
        "    f'os.kill({me}, 0)', f'os.listdir(\"/proc/{me}/fd\")', f'open(\"/proc/{me}/mem\")',\n"
        "    f'open(\"/proc/{me}/environ\").read()', f'os.listdir(\"/proc/{me}/cwd/\")',\n"
        "    f'os.open(\"/proc/{me}/fd/1\", os.O_WRONLY)', 'os.setuid(1001)', 'os.setgid(1001)',\n"
        "    'os.listdir(\"/proc/1/fd\")', 'os.kill(1, 0)',\n"
        "):\n"
        "    done = code(attempt)\n"
        "    print(attempt, done.returncode, done.stderr.splitlines()[-1:])\n"
        "    assert done.returncode == 1 and 'PermissionError' in done.stderr, attempt\n",
    )
    assert ends.outcome == "passed", said(ends)


def test_a_link_that_the_code_leaves_leads_it_to_nothing_of_the_tests(engine: docker.DockerClient) -> None:
    """A test that opens it itself reads its own file: fixtures/README.md says how to read."""
    ends = judged(
        engine,
        "open(os.environ['HOME'] + '/expected', 'w').close()\n"
        "for own in ('/acpbench/isolated/tests/test.py', '/proc/self/cwd/test.py', os.environ['HOME'] + '/expected'):\n"
        "    assert code(f'os.symlink({own!r}, \"out\")').returncode == 0\n"
        "    open(workspace + '/out').close()\n"
        "    read = run('cat', 'out')\n"
        "    assert (read.returncode, read.stdout) == (1, ''), (own, read)\n"
        "    assert code('os.unlink(\"out\")').returncode == 0\n",
    )
    assert ends.outcome == "passed", said(ends)


def test_nothing_of_the_code_lives_when_its_test_goes_on(engine: docker.DockerClient) -> None:
    ends = judged(
        engine,
        "def living():\n"
        "    return [n for n in os.listdir('/proc') if n.isdigit() and os.stat('/proc/' + n).st_uid == 1000]\n"
        "done = code('''\n"
        "for _ in range(5):\n"
        "    if not os.fork():\n"
        "        os.setsid(); signal.signal(15, signal.SIG_IGN)\n"
        "        while True: pass\n"
        "os._exit(9)''')\n"
        "assert (done.returncode, living()) == (9, []), (done, living())\n"
        "child = subprocess.Popen([os.environ['ACPBENCH_RUN_CODE'], 'sleep', '60'], stdout=-3, stderr=-3)\n"
        "while not living(): time.sleep(0.01)\n"
        "child.kill(); child.wait()\n"
        "deadline = time.monotonic() + 10\n"
        "while living() and time.monotonic() < deadline: time.sleep(0.01)\n"
        "assert living() == []\n",
    )
    assert ends.outcome == "passed", said(ends)


def test_the_workspace_s_settings_are_none_of_the_tests(engine: docker.DockerClient) -> None:
    """Node looks for package.json from where a test lies upwards: no folder there is the code's."""
    files = {
        "src/semver.js": repaired(),
        "package.json": '{"type": "commonjs", "imports": {"#x": "./x.js"}}',
        "node_modules/assert/index.js": "process.exit(0)",
        ".npmrc": "node-options=--require=./x.cjs\n",
    }
    fixture, tests = semver()
    with verifiers(engine, fixture, tests) as place:
        ends = place.judge(Attempt("isolated", "settings", files).archive())
    # The code is no module any more: that is its own fault, and told by the tests one by one.
    assert ends.outcome == "task-failed"
    assert ends.verdict is not None
    assert (ends.verdict.tests, ends.verdict.passes) == (3, 0)


def test_a_test_without_end_is_stopped_with_its_code(engine: docker.DockerClient) -> None:
    ends = judged(engine, "print(run('sleep', '60'))", timeout_s=2.0)
    assert ends.outcome == "task-failed"
    assert ends.verdict is not None
    assert ends.verdict.exit_code is None
    assert "did not end within 2 s" in ends.reason


@pytest.mark.parametrize(
    ("line", "streams"),
    [
        ("echo '# pass 3'", "stderr=subprocess.PIPE"),
        ("echo '# pass 3' >&0", "stdin=1, stdout=2, stderr=subprocess.PIPE"),
    ],
)
def test_a_test_that_hands_over_its_own_output_is_told_so(engine: docker.DockerClient, line: str, streams: str) -> None:
    ends = judged(
        engine,
        f"done = subprocess.run([os.environ['ACPBENCH_RUN_CODE'], 'sh', '-c', {line!r}], {streams})\n"
        "print(done.stderr.decode()); sys.exit(done.returncode)\n",
    )
    assert ends.verdict is not None
    assert ends.verdict.exit_code == 126
    assert "the tests' own output" in said(ends)
    assert "# pass" not in said(ends)
