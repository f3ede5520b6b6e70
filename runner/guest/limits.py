"""Which limits the test command has reached: memory and processes as the kernel counts them, and disk."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from . import disk, procs
from .cgroup import Cgroup

_EVERY_S = 0.2
#: Free space of the layer is shared with the host: only every so often what stands there is added up without a hint.
_LOOKS_WITHOUT_HINT = 25


class LimitWatch:
    """From entry to exit: counts what the kernel refused, and calls `stop` where the disk limit is passed."""

    def __init__(
        self,
        disk_bytes: int | None,
        stop: Callable[[], object],
        group: Cgroup | None = None,
        places: tuple[str, ...] = disk.PLACES,
    ) -> None:
        self._disk_bytes = disk_bytes
        self._stop = stop
        self._group = Cgroup() if group is None else group
        self._places = places
        self._full = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, name="limits", daemon=True)

    def __enter__(self) -> Self:
        self._oom, self._pids = self._counted()
        if self._disk_bytes is not None:
            self._before = disk.occupied(self._places)
            self._used = disk.used(self._places[0])
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        if self._disk_bytes is not None:
            self._thread.join()

    def reached(self) -> list[str]:
        """Of `memory`, `pids` and `disk` those that were reached since the entry."""
        oom, pids = self._counted()
        found = {"memory": oom > self._oom, "pids": pids > self._pids, "disk": self._full}
        return [name for name, hit in found.items() if hit]

    def _counted(self) -> tuple[int, int]:
        """Processes that the kernel killed for memory, and forks that it refused; 0 where it does not count them."""
        return self._group.oom_kills() or 0, self._group.refused_forks() or 0

    def _look(self) -> None:
        assert self._disk_bytes is not None
        looks = 0
        while not self._ended.wait(_EVERY_S):
            looks += 1
            grown = disk.used(self._places[0]) - self._used
            if grown < self._disk_bytes // 2 and looks % _LOOKS_WITHOUT_HINT:
                continue
            taken = disk.occupied(self._places) + disk.unlinked(list(procs.snapshot().values()), self._places)
            if taken - self._before > self._disk_bytes:
                self._full = True
                self._stop()
                return
