from __future__ import annotations

import base64
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from runner.guest import fixture, verify
from runner.guest.channel import OpError
from runner.guest.fixture import Layout
from runner.guest.gitobj import EXECUTABLE, FILE, SYMLINK, GitEntry
from runner.guest.verify import compare, quoted
from tests.unit.guest.recorder import Recorder, files_tar, member, tar

CLEAN = {"src/a.js": "a\n", "test/a.test.js": "t\n", "test/deep/b.js": "b\n", ".gitignore": "*.log\n"}
#: Prints every file of the folder it runs in with its content, or with where it leads.
SHOW = """
import os
for folder, _, names in os.walk("."):
    for path in (os.path.join(folder, name) for name in names):
        if ".git/" not in path:
            print(path, os.readlink(path) if os.path.islink(path) else open(path).read().strip())
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    for name in ("workspace", "home"):
        (tmp_path / name).mkdir()
    return Layout(str(tmp_path / "workspace"), str(tmp_path / "home"))


def run(layout: Layout, agent: bytes, command: list[str] | None = None, **args: Any) -> dict[str, Any]:
    recorder = Recorder()
    arguments = {
        "fixture": "fx",
        "tar": base64.b64encode(files_tar(CLEAN)).decode(),
        "agent_tar": base64.b64encode(agent).decode(),
        "protected": ["test/"],
        "command": command or ["true"],
        "env": {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
        "timeout_s": 20,
        **args,
    }
    verify.verify(recorder.request(**arguments), layout)
    event, reply = recorder.sent
    assert event == {"event": "testing"}
    return reply


def changes(reply: dict[str, Any]) -> dict[str, tuple[str, bool]]:
    return {change["path"]: (change["status"], change["protected"]) for change in reply["changes"]}


def test_an_untouched_workspace(layout: Layout) -> None:
    reply = run(layout, files_tar(CLEAN))
    assert (reply["patch"], reply["status"], reply["changes"], reply["skipped"]) == (b"", "", [], [])
    assert (reply["exit_code"], reply["timed_out"], reply["output"]) == (0, False, "")
    assert all(proof["ok"] for proof in reply["proofs"])


def test_changes_patch_and_status(layout: Layout, tmp_path: Path) -> None:
    agent = tar(
        member("src/a.js", b"fixed\n"),
        member("test/a.test.js", b"t\n", mode=0o755),
        member("test/deep/b.js", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("new/bin.dat", bytes(range(256))),
        member("debug.log", b"ignored\n"),
        member("caf\udce9\n.js", b"odd\n"),
    )
    reply = run(layout, agent)
    assert changes(reply) == {
        ".gitignore": ("D", False),
        "caf\udce9\n.js": ("A", False),
        "debug.log": ("A", False),
        "new/bin.dat": ("A", False),
        "src/a.js": ("M", False),
        "test/a.test.js": ("M", True),
        "test/deep/b.js": ("T", True),
    }
    assert reply["status"].splitlines() == [
        " D .gitignore",
        " M src/a.js",
        " M test/a.test.js",
        " T test/deep/b.js",
        '?? "caf\\351\\n.js"',
        "?? debug.log",
        "?? new/bin.dat",
    ]
    # The patch, applied by git to the clean fixture, makes the agent's files.
    clean = tmp_path / "clean"
    clean.mkdir()
    fixture.write_files(str(clean), files_tar(CLEAN))
    subprocess.run(["git", "init", "-q"], cwd=clean, check=True)
    subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], cwd=clean, input=reply["patch"], check=True)
    assert (clean / "src/a.js").read_text() == "fixed\n"
    assert (clean / "new/bin.dat").read_bytes() == bytes(range(256))
    assert (clean / "test/deep/b.js").readlink() == Path("/etc/passwd")
    assert os.path.exists(os.fsencode(clean) + b"/caf\xe9\n.js")


def test_ignored_files_are_in_the_patch_and_marked(layout: Layout) -> None:
    reply = run(layout, files_tar({**CLEAN, "debug.log": "x\n"}))
    assert reply["status"] == "!! debug.log\n"
    assert b"debug.log" in reply["patch"]


def test_names_that_git_could_take_for_more_than_names(layout: Layout) -> None:
    names = [":!test.log", ":(exclude)x", ":x/y", "::", "*", "-z", "a\nb.log"]
    reply = run(layout, files_tar(CLEAN | dict.fromkeys(names, "x\n")))
    assert changes(reply) == dict.fromkeys(names, ("A", False))
    marked = {line[3:] for line in reply["status"].splitlines() if line.startswith("!! ")}
    assert marked == {":!test.log", quoted("a\nb.log")}


def test_hashes_are_git_s(layout: Layout, tmp_path: Path) -> None:
    (change,) = run(layout, files_tar({**CLEAN, "src/a.js": "fixed\n"}))["changes"]
    for side, content in (("before", "a\n"), ("after", "fixed\n")):
        done = subprocess.run(
            ["git", "hash-object", "--stdin"], input=content.encode(), capture_output=True, check=True
        )
        assert change[side] == done.stdout.decode().strip()


TAMPERED: dict[str, list[Any]] = {
    "edited": [member("test/a.test.js", b"passes\n"), member("test/deep/b.js", b"b\n")],
    "deleted": [],
    "added": [
        member("test/a.test.js", b"t\n"),
        member("test/deep/b.js", b"b\n"),
        member("test/deep/new.js", b"n\n"),
    ],
    "folder is a link": [
        member("elsewhere/a.test.js", b"passes\n"),
        member("test", type=tarfile.SYMTYPE, linkname="elsewhere"),
    ],
    "file is a folder": [member("test/a.test.js/x", b"x"), member("test/deep", b"a file")],
    "file is a link": [
        member("test/a.test.js", type=tarfile.SYMTYPE, linkname="../src/a.js"),
        member("test/deep/b.js", b"b\n"),
    ],
}


@pytest.mark.parametrize("name", TAMPERED)
@pytest.mark.parametrize("protected", [["test/"], ["test"], ["test/**"], [":(glob)test/**"]])
def test_protected_paths_are_the_fixture_s_when_the_tests_run(layout: Layout, name: str, protected: list[str]) -> None:
    others = [member("src/a.js", b"a\n"), member(".gitignore", b"*.log\n")]
    reply = run(layout, tar(*others, *TAMPERED[name]), [sys.executable, "-c", SHOW], protected=protected)
    assert any(guarded for _, guarded in changes(reply).values())
    lines = {line for line in reply["output"].splitlines() if line.startswith("./test")}
    assert lines == {"./test/a.test.js t", "./test/deep/b.js b"}


def test_what_is_not_protected_stays(layout: Layout) -> None:
    reply = run(layout, files_tar({**CLEAN, "src/a.js": "fixed"}), [sys.executable, "-c", SHOW])
    assert "./src/a.js fixed" in reply["output"].splitlines()
    assert changes(reply) == {"src/a.js": ("M", False)}


def test_nothing_of_the_agent_s_is_run_by_git(layout: Layout, tmp_path: Path) -> None:
    """Every place from which git would start a program, planted at once; the positive control is below."""
    proof = tmp_path / "ran"
    script = f"#!/bin/sh\ntouch {proof}\n"
    config = (
        f"[core]\n\tfsmonitor = {tmp_path}/evil\n\thooksPath = .\n"
        f'[filter "f"]\n\tclean = touch {proof}\n\tsmudge = touch {proof}\n'
        f'[diff "d"]\n\ttextconv = touch {proof};cat\n\tcommand = touch {proof}\n'
    )
    evil = tmp_path / "evil"
    evil.write_text(script)
    evil.chmod(0o755)
    planted = {
        **CLEAN,
        "src/a.js": "changed\n",
        ".gitattributes": "* filter=f diff=d\n",
        "sub/.git/config": config,
        "sub/.git/HEAD": "ref: refs/heads/main\n",
        "sub/.git/hooks/post-index-change": script,
        "sub/.git/objects/x": "",
        "sub/.git/refs/x": "",
        "sub/file": "x",
        ".gitmodules": '[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n\tupdate = !touch\n',
    }
    members = [member(name, text.encode(), mode=0o755) for name, text in planted.items()]
    members += [member(f".git/{name}", config.encode()) for name in ("config", "hooks/pre-commit")]
    reply = run(layout, tar(*members))
    assert not proof.exists()
    assert [item["path"] for item in reply["skipped"]] == [".git/config", ".git/hooks/pre-commit"]
    assert changes(reply)["sub/.git/config"] == ("A", False)
    assert b"sub/.git/config" in reply["patch"]
    # Positive control: git run on such a repository does start the program.
    bait = tmp_path / "bait"
    subprocess.run(["git", "init", "-q", bait], check=True)
    (bait / ".git/config").write_text(config)
    subprocess.run(["git", "status"], cwd=bait, capture_output=True, check=False)
    assert proof.exists()


def test_a_pin_that_differs_runs_nothing(layout: Layout, tmp_path: Path) -> None:
    with pytest.raises(OpError) as refused:
        run(layout, files_tar(CLEAN), ["touch", str(tmp_path / "ran")], tree="0" * 40)
    assert refused.value.code == "bad_fixture"
    assert not (tmp_path / "ran").exists()


def test_the_command_s_output_and_exit(layout: Layout) -> None:
    reply = run(layout, files_tar(CLEAN), ["sh", "-c", "echo out; echo err >&2; pwd; exit 3"])
    assert reply["exit_code"] == 3
    assert reply["output"] == f"out\nerr\n{layout.workspaces}/fx\n"
    assert reply["test_ms"] > 0


def test_a_command_that_dies_by_a_signal(layout: Layout) -> None:
    assert run(layout, files_tar(CLEAN), ["sh", "-c", "kill -9 $$"])["exit_code"] == 137


def test_the_end_of_a_long_output_is_kept(layout: Layout) -> None:
    script = "import sys; sys.stdout.write('x' * 3_000_000 + 'the end')"
    reply = run(layout, files_tar(CLEAN), [sys.executable, "-c", script])
    assert len(reply["output"]) == 256_000
    assert reply["output"].endswith("the end")


def test_a_command_that_does_not_end_is_stopped_with_its_children(layout: Layout) -> None:
    reply = run(layout, files_tar(CLEAN), ["sh", "-c", "echo begun; sleep 60 & sleep 60"], timeout_s=0.3)
    assert (reply["exit_code"], reply["timed_out"], reply["output"]) == (None, True, "begun\n")


def test_a_command_that_is_not_there(layout: Layout) -> None:
    with pytest.raises(OpError) as refused:
        run(layout, files_tar(CLEAN), ["no-such-program"])
    assert refused.value.code == "spawn_failed"


def test_a_command_of_the_workspace_that_the_agent_took_away(layout: Layout) -> None:
    reply = run(layout, files_tar(CLEAN), ["./no-such-script"])
    assert reply["exit_code"] == 127
    assert "No such file" in reply["output"]


def test_compare() -> None:
    one, two = "1" * 40, "2" * 40
    before = {
        "same": GitEntry(FILE, one),
        "content": GitEntry(FILE, one),
        "mode": GitEntry(FILE, one),
        "type": GitEntry(FILE, one),
    }
    after = {
        "same": GitEntry(FILE, one),
        "content": GitEntry(FILE, two),
        "mode": GitEntry(EXECUTABLE, one),
        "type": GitEntry(SYMLINK, one),
        "new": GitEntry(FILE, two),
    }
    assert [(change.path, change.status) for change in compare(before, after)] == [
        ("content", "M"), ("mode", "M"), ("new", "A"), ("type", "T"),
    ]  # fmt: skip
    assert [(change.path, change.status) for change in compare(after, {})][-1] == ("type", "D")


def test_paths_are_quoted_as_git_quotes_them(tmp_path: Path) -> None:
    names = [
        b"plain.js",
        b"two words",
        b"tab\t",
        b'quo"te',
        b"back\\slash",
        b"caf\xe9",
        b"\x01\x7f",
        "ä".encode(),
        b"a'b",
    ]
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for name in names:
        with open(os.fsencode(tmp_path) + b"/" + name, "w"):
            pass
    done = subprocess.run(["git", "status", "--porcelain", "-uall"], cwd=tmp_path, capture_output=True, check=True)
    theirs = {line.removeprefix("?? ") for line in done.stdout.decode().splitlines()}
    assert {quoted(os.fsdecode(name)) for name in names} == theirs


def test_the_judged_tree_has_git_s_name_and_equal_files_have_equal_names(layout: Layout, tmp_path: Path) -> None:
    reply = run(layout, files_tar({**CLEAN, "src/a.js": "fixed\n", "test/a.test.js": "edited\n"}))
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    fixture.write_files(str(theirs), files_tar({**CLEAN, "src/a.js": "fixed\n", "test/a.test.js": "edited\n"}))
    for words in (["init", "-q"], ["add", "-A", "-f"]):
        subprocess.run(["git", *words], cwd=theirs, check=True)
    done = subprocess.run(["git", "write-tree"], cwd=theirs, check=True, capture_output=True, text=True)
    assert reply["workspace"] == done.stdout.strip()


def test_an_untouched_workspace_is_the_fixture_s_tree(layout: Layout) -> None:
    reply = run(layout, files_tar(CLEAN))
    assert reply["workspace"] == reply["tree"]


def test_a_list_of_changes_is_bounded_and_keeps_the_protected_ones(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "_MAX_CHANGES", 3)
    many = {f"new{number}": "x" for number in range(9)}
    reply = run(layout, files_tar({**CLEAN, **many, "test/a.test.js": "edited\n"}))
    assert (len(reply["changes"]), reply["changes_cut"]) == (3, 7)
    assert ("M", True) in changes(reply).values()
    assert len(reply["status"].splitlines()) == 3


def test_an_empty_folder_of_the_fixture_is_no_hindrance(layout: Layout) -> None:
    """It failed every run: what is left of the clean tree stood in the way of the agent's."""
    clean = tar(member("empty", type=tarfile.DIRTYPE, mode=0o755), *(member(n, t.encode()) for n, t in CLEAN.items()))
    agent = tar(member("empty", type=tarfile.DIRTYPE, mode=0o755), *(member(n, t.encode()) for n, t in CLEAN.items()))
    clean_text = base64.b64encode(clean).decode()
    assert run(layout, agent, tar=clean_text)["exit_code"] == 0
    subprocess.run(["rm", "-rf", f"{layout.workspaces}/fx"], check=True)
    reply = run(layout, tar(), tar=clean_text, differing=[])
    assert (reply["changes"], reply["exit_code"]) == ([], 0)


def test_a_file_beyond_the_cap_is_named(layout: Layout) -> None:
    reply = run(layout, files_tar({**CLEAN, "big": "x" * 100_000}), cap_bytes=50_000)
    assert [(one["path"], one["reason"]) for one in reply["skipped"]] == [("big", "over the size limit")]
