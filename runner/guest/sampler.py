"""Measures the agent while it runs: memory, cpu and disk, with the guest's own share and its helpers' taken off."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from . import disk, procs
from .cgroup import Cgroup
from .preallocated import Preallocated

_MEGABYTE = 1e6
#: Growth of our own memory between two looks that spoils the one between them.
_STEADY_BYTES = 300_000
#: Seconds between looks at what has been written; what a file system has lost is looked at as often.
_WRITES_EVERY_S = 0.25
#: Seconds between the beginnings of two walks over the files, where nothing hints at a need for one.
_WALK_EVERY_S = 10.0
#: The part of one cpu that a walk may take; and where the file system has lost so much that the limit may be passed.
_WALK_SHARE, _URGENT_SHARE = 0.01, 0.25
#: How long the dead may take to be waited for, once all are dead.
_REAPED_S, _REAPED_STEP_S = 1.0, 0.002
#: A walk that has waited long does not catch up in one go: the guest has other things to do.
_LONGEST_STEP_S = 0.01


class ResourceUsage(NamedTuple):
    """What the agent's tree has used; None where this machine does not count it. Megabytes are 10^6 bytes."""

    cpu_s: float | None
    peak_anon_mb: float | None
    oom: bool


class Sampler:
    """One agent's measurement: `start` just before its spawn, `usage` at its exit, `stop` afterwards.

    `list_helpers` gives the processes in the container's group that are not the agent's (bridge, forwarder and its
    children), `list_agent` the agent's, with those that nobody has waited for yet. `on_full` is called once, when the
    agent has taken more than `disk_bytes` of disk by any of these: bytes written; bytes preallocated (before they are);
    what stands in its places and what of it is open without a name. Where the file system has lost that much too, what
    is mapped without a name counts with the last, what was preallocated in memory counts as if it were on disk, and a
    process that keeps us from reading what it writes is enough.
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
        preallocated: Preallocated | None = None,
    ) -> None:
        self._cgroup = cgroup
        self._writes = writes
        self._list_helpers = list_helpers
        self._list_agent = list_agent
        self._on_full = on_full
        self._sample_s = sample_s
        self._disk_bytes = disk_bytes
        self._preallocated = Preallocated(None) if preallocated is None else preallocated
        self._full = threading.Lock()
        self._own_pid = os.getpid()
        self._peak = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def start(self) -> None:
        self._writes.start()
        self._places = tuple(place for place in disk.PLACES if os.path.isdir(place))
        self._occupied = disk.occupied(self._places)
        self._shared = disk.used(disk.SHARED_MEMORY)
        self._room = self._room_at_walk = self._room_now()
        self._unseen: set[int] = set()
        self._walk: disk.Walk | None = None
        # What the last whole walk found, and what room there was when it began.
        self._walked, self._room_walked = 0, self._room
        self._preallocated.watch(self._disk_bytes, self._tell_full)
        self._oom_kills = self._cgroup.oom_kills()
        self._anon = next((value for _ in range(20) if (value := self._foreign_anon()) is not None), None)
        self._cpu = self._foreign_cpu_s()
        self._thread.start()

    def usage(self) -> ResourceUsage:
        """Up to now; call it as soon as the agent has ended."""
        self._sample_memory()
        cpu = self._foreign_cpu_s()
        kills = self._cgroup.oom_kills()
        return ResourceUsage(
            cpu_s=None if cpu is None or self._cpu is None else round(max(0.0, cpu - self._cpu), 6),
            peak_anon_mb=None if self._anon is None else round(self._peak / _MEGABYTE, 3),
            oom=kills is not None and self._oom_kills is not None and kills > self._oom_kills,
        )

    def written(self) -> int | None:
        """Bytes written since the start; call it when everybody is dead, so that nobody's part is missing."""
        # Whoever is dead and not yet waited for is in neither figure at the moment of its reaping.
        deadline = time.monotonic() + _REAPED_S
        while (left := self._list_agent()) and time.monotonic() < deadline:
            time.sleep(_REAPED_STEP_S)
        return self._writes.total(left)

    def exceeds(self, written: int | None) -> bool:
        """Whether so much was too much: who writes fast and exits is gone before the next look."""
        return (written or 0) > self._disk_bytes

    def stop(self) -> None:
        self._done.set()
        self._preallocated.unwatch()

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
        last = time.monotonic()
        next_look, next_walk = last + _WRITES_EVERY_S, last + min(_WALK_EVERY_S, 1.0)
        while not self._done.wait(self._sample_s):
            self._sample_memory()
            now = time.monotonic()
            if now >= next_look:
                next_look = now + _WRITES_EVERY_S
                living = self._list_agent()
                if self._looks_full(living):
                    self._tell_full()
                    return
                if self._walk is None and (now >= next_walk or self._urgent()):
                    next_walk = now + _WALK_EVERY_S
                    self._room_at_walk = self._room_now()
                    self._walk = disk.Walk(self._places, living, self._occupied + self._disk_bytes)
            if self._walk is not None and self._walks_full(self._walk, now - last):
                self._tell_full()
                return
            last = now

    def _looks_full(self, living: list[procs.Process]) -> bool:
        written = self._writes.total(living) or 0
        if written > self._disk_bytes or disk.used(disk.SHARED_MEMORY) - self._shared > self._disk_bytes:
            return True
        if not self._lost_enough():
            self._unseen = set()
            return False
        # A process that has just been executed, or is just ending, cannot be read for a moment: twice is no moment.
        before, self._unseen = self._unseen, self._writes.unseen(living)
        # What looked like a file in memory when it was preallocated may have been swapped for another one.
        return bool(before & self._unseen) or self._preallocated.total > self._disk_bytes

    def _walks_full(self, walk: disk.Walk, elapsed_s: float) -> bool:
        """Goes on with the walk, for its share of the time that has passed."""
        share = _URGENT_SHARE if self._urgent() else _WALK_SHARE
        if not walk.advance(min(elapsed_s * share, _LONGEST_STEP_S)):
            return False
        self._walk = None
        self._walked, self._room_walked = walk.total - self._occupied, self._room_at_walk
        if self._walked > self._disk_bytes or not self._lost_enough():
            return self._walked > self._disk_bytes
        mapped = disk.mapped(self._list_agent(), self._places, walk.unlinked)
        return walk.incomplete or self._walked + mapped > self._disk_bytes

    def _lost_enough(self) -> bool:
        """Whether the file system has lost as much as the limit: alone it proves nothing, others use it too."""
        return self._room.bytes - self._room_now().bytes > self._disk_bytes

    def _urgent(self) -> bool:
        """Whether the limit may be passed, as far as the last walk and the file system's own figure tell."""
        return self._walked + self._room_now().lost_since(self._room_walked) > self._disk_bytes

    def _tell_full(self) -> None:
        with self._full:
            if self._done.is_set():
                return
            self._done.set()
        self._on_full()

    def _room_now(self) -> disk.Room:
        return disk.Room.of(self._places[0]) if self._places else disk.Room(0, 0)
