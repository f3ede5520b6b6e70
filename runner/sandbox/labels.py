"""Whose container or volume is it: the labels we set, and whether their owner still lives.

A resource is ours to remove only if it has our labels and its owner is dead; only a proof of death makes it so: another
boot of this machine, no process of that pid, or another process by now (its start time tells a reused pid apart). An
owner that cannot be seen counts as alive until `acpbench.expires`: in a foreign pid namespace, on another host, or with
a start time that we may not read (no /proc, or one mounted with `hidepid` and a process of another user).
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from runner import __version__

LABEL = "acpbench"
_LIFETIME_S = 24 * 3600


_PROC = Path("/proc")
#: Where something could not be read.
_UNKNOWN = "unknown"


def _start_time(pid: int, proc: Path = _PROC) -> str | None:
    """Field 22 of /proc/<pid>/stat, clock ticks since boot (proc(5)); None where it cannot be read."""
    try:
        stat = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[19]


def boot_id() -> str | None:
    """This kernel's boot id (random(4)); None where it cannot be read (another operating system)."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None


def _pid_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return _UNKNOWN


@dataclass(frozen=True, slots=True)
class Owner:
    """A process, told apart from every other one on this host since its boot."""

    boot: str
    namespace: str
    pid: int
    started: str

    @classmethod
    def me(cls) -> Owner:
        pid = os.getpid()
        return cls(boot_id() or _UNKNOWN, _pid_namespace(), pid, _start_time(pid) or _UNKNOWN)

    def __str__(self) -> str:
        return f"{self.boot}|{self.namespace}|{self.pid}|{self.started}"

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        parts = text.split("|")
        if len(parts) != 4 or not parts[2].isdecimal():
            return None
        return cls(parts[0], parts[1], int(parts[2]), parts[3])


def labels(sweep: str, run: str = "") -> dict[str, str]:
    """Labels of a new container or volume of this process."""
    now = int(time.time())
    return {
        LABEL: __version__,
        f"{LABEL}.sweep": sweep,
        f"{LABEL}.run": run,
        f"{LABEL}.owner": str(Owner.me()),
        f"{LABEL}.host": socket.gethostname(),
        f"{LABEL}.started": str(now),
        f"{LABEL}.expires": str(now + _LIFETIME_S),
    }


def is_dead(
    found: Mapping[str, str],
    *,
    me: Owner | None = None,
    now: float | None = None,
    proc: Path = _PROC,
    kill: Callable[[int, int], None] = os.kill,
    platform: str = sys.platform,
) -> bool:
    """Whether the owner named by `found` is dead, or unseen and past its lifetime; False for labels not ours.

    proc, kill, platform: what is asked about a process; tests put others in their place.
    """
    if LABEL not in found or f"{LABEL}.owner" not in found:
        return False
    me = me or Owner.me()
    owner = Owner.parse(found[f"{LABEL}.owner"])
    expires = found.get(f"{LABEL}.expires", "")
    expired = expires.isdecimal() and int(expires) < (now if now is not None else time.time())
    if owner is None or found.get(f"{LABEL}.host") != socket.gethostname():
        return expired
    if owner.boot != me.boot:
        return expired if _UNKNOWN in (owner.boot, me.boot) else True
    # Linux without /proc does not tell its namespaces apart; other systems have none.
    if owner.namespace != me.namespace or (owner.namespace == _UNKNOWN and platform == "linux"):
        return expired
    if not _exists(owner.pid, kill):
        return True
    started = _start_time(owner.pid, proc)
    if started is None or owner.started == _UNKNOWN:
        return expired
    return started != owner.started


def _exists(pid: int, kill: Callable[[int, int], None]) -> bool:
    """Whether there is a process of that pid, whoever's: kill(2) says so whatever `hidepid` hides from /proc."""
    try:
        kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
