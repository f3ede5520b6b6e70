"""The guest in real containers, driven over its channel as the runner drives it."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

import docker
import pytest

from runner.sandbox.container import GUEST_CAPABILITIES
from runner.sandbox.images import Images
from tests.engine.guest_harness import Guest, GuestFailure, guest_volume, running_guest, tree_archive, untar

pytestmark = pytest.mark.engine

FIXTURE = {"src/a.js": "a\n", "test/a.test.js": "t\n", "bin/run*": "#!/bin/sh\n", ".gitignore": "*.log\n"}
WORKSPACE = "/workspace/fx"
WRITABLE = ["/home/agent", "/tmp", "/var/tmp", "/run/lock", "/dev/shm", "/workspace"]
PYTHON = ("python3", "-I", "-u", "-c")
Start = Callable[..., contextlib.AbstractContextManager[Guest]]


@pytest.fixture(scope="module")
def image(engine: docker.DockerClient) -> str:
    """Base and Node with the user `agent`; any image with python3, git, socat and that user will do."""
    return Images(engine).ensure("node").id


@pytest.fixture(scope="module")
def start(engine: docker.DockerClient, image: str) -> Iterator[Start]:
    with guest_volume(engine, image) as volume:
        yield lambda mode="unix", **options: running_guest(engine, image, volume, mode, **options)


@pytest.fixture
def guest(start: Start) -> Iterator[Guest]:
    with start() as running:
        yield running


@pytest.fixture
def prepared(guest: Guest) -> Guest:
    prepare(guest)
    return guest


def prepare(guest: Guest, **options: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {"fixture": "fx", "tar": tree_archive(FIXTURE), "tree": None, "commit": None, "home": {}}
    return guest.call("prepare", **{**settings, **options})


def prove(guest: Guest, uid: int = 1000, state_dirs: tuple[str, ...] = (".agent",)) -> dict[str, str]:
    """The failed proofs and why."""
    proofs = guest.call("prove", uid=uid, workspace=WORKSPACE, state_dirs=list(state_dirs))["proofs"]
    assert [proof["name"] for proof in proofs] == [
        "network",
        "address-families",
        "user",
        "no-new-privileges",
        "out-of-reach",
        "home",
        "workspace",
        "planted",
        "state",
    ]
    return {proof["name"]: proof["detail"] for proof in proofs if not proof["ok"]}


def code_of(guest: Guest, op: str, **args: Any) -> str:
    with pytest.raises(GuestFailure) as refused:
        guest.call(op, **args)
    return refused.value.code


def processes(guest: Guest) -> list[str]:
    """Command lines of all processes but the listing's own."""
    lines = guest.shell("ps -eo stat=,args=").splitlines()
    return [line for line in lines if "ps -eo" not in line]


# --- preparation and proofs ------------------------------------------------------------------------------------------


def test_all_proofs_hold_in_the_sandbox(guest: Guest) -> None:
    made = prepare(guest, home={".agent/settings.json": "{}"})
    assert all(proof["ok"] for proof in made["proofs"]), made
    assert prove(guest) == {}
    assert guest.shell(f"cd {WORKSPACE} && git status --porcelain --ignored && git log --format=%s") == "fixture fx\n"


def test_tree_and_commit_are_the_same_in_every_container(start: Start) -> None:
    made = []
    for _ in range(2):
        with start() as running:
            made.append(prepare(running))
    assert (made[0]["tree"], made[0]["commit"]) == (made[1]["tree"], made[1]["commit"])


def test_a_pin_that_differs_fails_its_proof(guest: Guest) -> None:
    made = prepare(guest, tree="0" * 40)
    assert [proof["name"] for proof in made["proofs"] if not proof["ok"]] == ["fixture-tree"]
    assert set(prove(guest)) == {"workspace"}


def test_a_network_fails_the_network_proof(start: Start) -> None:
    with start(network="host") as running:
        prepare(running)
        failed = prove(running)
        assert set(failed) == {"network"}
        assert "route" in failed["network"]


def test_capabilities_that_could_be_gained_fail_the_user_proof(start: Start) -> None:
    """Without SETPCAP the guest cannot empty the bounding set of what it starts."""
    with start(capabilities=tuple(set(GUEST_CAPABILITIES) - {"SETPCAP"})) as running:
        prepare(running)
        failed = prove(running)
        assert set(failed) == {"user"}
        assert "CapBnd" in failed["user"]


