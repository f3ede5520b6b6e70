"""Collecting what an agent left, and judging it."""

from __future__ import annotations

import base64
import os
import re
import secrets
from typing import Any

import pytest

from tests.engine.guest.harness import Guest, tree_archive, untar
from tests.engine.guest.steps import FIXTURE, PYTHON, WORKSPACE, WRITABLE, Start, code_of, processes

pytestmark = pytest.mark.engine

ODD = [b"new\nline", b"caf\xe9", b"\xff", b"y" * 255, b"-rf", b" ", b"\x1b[31m"]
MESS = f"""
import os, socket
for name in {ODD!r}:
    open(b"odd/" + name, "wb").write(name)
os.symlink("/etc/passwd", "out")
os.link("src/a.js", "hard")
os.mkfifo("pipe")
socket.socket(socket.AF_UNIX).bind("socket")
open("closed", "w").write("closed")
os.chmod("closed", 0)
os.mkdir("shut"); open("shut/in", "w").write("in"); os.chmod("shut", 0)
open("/home/agent/left", "w").write("left")
os.symlink("/etc", "/tmp/etc")
"""


def agent_did(guest: Guest, script: str) -> dict[str, Any]:
    """Runs the script as the agent in the workspace, then collects."""
    guest.go(*PYTHON, script, cwd=WORKSPACE)
    ended = guest.event("exit")
    assert guest.stdio is not None
    assert ended["code"] == 0, guest.stdio.out
    return guest.call("collect", workspace=WORKSPACE, cap_bytes=10**8, writable=WRITABLE)


def test_whatever_an_agent_leaves_is_collected(prepared: Guest) -> None:
    taken = agent_did(prepared, "import os; os.mkdir('odd')\n" + MESS)
    members = untar(taken["tar"])
    assert {os.fsencode(name) for name in members} >= {b"odd/" + name for name in ODD}
    assert members["out"].issym()
    assert members["closed"].size == 6
    assert members["shut/in"].size == 2
    assert not any(name.split("/")[0] == ".git" for name in members)
    assert [item["path"] for item in taken["skipped"]] == ["pipe", "socket"]
    outside = {item["path"]: item["kind"] for item in taken["outside"]}
    assert outside == {"/home/agent/left": "file", "/tmp/etc": "link"}
    assert not taken["cut"]
    assert not taken["git_changed"]


def test_many_files_are_cut_and_not_waited_for(prepared: Guest) -> None:
    taken = agent_did(prepared, "for n in range(30_000): open(f'f{n}', 'w').close()")
    assert not taken["cut"]
    assert taken["files"] == 30_000 + len(FIXTURE)
    cut = prepared.call("collect", workspace=WORKSPACE, cap_bytes=10**6, writable=[])
    assert cut["cut"]
    assert cut["files"] < 1000


#: Everything that would make git run a program or a test lie, and a fix.
PLANT = """
import os
def put(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    open(path, "w").write(text)
    os.chmod(path, mode)
evil = "#!/bin/sh\\ntouch /tmp/ran /workspace/ran\\n"
config = "[core]\\n fsmonitor = ./evil\\n hooksPath = .\\n"
config += "[filter \\"f\\"]\\n clean = ./evil\\n[diff \\"d\\"]\\n command = ./evil\\n"
put("evil", evil, 0o755)
put(".git/config", config)
put(".git/hooks/post-index-change", evil, 0o755)
put(".gitattributes", "* filter=f diff=d\\n")
put("sub/.git/config", config)
put("sub/.git/HEAD", "ref: refs/heads/main\\n")
put("test/a.test.js", "passes always\\n")
put("test/more.test.js", "passes too\\n")
put("src/a.js", "fixed\\n")
"""


def test_verification_end_to_end(start: Start, prepared: Guest) -> None:
    pins = prepared.call("prove", uid=1000, workspace=WORKSPACE, state_dirs=[])
    assert pins["ok"]
    taken = agent_did(prepared, PLANT)
    assert taken["git_changes"] == ["config", "hooks/post-index-change"]
    command = [
        "bash",
        "-c",
        "cat src/* test/*; ls -a; cat .git/config; ls /tmp /workspace; (setsid sleep 60 &); exit 5",
    ]
    with start("stdio") as verifier:
        verdict = verifier.call(
            "verify",
            fixture="fx",
            tar=tree_archive(FIXTURE),
            tree=None,
            commit=None,
            agent_tar=taken["tar"],
            protected=["test/"],
            command=command,
            env={"PATH": "/usr/bin:/bin"},
            timeout_s=20,
        )
        assert not [line for line in processes(verifier) if "sleep" in line]
    assert verdict["exit_code"] == 5
    assert verdict["output"].startswith("fixed\nt\n")
    assert "fsmonitor" not in verdict["output"]
    assert "more.test.js" not in verdict["output"]
    assert not re.search(r"^ran$", verdict["output"], re.MULTILINE)
    changes = {change["path"]: (change["status"], change["protected"]) for change in verdict["changes"]}
    assert changes == {
        ".gitattributes": ("A", False),
        "evil": ("A", False),
        "src/a.js": ("M", False),
        "sub/.git/HEAD": ("A", False),
        "sub/.git/config": ("A", False),
        "test/a.test.js": ("M", True),
        "test/more.test.js": ("A", True),
    }
    assert b"+fixed" in base64.b64decode(verdict["patch"])


def test_verification_deadline(start: Start) -> None:
    with start("stdio") as verifier:
        verdict = verifier.call(
            "verify",
            fixture="fx",
            tar=tree_archive(FIXTURE),
            tree=None,
            commit=None,
            agent_tar=tree_archive(FIXTURE),
            protected=[],
            command=["sh", "-c", "echo begun; setsid sleep 600 & sleep 600"],
            env={"PATH": "/usr/bin:/bin"},
            timeout_s=0.5,
        )
    assert (verdict["timed_out"], verdict["exit_code"], verdict["output"]) == (True, None, "begun\n")
    assert 500 <= verdict["test_ms"] < 3000
    assert verdict["changes"] == []


def test_a_verifier_writes_nothing_but_its_channel(start: Start) -> None:
    with start("stdio") as verifier:
        marker = secrets.token_hex(8)
        code_of(verifier, marker)
        verifier.call("stop")
        with verifier.channel.changed:
            verifier.channel.changed.wait_for(lambda: verifier.channel.ended, 10)
        assert all(line.startswith(b"{") for line in bytes(verifier.channel.out[1]).splitlines())
        assert verifier.channel.out[2] == b""
