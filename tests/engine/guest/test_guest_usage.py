"""What is measured of the agent: memory, processor, disk, and its limits."""

from __future__ import annotations

import re

import pytest

from tests.engine.guest.harness import Guest
from tests.engine.guest.steps import PYTHON, WORKSPACE, Start, prepare, processes

pytestmark = pytest.mark.engine


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