def test_new_privileges_fail_their_proof(start: Start) -> None:
    with start(security=()) as running:
        prepare(running)
        failed = prove(running)
        assert failed.pop("no-new-privileges") == "NoNewPrivs 0"
        # Without them no filter of ours can be installed, and what opens then must not go unnoticed.
        assert set(failed) == {"address-families"}


@pytest.mark.parametrize(
    ("line", "failed"),
    [
        (f"echo x > {WORKSPACE}/new", {"workspace"}),
        (f"echo x > {WORKSPACE}/x.log", {"workspace"}),
        (f"cd {WORKSPACE} && git -c user.name=a -c user.email=b commit -q --allow-empty -m x", {"workspace"}),
        (f"cd {WORKSPACE} && git remote add origin /x", {"workspace"}),
        ("echo x > /home/agent/left", {"home"}),
        ("mkdir /home/agent/.agent", {"home", "state"}),
        (f"mkdir {WORKSPACE}/.agent", {"state"}),
    ],
)
def test_what_is_dirty_fails_its_proof(prepared: Guest, line: str, failed: set[str]) -> None:
    assert prove(prepared) == {}
    prepared.shell(line)
    assert set(prove(prepared)) == failed


def test_an_unprepared_container_fails(guest: Guest) -> None:
    assert {"home", "workspace"} <= set(prove(guest))


def test_a_hostile_fixture_is_refused(guest: Guest) -> None:
    archive = tree_archive({"../evil": "x"})
    assert code_of(guest, "prepare", fixture="fx", tar=archive, tree=None, commit=None, home={}) == "bad_archive"


# --- the agent's streams, environment and end ------------------------------------------------------------------------


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


# --- processes ------------------------------------------------------------------------------------------------------

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


# --- what is measured -----------------------------------------------------------------------------------------------


def test_memory_and_cpu_are_the_agent_s(prepared: Guest) -> None:
    script = (
        "import time\nblock = bytearray(b'x') * 100_000_000\n"
        "until = time.process_time() + 0.5\nwhile time.process_time() < until: pass\n"
    )
    prepared.go(*PYTHON, script, sample_ms=10)
    ended = prepared.event("exit")
    assert 100 < ended["peak_anon_mb"] < 112
    assert 0.5 < ended["cpu_s"] < 0.75
    assert not ended["oom"]


def test_the_guest_s_own_share_is_not_the_agent_s(prepared: Guest) -> None:
    """While a small agent sleeps, the guest serves a lot, for memory and cpu of its own."""
    prepared.go("sleep", "60", sample_ms=5)
    for number in range(15):
        prepared.call("fs.write", path=f"{WORKSPACE}/big", roots=[WORKSPACE], content="x" * 4_000_000 + str(number))
        prepared.call("fs.read", path=f"{WORKSPACE}/big", roots=[WORKSPACE])
    prepared.call("signal", signal="KILL")
    ended = prepared.event("exit")
    assert ended["peak_anon_mb"] < 3
    assert ended["cpu_s"] < 0.1


def test_bytes_written_are_counted_also_of_the_dead(prepared: Guest) -> None:
    prepared.go("sh", "-c", "for i in 1 2 3 4; do head -c 5000000 /dev/zero > /tmp/f; rm /tmp/f; done")
    assert 20_000_000 <= prepared.event("exit")["bytes_written"] < 22_000_000


UNNAMED = """
import os, time
file = open("/tmp/x", "wb")
os.unlink("/tmp/x")
os.posix_fallocate(file.fileno(), 0, 300_000_000)
time.sleep(60)
"""
FILL = {
    "written": ("sh", "-c", "cat /dev/zero > /tmp/full"),
    "written by a grandchild": ("sh", "-c", "(setsid sh -c 'cat /dev/zero > /home/agent/full' &); sleep 60"),
    "many files, deleted": ("sh", "-c", "while :; do head -c 1000000 /dev/zero > /tmp/f; rm /tmp/f; done"),
    "preallocated": ("sh", "-c", "fallocate -l 300M /tmp/full; sleep 60"),
    "without a name": (*PYTHON, UNNAMED),
    "shared memory": ("sh", "-c", "head -c 60000000 /dev/zero > /dev/shm/full; sleep 60"),
}


@pytest.mark.parametrize("name", FILL)
def test_a_full_disk_ends_the_agent(prepared: Guest, name: str) -> None:
    prepared.go(*FILL[name], disk_bytes=50_000_000)
    ended = prepared.event("exit")
    assert ended["disk_exceeded"]
    assert ended["signal"] == 9
    assert not [line for line in processes(prepared) if re.search(r"\b(sleep|cat|head)\b", line)]


