"""What an agent and the code under test can do to ours beside them: nothing; and what becomes of what they leave."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import docker
import pytest

from runner.sandbox.images import Images
from tests.engine.guest.harness import Guest, guest_volume, running_guest, tree_archive
from tests.engine.lab import AGENTS

pytestmark = pytest.mark.engine

WORKSPACE = "/workspace/fx"
PYTHON = ("python3", "-I", "-u", "-c")
ASSAULT = (AGENTS / "assault.py").read_text(encoding="utf-8")
#: What is there of ours in every container: name, user, nice value, scheduling class, state.
OURS = ["docker-init 0 0 TS Ss", "python3 0 -5 TS S<l"]
BRIDGE = "socat 65532 0 TS Ss"
Start = Callable[..., contextlib.AbstractContextManager[Guest]]


@pytest.fixture(scope="module")
def start(engine: docker.DockerClient) -> Iterator[Start]:
    image = Images(engine).ensure("node").id
    with guest_volume(engine, image) as volume:
        yield lambda mode="unix", **options: running_guest(engine, image, volume, mode, **options)


@pytest.fixture
def guest(start: Start) -> Iterator[Guest]:
    with start() as running:
        running.call("prepare", fixture="fx", tar=tree_archive({"a": "a\n"}), tree=None, commit=None, home={})
        yield running


def said(guest: Guest) -> str:
    assert guest.stdio is not None
    return guest.stdio.settled().decode()


def own_processes(guest: Guest) -> list[str]:
    """Name, user, priority and state (who runs counts as one that sleeps) of what is there but the listing."""
    lines = guest.shell("ps -eo comm=,uid=,ni=,cls=,stat=", user="0:0").splitlines()
    lines = [re.sub(" [RD](?=[a-z<]*$)", " S", " ".join(line.split())) for line in lines]
    return sorted(line for line in lines if not line.startswith(("ps", "bash")))


# --- an agent ---------------------------------------------------------------------------------------------------------


def test_an_agent_can_do_nothing_to_ours(guest: Guest) -> None:
    guest.call("forward", listen=4010, socket="/tmp")
    before = own_processes(guest)
    guest.go(*PYTHON, ASSAULT, cwd=WORKSPACE)
    assert guest.event("exit")["code"] == 0
    assert said(guest) == "ASSAULT []\n"
    assert before == [*OURS, BRIDGE, "socat 65534 0 TS Ss"]
    assert own_processes(guest) == [*OURS, BRIDGE]


@pytest.mark.parametrize("number", [9, 19, 15])
def test_a_signal_to_all_reaches_its_own_alone(guest: Guest, number: int) -> None:
    guest.call("forward", listen=4010, socket="/tmp")
    before = own_processes(guest)
    guest.go(*PYTHON, f"import os, time\nif os.fork():\n  os.kill(-1, {number})\ntime.sleep(60)")
    time.sleep(0.5)
    assert guest.call("clock")["ok"]
    assert [line for line in own_processes(guest) if "1000" not in line] == before
    guest.call("signal", signal="KILL")
    assert guest.event("exit")["unkilled"] == 0


def test_streams_can_be_opened_anew_by_name(guest: Guest) -> None:
    """The container's streams are root's; `/dev/stderr` must be the agent's to write to all the same."""
    guest.go("sh", "-c", "echo out > /dev/stdout; echo err > /dev/stderr; cat < /dev/stdin")
    assert guest.stdio is not None
    guest.stdio.write(b"in\n")
    guest.stdio.close_write()
    assert guest.event("exit")["code"] == 0
    assert said(guest) == "out\nin\n"
    assert bytes(guest.stdio.out[2]) == b"err\n"


#: Its main thread ends, another one works on: to /proc it is a zombie. Once the agent is gone it edits a file.
LEADERLESS = f"""
import ctypes, os, threading, time
if os.fork():
    time.sleep(0.3)
    os._exit(0)
os.setsid()
def work():
    while True:
        time.sleep(0.5)
        with open("{WORKSPACE}/late", "a") as file:
            file.write("x")
threading.Thread(target=work).start()
ctypes.CDLL(None).syscall({{"x86_64": 60, "aarch64": 93}}[os.uname().machine], 0)
"""


