from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from runner.guest import procs

#: Prints a line when its name, which holds what a parser stumbles over, is set.
NAMED = "open('/proc/self/comm', 'w').write('a) R (b c'); print('up', flush=True); import time; time.sleep(60)"


@pytest.fixture
def tree() -> Iterator[subprocess.Popen[bytes]]:
    """A shell with a child, and a grandchild in a session of its own."""
    line = "sleep 60 & setsid sh -c 'sleep 61; :' & echo up; wait"
    child = subprocess.Popen(["sh", "-c", line], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    until(lambda: len(procs.descendants(child.pid)) == 3)
    yield child
    procs.end_all(lambda: procs.descendants(os.getpid()))
    child.stdout.close()
    child.wait()


def until(holds: Callable[[], bool]) -> None:
    """Waits for what must come about."""
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def commands(found: list[procs.Process]) -> list[str]:
    return sorted(procs.command_line(process.pid) for process in found)


def test_descendants_are_found_through_sessions(tree: subprocess.Popen[bytes]) -> None:
    assert commands(procs.descendants(tree.pid)) == ["sh -c sleep 61; :", "sleep 60", "sleep 61"]
    inner = next(p for p in procs.descendants(tree.pid) if procs.command_line(p.pid).startswith("sh"))
    assert commands(procs.descendants(tree.pid, without=[inner.pid])) == ["sleep 60"]


def test_end_all_leaves_nobody(tree: subprocess.Popen[bytes]) -> None:
    pids = [process.pid for process in procs.descendants(tree.pid)]
    assert procs.end_all(lambda: procs.descendants(tree.pid)) == []
    assert len(pids) == 3
    # One whose parent ended first is nobody's descendant here, and may take a moment to end.
    until(lambda: all(procs.snapshot().get(pid, procs.Process(0, 0, 0, "Z")).state in "ZX" for pid in pids))


def test_end_all_gives_up_in_time() -> None:
    """Someone who cannot be killed (here: who does not exist) does not keep us."""
    ghost = procs.Process(2**22 - 1, 0, 0, "D")
    start = time.monotonic()
    assert procs.end_all(lambda: [ghost], limit_s=0.1) == [ghost]
    assert time.monotonic() - start < 1


def test_a_name_cannot_fool_the_parser() -> None:
    child = subprocess.Popen([sys.executable, "-c", NAMED], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    found = procs.snapshot()[child.pid]
    assert (found.parent, found.state in "SR") == (os.getpid(), True)
    assert procs.cpu_s(child.pid) > 0
    assert procs.anonymous_bytes(child.pid) > 1_000_000
    procs.send(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()


def test_who_is_gone_reads_as_nothing() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert not procs.send(child.pid, signal.SIGKILL)
    assert (procs.cpu_s(child.pid), procs.anonymous_bytes(child.pid), procs.read(f"/proc/{child.pid}/stat")) == (
        0,
        0,
        "",
    )


def test_written_bytes() -> None:
    assert procs.written_bytes("rchar: 1\nwrite_bytes: 4096\ncancelled_write_bytes: 0\n") == 4096
    assert procs.written_bytes("") == 0


#: Its main thread ends while another one lives.
LEADERLESS = """
import ctypes, os, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
print("up", flush=True)
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
"""


def test_a_process_without_its_main_thread_lives() -> None:
    with subprocess.Popen([sys.executable, "-c", LEADERLESS], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        until(lambda: procs.snapshot()[child.pid].state == "Z")
        process = procs.snapshot()[child.pid]
        assert process.alive
        assert process in procs.descendants(os.getpid())
        assert procs.command_line(child.pid).startswith(sys.executable)
        child.kill()
        until(lambda: not process.alive)
        assert process not in procs.descendants(os.getpid())


def test_processes_of_one_user() -> None:
    mine = procs.snapshot(os.geteuid())
    assert os.getpid() in mine
    assert os.getpid() not in procs.snapshot(os.geteuid() + 1)


def test_a_name_that_is_not_utf8_keeps_its_bytes() -> None:
    child = subprocess.Popen([b"/bin/sh", b"-c", b"read caf\xe9", b"\xff"], stdin=subprocess.PIPE)
    try:
        until(lambda: "caf" in procs.command_line(child.pid))
        assert os.fsencode(procs.command_line(child.pid)) == b"/bin/sh -c read caf\xe9 \xff"
    finally:
        child.communicate()