def test_what_stays_below_the_limit_goes_on(prepared: Guest) -> None:
    prepared.go("sh", "-c", "head -c 40000000 /dev/zero > /tmp/f; sleep 1.5", disk_bytes=50_000_000)
    ended = prepared.event("exit")
    assert (ended["disk_exceeded"], ended["code"]) == (False, 0)


def test_out_of_memory_takes_the_agent_and_not_the_guest(start: Start) -> None:
    with start(mem_limit="150m", memswap_limit="150m") as running:
        prepare(running)
        running.go(*PYTHON, "block = []\nwhile True: block.append(bytearray(b'x') * 1_000_000)", sample_ms=5)
        ended = running.event("exit")
        assert (ended["oom"], ended["signal"]) == (True, 9)
        assert ended["peak_anon_mb"] > 60
        running.go("true")
        assert running.event("exit")["code"] == 0


# --- the model forwarder --------------------------------------------------------------------------------------------

SERVER = """
import os, socket, threading, time
server = socket.socket(socket.AF_UNIX)
server.bind("/tmp/model.sock")
server.listen(200)
def serve(peer):
    text = b""
    while chunk := peer.recv(65536):
        text += chunk
    # Longer than the half second after which socat, left to itself, gives a half-closed client up.
    time.sleep(0.8)
    peer.sendall(b"got " + text)
    peer.close()
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""
#: 60 clients at once, each closes its half first and then waits for its answer.
CLIENTS = """
import socket, threading
answers = []
def ask(number):
    s = socket.create_connection(("127.0.0.1", 4010), 5)
    s.sendall(b"%d" % number)
    s.shutdown(socket.SHUT_WR)
    text = b""
    while chunk := s.recv(4096):
        text += chunk
    answers.append(text)
threads = [threading.Thread(target=ask, args=(n,)) for n in range(60)]
[t.start() for t in threads]
[t.join() for t in threads]
print(sorted(answers) == sorted(b"got %d" % n for n in range(60)), flush=True)
"""


def serve(guest: Guest, script: str) -> None:
    """A model at /tmp/model.sock; not the agent's, with which it would end, and open to all as the gateway's is."""
    line = f"umask 0; nohup python3 -I -c '{script}' >/dev/null 2>&1 &"
    guest.shell(f"{line} while [ ! -S /tmp/model.sock ]; do sleep 0.01; done", user="0:0")


@pytest.fixture
def forwarded(prepared: Guest) -> Guest:
    serve(prepared, SERVER)
    prepared.call("forward", listen=4010, socket="/tmp/model.sock")
    return prepared


def test_the_forwarder_carries_half_closed_clients(forwarded: Guest) -> None:
    forwarded.go(*PYTHON, CLIENTS)
    ended = forwarded.event("exit")
    assert forwarded.stdio is not None
    assert forwarded.stdio.settled() == b"True\n", forwarded.stdio.out
    assert ended["survivors"] == []
    assert prove(forwarded).get("network") is None


BREAKING_OFF = """
import os, socket, time
server = socket.socket(socket.AF_UNIX)
server.bind("/tmp/model.sock")
server.listen()
peer = server.accept()[0]
peer.recv(100)
peer.sendall(b"half an ans")
time.sleep(0.1)
peer.close()
time.sleep(60)
"""
#: Never closes its half: it waits for the rest of its answer.
WAITING = """
import socket
s = socket.create_connection(("127.0.0.1", 4010), 5)
s.sendall(b"x")
text = b""
while chunk := s.recv(100):
    text += chunk
