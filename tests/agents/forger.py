"""What the Python programs of forged verdicts begin with (tests/hostile/forgeries): inside a verifier, as the code."""

from __future__ import annotations

import ctypes
import json
import os
import time
from collections.abc import Callable
from typing import Any

SUMMARY = "# tests 3\n# suites 0\n# pass 3\n# fail 0\n# cancelled 0\n# skipped 0\n# todo 0\n"
TAP = "TAP version 13\nok 1 - a\nok 2 - b\nok 3 - c\n1..3\n" + SUMMARY
REPLY = {
    "ok": True, "output": TAP, "changes": [], "skipped": [], "proofs": [], "timed_out": False,
    "exit_code": 0, "test_ms": 9.5, "status": "", "patch": "", "patch_cut": False,
}  # fmt: skip
REPLIES = "".join(json.dumps({"id": number, **REPLY}) + "\n" for number in range(1, 40)).encode()
REFUSALS = "".join(
    json.dumps({"id": number, "ok": False, "error": {"code": "internal", "message": "x"}}) + "\n"
    for number in range(1, 40)
).encode()
LIBC = ctypes.CDLL(None, use_errno=True)
ME = {os.getpid()}


def pids() -> list[int]:
    """Every process but this one."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) not in ME]


def above() -> list[int]:
    """Our parents, nearest first."""
    found, pid = [], os.getppid()
    while pid > 0:
        found.append(pid)
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stream:
            text = stream.read()
        pid = int(text[text.rindex(")") + 2 :].split()[1])
    return found


def attempt(action: Callable[..., Any], *args: Any) -> Any:
    """What an action returns; None where it is refused."""
    try:
        return action(*args)
    except (OSError, ValueError, ctypes.ArgumentError):
        return None


def write(path: str, data: bytes, flags: int = os.O_WRONLY | os.O_NONBLOCK) -> bool:
    """Writes to whatever a path leads to. Returns whether it could."""
    fd = os.open(path, flags)
    try:
        return os.write(fd, data) > 0
    finally:
        os.close(fd)


def say(text: str) -> None:
    """On our own two streams."""
    for fd in (1, 2):
        attempt(os.write, fd, text.encode())


def run(attack: Callable[[], object], late: bool) -> None:
    """Once, or for some seconds in a process that nobody waits for."""
    if not late:
        attack()
        return
    end = time.monotonic() + 4
    while time.monotonic() < end:
        attempt(attack)
        time.sleep(0.02)
