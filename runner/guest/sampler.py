"""Measures the agent while it runs: memory, cpu and disk, with the guest's own share and its helpers' taken off."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from . import disk, procs
from .cgroup import Cgroup

_MEGABYTE = 1e6
#: Growth of our own memory between two looks that spoils the one between them.
_STEADY_BYTES = 300_000
#: Seconds between looks at what has been written (cheap), and between walks over the files (less so).
_WRITES_EVERY_S = 0.25
_WALK_EVERY_S = 1.0
#: A walk may take this part of one cpu at most.
_WALK_SHARE = 0.05


class Usage(NamedTuple):
    """What the agent's tree has used; None where this machine does not count it. Megabytes are 10^6 bytes."""

    cpu_s: float | None
    peak_anon_mb: float | None
    oom: bool


class Sampler:
    """One agent's measurement: `start` just before its spawn, `usage` at its exit, `stop` afterwards.

    `list_helpers` gives the processes in the container's group that are not the agent's (bridge, forwarder and its
    children), `list_agent` the agent's; `on_full` is called once when more than `disk_bytes` have been written.
    """

    def __init__(
        self,
        cgroup: Cgroup,
        writes: disk.Writes,
        list_helpers: Callable[[], list[int]],
        list_agent: Callable[[], list[procs.Process]],
        on_full: Callable[[], None],
        *,
        sample_s: float,
        disk_bytes: int,
    ) -> None:
        self._cgroup = cgroup
        self._writes = writes
        self._list_helpers = list_helpers
        self._list_agent = list_agent
        self._on_full = on_full
        self._sample_s = sample_s
        self._disk_bytes = disk_bytes
        self._own_pid = os.getpid()
        self._peak = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def start(self) -> None:
        self._writes.start()
        self._places = tuple(place for place in disk.PLACES if os.path.isdir(place))
        self._occupied = disk.occupied(self._places)
        self._free = self._free_bytes()
        self._oom_kills = self._cgroup.oom_kills()
        self._anon = next((value for _ in range(20) if (value := self._foreign_anon()) is not None), None)
        self._cpu = self._foreign_cpu_s()
        self._thread.start()

    def usage(self) -> Usage:
        """Up to now; call it as soon as the agent has ended."""
        self._sample_memory()
        cpu = self._foreign_cpu_s()
        kills = self._cgroup.oom_kills()
        return Usage(
            cpu_s=None if cpu is None or self._cpu is None else round(max(0.0, cpu - self._cpu), 6),
            peak_anon_mb=None if self._anon is None else round(self._peak / _MEGABYTE, 3),
            oom=kills is not None and self._oom_kills is not None and kills > self._oom_kills,
        )

    def written(self) -> int | None:
        """Bytes written since the start; call it when everybody is dead, so that nobody's part is missing."""
        return self._writes.total(self._list_agent())

    def stop(self) -> None:
        self._done.set()

    def _foreign_anon(self) -> int | None:
        """Anonymous memory of all but the guest; None where it is not counted, or ours changed while we looked."""
        before = procs.anonymous_bytes(self._own_pid)
        total = self._cgroup.anonymous_bytes()
        ours = procs.anonymous_bytes(self._own_pid)
        return None if total is None or abs(ours - before) > _STEADY_BYTES else total - ours

    def _foreign_cpu_s(self) -> float | None:
        """Seconds of cpu of all but the guest and its helpers."""
        total = self._cgroup.cpu_s()
        if total is None:
            return None
        return total - time.process_time() - sum(procs.cpu_s(pid) for pid in self._list_helpers())

    def _sample_memory(self) -> None:
        now = self._foreign_anon()
        if now is not None and self._anon is not None:
            self._peak = max(self._peak, now - self._anon)

    def _run(self) -> None:
        next_writes = time.monotonic() + _WRITES_EVERY_S
        next_walk = time.monotonic() + _WALK_EVERY_S
        while not self._done.wait(self._sample_s):
            self._sample_memory()
            now = time.monotonic()
            if now < next_writes:
                continue
            next_writes = now + _WRITES_EVERY_S
            living = self._list_agent()
            written = self._writes.total(living) or 0
            # A preallocated file is written by nobody: a shrinking file system or the walk shows it.
            if now >= next_walk or self._free - self._free_bytes() > self._disk_bytes:
                written = max(written, self._grown(living))
                self._free = self._free_bytes()
                took = time.monotonic() - now
                next_walk = now + max(_WALK_EVERY_S, took / _WALK_SHARE)
            if written > self._disk_bytes and not self._done.is_set():
                self._done.set()
                self._on_full()

    def _grown(self, living: list[procs.Process]) -> int:
        return disk.occupied(self._places) - self._occupied + disk.unlinked(living, self._places)

    def _free_bytes(self) -> int:
        return disk.free(self._places[0]) if self._places else 0
