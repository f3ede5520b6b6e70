"""Whose container or volume is it: the labels we set, and whether their owner still lives.

A resource is ours to remove only if it has our labels and its owner is dead. An owner of another boot is dead; one in
this pid namespace is looked up in /proc (its start time tells a reused pid apart); one in a foreign namespace or on
another host cannot be seen, so it counts as alive until `acpbench.expires`.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runner import __version__

LABEL = "acpbench"
_LIFETIME_S = 24 * 3600


def _start_time(pid: int) -> str | None:
    """Field 22 of /proc/<pid>/stat, clock ticks since boot (proc(5)); None if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
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
        return "unknown"


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
        return cls(boot_id() or "unknown", _pid_namespace(), pid, _start_time(pid) or "unknown")

    def __str__(self) -> str:
        return f"{self.boot}|{self.namespace}|{self.pid}|{self.started}"

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        parts = text.split("|")
        if len(parts) != 4 or not parts[2].isdigit():
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


def is_dead(found: Mapping[str, str], *, me: Owner | None = None, now: float | None = None) -> bool:
    """Whether the owner named by `found` is dead, or unseen and past its lifetime; False for labels not ours."""
    if LABEL not in found or f"{LABEL}.owner" not in found:
        return False
    me = me or Owner.me()
    owner = Owner.parse(found[f"{LABEL}.owner"])
    expires = found.get(f"{LABEL}.expires", "")
    expired = expires.isdigit() and int(expires) < (now if now is not None else time.time())
    if owner is None or found.get(f"{LABEL}.host") != socket.gethostname():
        return expired
    if owner.boot != me.boot:
        return True
    if owner.namespace != me.namespace:
        return expired
    return _start_time(owner.pid) != owner.started