def test_who_has_no_main_thread_is_a_survivor_and_killed(guest: Guest) -> None:
    guest.go(*PYTHON, LEADERLESS)
    ended = guest.event("exit")
    assert [line[:8] for line in ended["survivors"]] == ["python3 "]
    assert ended["unkilled"] == 0
    time.sleep(1)
    assert "late" not in guest.shell(f"ls {WORKSPACE}")
    taken = guest.call("collect", workspace=WORKSPACE, cap_bytes=10**6, writable=[])
    assert taken["files"] == 1


UNDUMPABLE = """
import ctypes, os, time
if os.fork():
    time.sleep(0.3)
    os._exit(0)
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
time.sleep(600)
"""


def test_who_hides_is_found(guest: Guest) -> None:
    """What is undumpable has files of root's under /proc; its folder there is still its user's."""
    guest.go(*PYTHON, UNDUMPABLE)
    ended = guest.event("exit")
    assert len(ended["survivors"]) == 1
    assert not [line for line in own_processes(guest) if " 1000 " in line]


TRACED = """
import ctypes, os, signal, time
ctypes.CDLL(None).ptrace(0, 0, 0, 0)
os.kill(os.getpid(), signal.SIGUSR1)
time.sleep(600)
"""


@pytest.mark.parametrize("fork", ["", "if os.fork(): os._exit(0)\ntime.sleep(0.3)\n"])
def test_who_makes_the_guest_its_tracer_is_ended(guest: Guest, fork: str) -> None:
    """The agent itself, and an orphan of its, which has come to the guest."""
    guest.go(*PYTHON, "import os, time\n" + fork + TRACED)
    ended = guest.event("exit")
    assert (ended["signal"], ended["code"]) == ((9, None) if not fork else (None, 0))
    assert guest.call("clock")["ok"]
    guest.go("true")
    assert guest.event("exit")["code"] == 0
    assert not [line for line in own_processes(guest) if " 1000 " in line]


#: One process stops all others of its user for ever: also whoever has just become that user and not begun.
STOPPER = """
import os
print("up", flush=True)
while True:
    try:
        os.kill(-1, 19)
    except OSError:
        pass
"""


def test_who_stops_what_is_being_started_does_not_stop_the_guest(guest: Guest) -> None:
    guest.go(*PYTHON, STOPPER)
    assert guest.stdio is not None
    guest.stdio.wait_for(b"up")
    for number in range(20):
        with contextlib.suppress(Exception):
            guest.call("terminal.create", terminal=f"t{number}", command="true", args=[], env=[], cwd="/", limit=None)
    began = time.monotonic()
    assert guest.call("clock")["ok"]
    assert time.monotonic() - began < 5
    guest.call("signal", signal="KILL")
    assert guest.event("exit")["unkilled"] == 0


def test_nothing_is_started_for_an_agent_that_has_ended(guest: Guest) -> None:
    guest.go("true")
    guest.event("exit")
    with pytest.raises(Exception, match="agent_ended"):
        guest.call("terminal.create", terminal="t", command="true", args=[], env=[], cwd="/", limit=None)


def test_terminals_cannot_take_the_agent_s_memory(start: Start) -> None:
    """64 of them, each asked to keep 16 MB and given more: with a reserve of 160 MB, nobody runs out of memory."""
    with start(mem_limit="260m", memswap_limit="260m") as running:
        running.call("prepare", fixture="fx", tar=tree_archive({"a": "a\n"}), tree=None, commit=None, home={})
        running.go("sleep", "600")
        for number in range(64):
            line = "head -c 20000000 /dev/zero"
            running.call(
                "terminal.create", terminal=f"t{number}", command=line, args=[], env=[], cwd="/", limit=1 << 24
            )
        for number in range(64):
            running.call("terminal.wait", terminal=f"t{number}")
        told = [running.call("terminal.output", terminal=f"t{number}") for number in range(64)]
        assert all(one["truncated"] for one in told)
        content = "x" * (8 << 20)
        for _ in range(3):
            running.call("fs.write", path=f"{WORKSPACE}/big", roots=[WORKSPACE], content=content)
            running.call("fs.read", path=f"{WORKSPACE}/big", roots=[WORKSPACE])
        peak = running.shell("grep -h VmHWM /proc/[0-9]*/status | sort -n -k2 | tail -1", user="0:0")
        assert int(peak.split()[1]) < 160_000, peak
        running.call("signal", signal="KILL")
        assert not running.event("exit")["oom"]


# --- the code under test ----------------------------------------------------------------------------------------------


