"""How much the agent has put on disk: bytes written as the kernel counts them, and the size of what stands there."""

from __future__ import annotations

import os
from collections.abc import Iterator

from . import procs

#: Where the agent can write. All but /dev/shm are one file system, the container's writable layer.
PLACES = ("/workspace", "/home/agent", "/tmp", "/var/tmp", "/run/lock", "/dev/shm")
#: Entries looked at in one walk: beyond it the sum is a lower bound (a million files must not cost the run its cpu).
_WALK_ENTRIES = 50_000
_BLOCK = 512


class Writes:
    """Bytes written since `start`, over all processes: the dead are in our own figure, since we wait for them.

    Our own /proc/self/io is opened before we hide (`system.hide`); afterwards it would not be ours to open.
    """

    def __init__(self) -> None:
        try:
            self._own_io: int | None = os.open("/proc/self/io", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._own_io = None
        self._base = 0

    def start(self) -> None:
        self._base = self._own()

    def total(self, living: list[procs.Process]) -> int | None:
        """None where the kernel does not count. `living` are the processes to add to what the dead have written."""
        if self._own_io is None:
            return None
        return self._own() - self._base + sum(procs.written_bytes(procs.read(f"/proc/{p.pid}/io")) for p in living)

    def _own(self) -> int:
        if self._own_io is None:
            return 0
        return procs.written_bytes(os.pread(self._own_io, 4096, 0).decode("ascii"))


def occupied(places: tuple[str, ...] = PLACES) -> int:
    """Allocated bytes of all files under `places`. Follows no link."""
    total = 0
    for count, size in enumerate(_sizes(places)):
        total += size
        if count >= _WALK_ENTRIES:
            break
    return total


def _sizes(places: tuple[str, ...]) -> Iterator[int]:
    pending = list(places)
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    try:
                        if entry.is_dir(follow_symlinks=False):
                            pending.append(entry.path)
                        yield entry.stat(follow_symlinks=False).st_blocks * _BLOCK
                    except OSError:
                        continue
        except OSError:
            continue


def unlinked(living: list[procs.Process], places: tuple[str, ...] = PLACES) -> int:
    """Allocated bytes of files on the file systems of `places` that have no name any more but are still open."""
    seen: dict[tuple[int, int], int] = {}
    devices = {os.stat(place).st_dev for place in places if os.path.isdir(place)}
    for process in living:
        folder = f"/proc/{process.pid}/fd"
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names[:1024]:
            try:
                status = os.stat(f"{folder}/{name}")
            except OSError:
                continue
            if status.st_nlink == 0 and status.st_dev in devices:
                seen[(status.st_dev, status.st_ino)] = status.st_blocks * _BLOCK
    return sum(seen.values())


def free(place: str) -> int:
    """Free bytes of a file system. The layer's is shared with the whole host: only a hint that something grew."""
    try:
        status = os.statvfs(place)
    except OSError:
        return 0
    return status.f_bfree * status.f_frsize
