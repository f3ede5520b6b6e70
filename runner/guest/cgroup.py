"""What the kernel has counted for the whole container: cgroup version 1 (several hierarchies) and 2 (one)."""

from __future__ import annotations

import os


class Cgroup:
    """Counters of the container's own group, as the engine mounts it under `/sys/fs/cgroup`.

    Descriptors are kept open and read anew from their start. A counter that this machine does not have is None.
    """

    def __init__(self, root: str = "/sys/fs/cgroup") -> None:
        if os.path.exists(f"{root}/cgroup.controllers"):
            names = ("memory.stat", "cpu.stat", "memory.events", "pids.events")
            self._anon_key, self._cpu_key, self._oom_key = "anon", "usage_usec", "oom_kill"
            self._cpu_unit = 1e-6
        else:
            names = (
                "memory/memory.stat",
                "cpuacct/cpuacct.usage",
                "memory/memory.oom_control",
                "pids/pids.events",
            )
            self._anon_key, self._cpu_key, self._oom_key = "total_rss", "", "oom_kill"
            self._cpu_unit = 1e-9
        self._memory, self._cpu, self._oom, self._pids = (_open(f"{root}/{name}") for name in names)

    def anonymous_bytes(self) -> int | None:
        return _value(self._memory, self._anon_key)

    def cpu_s(self) -> float | None:
        value = _value(self._cpu, self._cpu_key)
        return None if value is None else value * self._cpu_unit

    def oom_kills(self) -> int | None:
        return _value(self._oom, self._oom_key)

    def refused_forks(self) -> int | None:
        """How often the limit of processes was in the way."""
        return _value(self._pids, "max")


def _open(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _value(fd: int | None, key: str) -> int | None:
    """The number after `key` in a file of `key number` lines, or the only number of a file where `key` is empty."""
    if fd is None:
        return None
    try:
        text = os.pread(fd, 1 << 14, 0)
    except OSError:
        return None
    if not key:
        return int(text)
    for line in text.splitlines():
        name, _, value = line.partition(b" ")
        if name == key.encode("ascii"):
            return int(value)
    return None