def verify(guest: Guest, *command: str, timeout_s: float = 10) -> dict[str, Any]:
    return guest.call(
        "verify",
        fixture="fx",
        tar=tree_archive({"a": "a\n"}),
        tree=None,
        commit=None,
        agent_tar=tree_archive({"a": "b\n"}),
        protected=[],
        command=list(command),
        env={"PATH": "/usr/bin:/bin"},
        timeout_s=timeout_s,
    )


#: A reply as the guest writes it, to the ids that could be guessed.
FORGED = "\n".join(
    json.dumps({"id": number, "ok": True, "exit_code": 0, "output": "forged", "changes": [], "patch": ""})
    for number in range(5)
)


def test_the_code_under_test_can_do_nothing_to_its_verifier(start: Start) -> None:
    with start("stdio") as verifier:
        verdict = verify(verifier, *PYTHON, ASSAULT, FORGED)
        assert (verdict["exit_code"], verdict["output"]) == (0, "ASSAULT []\n")
        assert [change["path"] for change in verdict["changes"]] == ["a"]
        assert own_processes(verifier) == OURS
        assert verifier.call("clock")["ok"]
        lines = bytes(verifier.channel.out[1]).splitlines()
        assert [json.loads(line).get("id") for line in lines] == [None, 1, 2]


#: What a test command does, and its exit code; None: it is ended for its time.
WORST: dict[str, tuple[str, int | None]] = {
    "kills all": (
        """
os.kill(-1, 9)
os._exit(3)
""",
        3,
    ),
    "kills its parent": (
        """
for pid in (1, os.getppid()):
    try:
        os.kill(pid, 9)
    except OSError:
        pass
os._exit(3)
""",
        3,
    ),
    "stops itself": ("os.kill(os.getpid(), 19)", None),
    "stops all": (
        """
os.kill(-1, 19)
os._exit(3)
""",
        3,
    ),
    "is traced": (
        """
ctypes.CDLL(None).ptrace(0, 0, 0, 0)
os.kill(os.getpid(), 10)
time.sleep(60)
""",
        137,
    ),
    "prints 600 MB": (
        """
block = b"x" * 1_000_000
for _ in range(600):
    os.write(1, block)
os._exit(3)
""",
        3,
    ),
    "closes its streams": (
        """
os.close(1)
os.close(2)
time.sleep(0.2)
os._exit(3)
""",
        3,
    ),
    "leaves daemons": (
        """
for _ in range(20):
    if not os.fork():
        os.setsid()
        os.fork()
        time.sleep(600)
os._exit(3)
""",
        3,
    ),
    "leaves no main thread": (
        """
import threading
threading.Thread(target=time.sleep, args=(600,)).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
""",
        None,
    ),
    "uses up the processes": (
        """
try:
    while True:
        if not os.fork():
            time.sleep(600)
except OSError:
    os._exit(3)
""",
        3,
    ),
    "uses up the memory": (
        """
open("/proc/self/oom_score_adj", "w").write("0")
block = []
while True:
    block.append(bytearray(b"x") * 1_000_000)
""",
        137,
    ),
    "fills shared memory": (
        """
file = open("/dev/shm/full", "wb", buffering=0)
try:
    while True:
        file.write(bytes(1_000_000))
except OSError:
    os._exit(3)
""",
        3,
    ),
    "never ends": ("time.sleep(600)", None),
    "forks without end": (
        """
while True:
    try:
        if os.fork():
            os._exit(3)
    except OSError:
        pass
""",
        3,
    ),
}


@pytest.mark.parametrize("name", WORST)
def test_the_worst_that_tests_can_do_is_their_own_failure(start: Start, name: str) -> None:
    script, code = WORST[name]
    with start("stdio", mem_limit="300m", memswap_limit="300m", pids_limit=100) as verifier:
        text = "import ctypes, os, time\nprint('mark', flush=True)\n" + script
        verdict = verify(verifier, *PYTHON, text, timeout_s=2 if code is None else 30)
        assert (verdict["exit_code"], verdict["timed_out"]) == (code, code is None)
        assert "mark" in verdict["output"] or name == "prints 600 MB"
        assert own_processes(verifier) == OURS
        assert verifier.call("clock")["ok"]


def test_a_program_of_its_own_as_test_command_that_cannot_be_run(start: Start) -> None:
    with start("stdio") as verifier:
        verdict = verify(verifier, "./a")
        assert (verdict["exit_code"], verdict["timed_out"]) == (127, False)
        assert "Permission denied" in verdict["output"]
