"""The agent's streams, its environment and its end."""

from __future__ import annotations

import re
import time

import pytest

from tests.engine.guest.harness import Guest
from tests.engine.guest.steps import PYTHON, WORKSPACE, code_of, prepare

pytestmark = pytest.mark.engine


def test_streams_and_half_close_reach_the_agent(prepared: Guest) -> None:
    prepared.go("sh", "-c", "cat; echo problem >&2; exit 7", cwd=WORKSPACE)
    assert prepared.stdio is not None
    prepared.stdio.write(b"one\n")
    prepared.stdio.wait_for(b"one\n")
    prepared.stdio.write(b"two\n")
    prepared.stdio.wait_for(b"two\n")
    prepared.stdio.close_write()
    ended = prepared.event("exit")
    assert (ended["code"], ended["signal"], ended["survivors"]) == (7, None, [])
    prepared.stdio.wait_for(b"problem\n", channel=2)
    assert prepared.stdio.out == {1: b"one\ntwo\n", 2: b"problem\n"}


SURROUNDINGS = """
import os
print(sorted(os.environ.items()), os.getcwd(), os.getsid(0) == os.getpid())
names = os.listdir("/proc/self/fd")
print(sorted(names)[:3], len(names))
print(open("/proc/self/oom_score_adj").read().strip(), os.getuid())
"""


def test_the_agent_s_surroundings_are_as_asked(prepared: Guest) -> None:
    started = prepared.go(*PYTHON, SURROUNDINGS, env={"A": "b", "PATH": "/usr/bin"}, cwd=WORKSPACE)
    ended = prepared.event("exit")
    assert prepared.stdio is not None
    lines = prepared.stdio.settled().decode().splitlines()
    # LC_CTYPE is set by Python itself (PEP 538).
    assert re.sub(r"\('LC_CTYPE', '[^']*'\), ", "", lines[0]) == f"[('A', 'b'), ('PATH', '/usr/bin')] {WORKSPACE} True"
    # 0, 1, 2 and the folder that is being listed.
    assert lines[1:] == ["['0', '1', '2'] 4", "1000 1000"]
    assert started["spawn_ns"] < ended["exit_ns"]


def test_signals_have_their_defaults_again(prepared: Guest) -> None:
    prepared.go("sh", "-c", "cat /proc/self/status")
    prepared.event("exit")
    assert prepared.stdio is not None
    status = dict(line.split(":\t") for line in prepared.stdio.settled().decode().splitlines())
    assert [int(status[name], 16) for name in ("SigBlk", "SigIgn", "SigCgt")] == [0, 0, 0]


def test_stamps_are_of_the_host_s_clock(prepared: Guest) -> None:
    before = time.monotonic_ns()
    started = prepared.go("sleep", "0.2")
    ended = prepared.event("exit")
    assert before < started["spawn_ns"] < ended["exit_ns"] < time.monotonic_ns()
    assert 0.2e9 < ended["exit_ns"] - started["spawn_ns"] < 1e9


def test_a_program_that_is_not_there(prepared: Guest) -> None:
    args = {"env": {"PATH": "/usr/bin"}, "cwd": "/workspace", "disk_bytes": 10**9, "sample_ms": 50}
    assert code_of(prepared, "go", argv=["no-such-agent"], **args) == "spawn_failed"
    assert code_of(prepared, "go", argv=[], **args) == "bad_request"
    assert code_of(prepared, "go", argv=["true"], **{**args, "cwd": "/none"}) == "spawn_failed"
    prepared.go("true")
    assert prepared.event("exit")["code"] == 0


def test_one_agent_at_a_time_and_another_afterwards(prepared: Guest) -> None:
    prepared.go("sleep", "60")
    args = {"argv": ["true"], "env": {}, "cwd": "/", "disk_bytes": 1, "sample_ms": 50}
    assert code_of(prepared, "go", **args) == "agent_running"
    assert code_of(prepared, "collect", workspace=WORKSPACE, cap_bytes=10**6, writable=[]) == "agent_running"
    prepared.call("signal", signal="KILL")
    assert prepared.event("exit")["signal"] == 9
    prepared.go("sh", "-c", "echo again")
    assert prepared.event("exit")["code"] == 0
    assert prepared.stdio is not None
    prepared.stdio.wait_for(b"again\n")


def test_after_forward_no_preparation(guest: Guest) -> None:
    prepare(guest)
    guest.go("true")
    guest.event("exit")
    assert code_of(guest, "prepare", fixture="b", tar="", tree=None, commit=None, home={}) == "too_late"
