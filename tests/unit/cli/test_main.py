"""Exit codes and messages of the command, in process and as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests

from runner.cli import main as cli
from runner.cli import schema
from runner.errors import BuildError, ConfigError, EngineUnavailable, InfraError, Interrupted

ROOT = Path(__file__).parents[3]


def process(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "runner.cli", *args], cwd=ROOT, env={**os.environ, **env}, text=True,
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip


LONG = "x" * 300


@pytest.mark.parametrize(
    "args",
    [
        ["sweep", LONG],
        ["sweep", "configs/sweeps/three-surfaces.yaml", "--out", LONG],
        ["sweep", "configs/sweeps/three-surfaces.yaml", "--out", LONG, "--resume"],
        ["--root", LONG, "adapters", "list"],
        *([verb, LONG] for verb in ("report", "frames", "findings", "permissions", "nightly")),
        ["compare", LONG, LONG],
        ["script", "check", LONG],
    ],
    ids=" ".join,
)
def test_a_path_that_no_disk_can_hold_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, args: list[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert cli.run(args) == 64
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert LONG[:40] in said
    assert "internal" not in said


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "a command is missing (try 'acpbench --help')"),
        (["images"], "a command is missing (try 'acpbench images --help')"),
        (["swepe"], "No such command 'swepe'"),
        (["images", "bild"], "No such command 'bild'"),
        (["sweep"], "Missing argument 'CONFIG'"),
        (["sweep", "x.yaml", "--outt", "d"], "No such option: --outt"),
        (["sweep", "x.yaml", "--repeat", "0"], "'--repeat'"),
        (["sweep", "x.yaml", "--jobs", "many"], "'--jobs'"),
        (["sweep", "x.yaml", "y.yaml"], "unexpected extra argument"),
        (["sweep", "x.yaml", "--only"], "--only"),
        (["report", "d", "--format", "tabel"], "'--format'"),
        (["--root", "/nowhere", "adapters", "list"], "/nowhere: not a root of acpbench"),
    ],
)
def test_wrong_use_is_64_and_one_line(capsys: pytest.CaptureFixture[str], args: list[str], words: str) -> None:
    assert cli.run(args) == 64
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith("acpbench: ")
    assert words in said.err


def test_wrong_use_is_64_as_a_process() -> None:
    """The library's own exit code for these is 2, which means `regressed`."""
    for args in (["--no-such-option"], ["sweep"], ["no-such-command"]):
        done = process(*args)
        assert (done.returncode, done.stdout) == (64, "")
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError(Path("x.yaml"), 7, "wrong"), 64),
        (EngineUnavailable("no engine"), 69),
        (BuildError("step 3 failed\n  | npm ERR! code E404"), 1),
        (InfraError("disk full"), 1),
        (Interrupted("stopped"), 130),
    ],
)
def test_our_errors(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    _raise(monkeypatch, error)
    assert cli.run(["schema", "sweep"]) == code
    assert capsys.readouterr().err == f"acpbench: {error}\n"


def test_ctrl_c(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    _raise(monkeypatch, KeyboardInterrupt())
    assert cli.run(["schema", "sweep"]) == 130
    assert capsys.readouterr().err == "acpbench: interrupted\n"


def test_an_engine_that_goes_away_in_the_middle(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _raise(monkeypatch, requests.exceptions.ReadTimeout("two\nlines"))
    assert cli.run(["schema", "sweep"]) == 69
    assert capsys.readouterr().err == "acpbench: the container engine does not answer any more: two lines\n"


def test_our_own_faults(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACPBENCH_DEBUG", raising=False)
    _raise(monkeypatch, RuntimeError("two\nlines"))
    assert cli.run(["schema", "sweep"]) == 70
    said = capsys.readouterr().err
    assert said == ("acpbench: internal error: RuntimeError: two lines (set ACPBENCH_DEBUG=1 for the traceback)\n")
    monkeypatch.setenv("ACPBENCH_DEBUG", "1")
    assert cli.run(["schema", "sweep"]) == 70
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def _raise(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(kind: str) -> None:
        raise error

    monkeypatch.setattr(schema, "json_schema", fail)


def test_version_and_help() -> None:
    done = process("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("acpbench ")
    done = process("--help")
    assert done.returncode == 0
    for verb in ("sweep", "report", "frames", "images", "adapters", "script", "doctor", "clean", "schema"):
        assert f"\n  {verb} " in done.stdout


def test_reader_that_goes_away_is_no_error() -> None:
    verb = subprocess.Popen(
        [sys.executable, "-m", "runner.cli", "schema", "sweep"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert verb.stdout is not None
    verb.stdout.close()
    assert verb.stderr is not None
    assert verb.stderr.read() == b""
    verb.stderr.close()
    assert verb.wait(30) == 0


def test_an_output_that_cannot_be_written_is_one_line_and_1() -> None:
    with Path("/dev/full").open("w") as full:
        line = [sys.executable, "-m", "runner.cli", "schema", "sweep"]
        done = subprocess.run(line, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "acpbench: standard output cannot be written: No space left on device\n",
    )


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_are_no_error(closed: str) -> None:
    line = ["sh", "-c", f'"$0" -m runner.cli schema sweep {closed}', sys.executable]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_ctrl_c_while_the_libraries_are_loaded_is_one_line() -> None:
    # Whatever is imported first in the command's own flow stands for all of it.
    code = (
        "import os, signal, sys\n"
        # A shell's background jobs have it ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Slow:\n    def find_spec(self, name, *rest):\n"
        "        name == 'typer' and os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Slow())\nfrom runner.cli.start import main\nmain()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "acpbench: interrupted\n")


def test_no_engine_is_69() -> None:
    done = process("clean", DOCKER_HOST="unix:///nowhere.sock", DOCKER_CONTEXT="")
    assert done.returncode == 69
    assert done.stderr.count("\n") == 1


def test_signal_in_a_verb_is_130(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom runner.cli import schema, main\n"
        "def wait(kind):\n    print('ready', flush=True)\n    time.sleep(30)\n"
        "schema.json_schema = wait\nsys.exit(main.run(['schema', 'sweep']))\n"
    )
    verb = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Whoever runs the tests in the background has taught them to ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    with verb:
        assert verb.stdout is not None
        assert verb.stdout.readline() == b"ready\n"
        started = time.monotonic()
        verb.send_signal(signal.SIGINT)
        assert verb.wait(20) == 130
        assert time.monotonic() - started < 10
        assert verb.stderr is not None
        assert verb.stderr.read() == b"acpbench: interrupted\n"
