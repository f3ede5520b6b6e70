"""Processes of the agent: who is named, who is killed, what none of them can reach."""

from __future__ import annotations

import time

import pytest

from tests.engine.guest.harness import Guest
from tests.engine.guest.steps import FIXTURE, PYTHON, WORKSPACE, WRITABLE, Start, prepare, processes

pytestmark = pytest.mark.engine

#: A child, a grandchild in a session of its own, a double fork, and one that ignores SIGTERM.
FAMILY = "sleep 601 & setsid sleep 602 & (setsid sleep 603 &) ; (trap '' TERM; sleep 604) & "


def test_survivors_are_named_and_killed(prepared: Guest) -> None:
    prepared.go("sh", "-c", FAMILY + "sleep 0.1; exit 0")
    ended = prepared.event("exit")
    assert {f"sleep {number}" for number in (601, 602, 603, 604)} <= set(ended["survivors"])
    assert ended["unkilled"] == 0
    assert not [line for line in processes(prepared) if "sleep" in line]


def test_who_is_just_ending_is_no_survivor(prepared: Guest) -> None:
    prepared.go("sh", "-c", "sleep 0.02 & exit 0")
    assert prepared.event("exit")["survivors"] == []


@pytest.mark.parametrize("name", ["TERM", "KILL"])
def test_a_signal_reaches_the_whole_tree(prepared: Guest, name: str) -> None:
    prepared.go("sh", "-c", "sleep 601 & setsid sleep 602 & (setsid sleep 603 &) ; sleep 605")
    time.sleep(0.2)
    assert prepared.call("signal", signal=name)["signalled"] == 5
    ended = prepared.event("exit")
    assert ended["signal"] == {"TERM": 15, "KILL": 9}[name]
    assert ended["survivors"] == []
    assert not [line for line in processes(prepared) if "sleep" in line]


def test_no_zombie_is_left(prepared: Guest) -> None:
    """Orphans of an agent that forks a lot come to the guest and are reaped while the agent runs."""
    prepared.go("bash", "-c", "for i in {1..200}; do (true &) ; done; echo done; sleep 60")
    assert prepared.stdio is not None
    prepared.stdio.wait_for(b"done")
    time.sleep(0.3)
    lines = processes(prepared)
    assert not [line for line in lines if line.startswith("Z")], lines
    prepared.call("signal", signal="KILL")
    prepared.event("exit")


#: Each process forks the next one and ends: none is there any more when it has been looked for and found. They set off
#: together, once all are made and that is said: they leave little of the machine to anyone. Where no process can be
#: made because those that ended are not reaped yet, it is tried again.
HOPPERS = """
import os
ready, go = os.pipe()
for _ in range(40):
    if not os.fork():
        os.setsid()
        os.close(go)
        os.read(ready, 1)
        while True:
            try:
                if os.fork():
                    os._exit(0)
            except BlockingIOError:
                pass
print("up", flush=True)
os.execvp("sleep", ["sleep", "600"])
"""


def test_who_hops_from_process_to_process_is_ended(prepared: Guest) -> None:
    prepared.go(*PYTHON, HOPPERS)
    assert prepared.stdio is not None
    prepared.stdio.wait_for(b"up")
    time.sleep(0.3)
    prepared.call("signal", signal="KILL")
    assert prepared.event("exit")["unkilled"] == 0
    first = int(prepared.shell("echo $$"))
    time.sleep(0.3)
    assert int(prepared.shell("echo $$")) - first < 50, "processes are still being made"


def test_a_fork_bomb_is_ended(start: Start) -> None:
    with start(pids_limit=80) as running:
        prepare(running)
        running.go("bash", "-c", "bomb() { bomb | bomb & }; bomb; sleep 60")
        time.sleep(0.5)
        began = time.monotonic()
        running.call("signal", signal="KILL")
        ended = running.event("exit")
        assert time.monotonic() - began < 6
        assert ended["unkilled"] == 0
        # Serving goes on, and new processes can be started again.
        assert len(processes(running)) == 3
        files = running.call("collect", workspace=WORKSPACE, cap_bytes=10**6, writable=WRITABLE)["files"]
        assert files == len(FIXTURE)


def test_an_agent_s_kill_all_does_not_take_the_guest(prepared: Guest) -> None:
    prepared.go("sh", "-c", "sleep 600 & kill -TERM -1; kill -TERM 1; sleep 0.2")
    ended = prepared.event("exit")
    assert ended["code"] is not None or ended["signal"] == 15
    assert prepared.call("clock")["ok"]


@pytest.mark.parametrize("line", ["kill -KILL -1", "kill -KILL $(ps -eo pid=)", "kill -KILL 1 $PPID"])
def test_an_agent_can_kill_its_own_alone(prepared: Guest, line: str) -> None:
    prepared.go("sh", "-c", f"sleep 600 & ({line}); kill -KILL $$")
    ended = prepared.event("exit")
    assert (ended["signal"], ended["unkilled"]) == (9, 0)
    assert prepared.call("clock")["ok"]
    assert len(processes(prepared)) == 3


#: What an agent would do to a process of its own uid: argv[1:] are pids; prints what worked.
SPY = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
for pid in map(int, sys.argv[1:]):
    done = []
    for name in ("mem", "environ", "maps", "io"):
        try:
            open(f"/proc/{pid}/{name}", "rb").close()
            done.append(name)
        except OSError:
            pass
    try:
        if os.listdir(f"/proc/{pid}/fd"):
            done.append("fd")
    except OSError:
        pass
    if libc.ptrace(16, pid, 0, 0) == 0:
        done.append("ptrace")
        os.waitpid(pid, 0x40000000)
        libc.ptrace(17, pid, 0, 0)
    try:
        os.kill(pid, 0)
        done.append("kill")
    except OSError:
        pass
    print(pid, *done)
"""


def test_the_guest_and_the_bridge_cannot_be_looked_into(prepared: Guest) -> None:
    """Positive control: a process of the agent's own can be, in every way."""
    pids = dict(line.split()[::-1] for line in prepared.shell("ps -eo pid=,comm=").splitlines())
    line = f"sleep 60 & exec python3 -I -c '{SPY}' $! {pids['python3']} {pids['socat']} {pids['docker-init']}"
    prepared.go("sh", "-c", line)
    prepared.event("exit")
    assert prepared.stdio is not None
    own, *others = (line.split()[1:] for line in prepared.stdio.settled().decode().splitlines())
    assert own == ["mem", "environ", "maps", "io", "fd", "ptrace", "kill"]
    assert others == [[], [], []]


def test_the_channel_s_address_is_closed_to_the_agent(prepared: Guest) -> None:
    script = "import socket; s = socket.socket(socket.AF_UNIX); s.connect(b'\\0acpbench-guest')"
    prepared.go(*PYTHON, script)
    prepared.event("exit")
    assert prepared.stdio is not None
    assert b"ConnectionRefusedError" in prepared.stdio.wait_for(b"Error", channel=2)


def test_the_end_of_the_channel_ends_the_container(prepared: Guest) -> None:
    prepared.go("sh", "-c", "sleep 600 & sleep 600")
    prepared.channel.close()
    assert prepared.client.api.wait(prepared.container, timeout=20)["StatusCode"] == 0


def test_stop_ends_the_container(prepared: Guest) -> None:
    prepared.call("stop")
    assert prepared.client.api.wait(prepared.container, timeout=20)["StatusCode"] == 0
