"""terminal/*: commands that are run for the agent."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.engine.guest.harness import Guest
from tests.engine.guest.steps import WORKSPACE, code_of, processes

pytestmark = pytest.mark.engine


@pytest.fixture
def running(prepared: Guest) -> Guest:
    """An agent that sleeps."""
    prepared.go("sleep", "600", env={"PATH": "/usr/bin:/bin", "FROM_AGENT": "yes"})
    return prepared


def create(guest: Guest, command: str, *args: str, terminal: str = "t", **options: Any) -> int:
    settings: dict[str, Any] = {"env": [], "cwd": WORKSPACE, "limit": 10_000}
    reply = guest.call(
        "terminal.create", terminal=terminal, command=command, args=list(args), **{**settings, **options}
    )
    return int(reply["pid"])


def finished(guest: Guest, terminal: str = "t") -> dict[str, Any]:
    guest.call("terminal.wait", terminal=terminal)
    return guest.call("terminal.output", terminal=terminal)


def test_a_command_s_streams_are_merged(running: Guest) -> None:
    create(running, "sh", "-c", "echo out; echo err >&2; pwd; exit 3")
    done = finished(running)
    assert done["output"] == f"out\nerr\n{WORKSPACE}\n"
    assert (done["truncated"], done["exit"]) == (False, {"exitCode": 3, "signal": None})
    assert running.call("terminal.wait", terminal="t")["exitCode"] == 3


def test_a_whole_shell_line_runs_as_one(running: Guest) -> None:
    create(running, "echo $FROM_AGENT | tr a-z A-Z && echo $MORE", env=[{"name": "MORE", "value": "more"}])
    assert finished(running)["output"] == "YES\nmore\n"


def test_waiting_blocks_nobody(running: Guest) -> None:
    create(running, "sleep", "1")
    waiting = [running.start_call("terminal.wait", terminal="t") for _ in range(10)]
    began = time.monotonic()
    assert running.call("terminal.output", terminal="t")["exit"] is None
    assert running.call("clock")["ok"]
    assert time.monotonic() - began < 0.5
    assert [running.reply(ident)["exitCode"] for ident in waiting] == [0] * 10


def test_output_comes_while_the_command_runs(running: Guest) -> None:
    create(running, "echo first; sleep 600")
    deadline = time.monotonic() + 5
    while not running.call("terminal.output", terminal="t")["output"] and time.monotonic() < deadline:
        time.sleep(0.01)
    assert running.call("terminal.output", terminal="t")["output"] == "first\n"


def test_kill_takes_the_session_and_keeps_the_terminal(running: Guest) -> None:
    create(running, "echo up; sleep 701 & sleep 702")
    time.sleep(0.2)
    running.call("terminal.kill", terminal="t")
    done = finished(running)
    assert (done["output"], done["exit"]) == ("up\n", {"exitCode": None, "signal": "SIGKILL"})
    assert not [line for line in processes(running) if "sleep 70" in line]


def test_release_kills_and_forgets(running: Guest) -> None:
    create(running, "sleep", "701")
    waiting = running.start_call("terminal.wait", terminal="t")
    running.call("terminal.release", terminal="t")
    assert running.reply(waiting)["signal"] == "SIGKILL"
    for op in ("output", "wait", "kill", "release"):
        assert code_of(running, f"terminal.{op}", terminal="t") == "unknown_terminal"
    assert not [line for line in processes(running) if "sleep 701" in line]
    create(running, "true")
    assert finished(running)["exit"]["exitCode"] == 0


@pytest.mark.parametrize("limit", [0, 1, 7, 8, 9, 10, 1000])
def test_the_end_of_the_output_is_kept_at_a_character_s_boundary(running: Guest, limit: int) -> None:
    text = "€" * 3000 + "end"
    create(running, "python3", "-I", "-c", "print('€' * 3000 + 'end', end='')", limit=limit, env=[UTF8])
    done = finished(running)
    assert done["truncated"]
    assert len(done["output"].encode()) <= limit
    assert text.endswith(done["output"])
    assert len(done["output"].encode()) > limit - 3 or limit < 3


UTF8 = {"name": "PYTHONUTF8", "value": "1"}


def test_a_flood_is_bounded_and_slows_nobody(running: Guest) -> None:
    create(running, "yes", limit=1000)
    time.sleep(0.5)
    began = time.monotonic()
    for _ in range(20):
        running.call("clock")
    assert time.monotonic() - began < 1
    done = running.call("terminal.output", terminal="t")
    assert (len(done["output"]), done["truncated"]) == (1000, True)
    running.call("terminal.kill", terminal="t")
    assert finished(running)["exit"]["signal"] == "SIGKILL"


def test_a_child_that_keeps_the_pipe_does_not_keep_the_wait(running: Guest) -> None:
    create(running, "(sleep 701; echo late) & echo early")
    began = time.monotonic()
    assert finished(running)["output"] == "early\n"
    assert time.monotonic() - began < 2


def test_terminal_errors(running: Guest) -> None:
    args: dict[str, Any] = {"args": [], "env": [], "cwd": WORKSPACE, "limit": None}
    assert code_of(running, "terminal.create", terminal="a", command="no-such-program", **args) == "spawn_failed"
    assert (
        code_of(running, "terminal.create", terminal="a", command="true", **{**args, "cwd": "/none"}) == "spawn_failed"
    )
    assert code_of(running, "terminal.output", terminal="a") == "unknown_terminal"
    create(running, "true", terminal="a")
    assert code_of(running, "terminal.create", terminal="a", command="true", **args) == "exists"


def test_terminals_are_no_survivors_and_end_with_the_agent(running: Guest) -> None:
    create(running, "sleep", "701")
    create(running, "sleep 702 & sleep 703", terminal="u")
    waiting = running.start_call("terminal.wait", terminal="t")
    running.shell("pkill -f 'sleep 600'")
    ended = running.event("exit")
    assert ended["survivors"] == []
    assert running.reply(waiting)["signal"] == "SIGKILL"
    assert not [line for line in processes(running) if "sleep" in line]