print(text, flush=True)
"""


def test_an_end_on_the_models_side_reaches_the_agent(prepared: Guest) -> None:
    serve(prepared, BREAKING_OFF)
    prepared.call("forward", listen=4010, socket="/tmp/model.sock")
    prepared.go(*PYTHON, WAITING)
    ended = prepared.event("exit")
    assert ended["code"] == 0
    assert prepared.stdio is not None
    assert prepared.stdio.settled() == b"b'half an ans'\n", prepared.stdio.out


CONNECT = 'import socket; socket.create_connection(("127.0.0.1", 4010), 5); print("connected")'


def test_an_agent_cannot_kill_the_forwarder(forwarded: Guest) -> None:
    forwarded.go("sh", "-c", f"pkill -9 socat; sleep 0.2; exec python3 -I -c '{CONNECT}'")
    forwarded.event("exit")
    assert forwarded.stdio is not None
    assert forwarded.stdio.settled() == b"connected\n"


def test_a_forwarder_that_dies_is_told_and_connections_are_refused(forwarded: Guest) -> None:
    forwarded.go("sh", "-c", f"read go; exec python3 -I -c '{CONNECT}'")
    forwarded.shell("pkill -f ACCEPT-FD", user="0:0")
    died = forwarded.event("forwarder-died")
    assert died["signal"] == 15 or died["code"] is not None
    assert forwarded.stdio is not None
    forwarded.stdio.write(b"go\n")
    forwarded.event("exit")
    forwarded.stdio.wait_for(b"ConnectionRefusedError", channel=2)


def test_after_the_exit_the_forwarder_is_gone_without_an_event(forwarded: Guest) -> None:
    forwarded.go("true")
    forwarded.event("exit")
    assert not [line for line in processes(forwarded) if "ACCEPT-FD" in line]
    time.sleep(0.1)
    assert forwarded.events.empty()
    forwarded.call("forward", listen=4010, socket="/tmp/model.sock")


def test_forwarding_errors(prepared: Guest) -> None:
    assert code_of(prepared, "forward", listen=4010, socket="/none.sock") == "no_model"
    prepared.shell("nohup python3 -I -m http.server 4011 --bind 127.0.0.1 >/dev/null 2>&1 & sleep 0.5")
    assert code_of(prepared, "forward", listen=4011, socket="/tmp") == "listen_failed"


# --- fs/* -----------------------------------------------------------------------------------------------------------


def test_files_are_served_with_the_agent_s_uid(prepared: Guest) -> None:
    prepared.go("sleep", "60")
    path = f"{WORKSPACE}/new/file.txt"
    wrote = prepared.call("fs.write", path=path, roots=[WORKSPACE], content="ä\n")
    assert wrote["before"] is None
    assert prepared.call("fs.read", path=path, roots=[WORKSPACE]) | {"id": 0} == {
        "id": 0, "ok": True, "content": "ä\n", "size": 3,
    }  # fmt: skip
    assert prepared.shell(f"stat -c '%u %a' {path}; git hash-object {path}").split() == ["1000", "644", wrote["after"]]
    prepared.shell("touch /tmp/root; chmod 600 /tmp/root", user="0:0")
    assert code_of(prepared, "fs.read", path="/tmp/root", roots=["/tmp"]) == "denied"
    assert code_of(prepared, "fs.read", path="/etc/passwd", roots=[WORKSPACE]) == "denied"
    assert code_of(prepared, "fs.read", path=f"{WORKSPACE}/none", roots=[WORKSPACE]) == "not_found"


def test_the_kernel_s_own_confinement_is_there(prepared: Guest) -> None:
    line = "import sys; sys.path.append('/acpbench'); from guest import confine; print(confine.HAS_OPENAT2)"
    assert prepared.shell(f'python3 -I -c "{line}"') == "True\n"


SWAP = """
import os
os.makedirs("real", exist_ok=True)
os.makedirs("/tmp/out", exist_ok=True)
open("real/f", "w").write("inside")
open("/tmp/out/f", "w").write("outside")
print("up", flush=True)
while True:
    for target in ("real", "/tmp/out", "../../tmp/out", "real"):
        os.symlink(target, "next")
        os.rename("next", "swap")
"""


def test_an_agent_that_swaps_links_gets_nothing_in_or_out(prepared: Guest) -> None:
    prepared.go(*PYTHON, SWAP, cwd=WORKSPACE)
    assert prepared.stdio is not None
    prepared.stdio.wait_for(b"up")
    seen = set()
    for _ in range(400):
        with contextlib.suppress(GuestFailure):
            seen.add(prepared.call("fs.read", path=f"{WORKSPACE}/swap/f", roots=[WORKSPACE])["content"])
        with contextlib.suppress(GuestFailure):
            prepared.call("fs.write", path=f"{WORKSPACE}/swap/f", roots=[WORKSPACE], content="inside")
            seen.add("written")
    assert seen == {"inside", "written"}
    assert prepared.shell("cat /tmp/out/f") == "outside"


# --- terminal/* -----------------------------------------------------------------------------------------------------


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


# --- collect and verify ---------------------------------------------------------------------------------------------

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
