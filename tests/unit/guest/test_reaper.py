"""The reaper waits for every child of its process, so each test runs it in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HEAD = """
import os, queue, subprocess, sys, threading, time, warnings
warnings.simplefilter("error")
# Python 3.12 and later warn of every fork beside threads; see runner/guest/spawn.py.
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
from runner.guest import procs, system
from runner.guest.channel import OpError
from runner.guest.reaper import Reaper
from runner.guest.untrusted import AGENT
system.adopt_orphans()
reaper, ended = Reaper(), queue.SimpleQueue()
reaper.start()
env = {"PATH": os.environ["PATH"]}
"""


def run(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", HEAD + script], cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    return done.stdout.decode()


def test_each_end_is_told_once_and_to_the_right_one() -> None:
    script = """
for number in range(60):
    line = f"exit {number}" if number % 3 else "kill -9 $$"
    reaper.spawn(["sh", "-c", line], lambda end, number=number: ended.put((number, end)), user=AGENT, env=env)
for number, end in sorted(ended.get(timeout=20) for _ in range(60)):
    assert (end.code, end.signal) == ((number, None) if number % 3 else (None, 9)), (number, end)
    assert end.cpu_s >= 0 and end.t_ns <= time.monotonic_ns()
print(ended.empty())
"""
    assert run(script) == "True\n"


def test_orphans_are_reaped_and_nobody_is_told() -> None:
    script = """
reaper.spawn(["sh", "-c", "for i in 1 2 3 4 5; do (sleep 0.1 &); done"], ended.put, user=AGENT, env=env)
ended.get(timeout=20)
deadline = time.monotonic() + 20
while any(p.parent == os.getpid() for p in procs.snapshot().values()) and time.monotonic() < deadline:
    time.sleep(0.02)
print([p for p in procs.snapshot().values() if p.parent == os.getpid()], ended.empty())
"""
    assert run(script) == "[] True\n"


def test_a_program_that_cannot_be_started_leaves_it_working() -> None:
    script = """
for argv in (["no-such-program"], ["/"], ["a\\0b"]):
    try:
        reaper.spawn(argv, ended.put, user=AGENT, env=env)
    except OpError as error:
        print(error.code)
reaper.spawn(["true"], ended.put, user=AGENT, env=env)
print(ended.get(timeout=20).code)
"""
    assert run(script) == "spawn_failed\nspawn_failed\nspawn_failed\n0\n"


def test_cpu_of_waited_children_is_in_their_parent_s() -> None:
    script = """
burn = "import time\\nwhile time.process_time() < 0.3: pass"
reaper.spawn(["sh", "-c", f"{sys.executable} -c '{burn}'; true"], ended.put, user=AGENT, env=env)
print(0.25 < ended.get(timeout=20).cpu_s < 2)
"""
    assert run(script) == "True\n"


def test_who_makes_us_its_tracer_is_ended() -> None:
    """A signal would stop it until we let it go on, and its stop is no end."""
    script = """
traced = "import ctypes, os, time; ctypes.CDLL(None).ptrace(0, 0, 0, 0); os.kill(os.getpid(), 10); time.sleep(60)"
reaper.spawn([sys.executable, "-c", traced], ended.put, user=AGENT, env=env)
print(ended.get(timeout=20).signal)
reaper.spawn(["true"], ended.put, user=AGENT, env=env)
print(ended.get(timeout=20).code)
"""
    assert run(script) == "9\n0\n"


def test_what_has_ended_is_not_started_again() -> None:
    script = """
reaper.refuse(True)
try:
    reaper.spawn(["true"], ended.put, user=AGENT, env=env)
except OpError as error:
    print(error.code)
reaper.refuse(False)
reaper.spawn(["true"], ended.put, user=AGENT, env=env)
print(ended.get(timeout=20).code)
"""
    assert run(script) == "agent_ended\n0\n"
