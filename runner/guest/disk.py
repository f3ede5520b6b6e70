"""How much the agent has put on disk: bytes written as the kernel counts them, and the size of what stands there.

Written bytes hold all that went through a file, whatever became of it: appended, dirtied through a mapping, unlinked
since. What fallocate takes is in `preallocated`. The walk is for what neither counts: folders, links, attributes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from . import procs

#: Where the agent can write. All but /dev/shm are one file system, the container's writable layer.
PLACES = ("/workspace", "/home/agent", "/tmp", "/var/tmp", "/run/lock", "/dev/shm")
#: It is a file system of its own: what is used of it is asked for, not walked over.
SHARED_MEMORY = "/dev/shm"
_BLOCK = 512
#: An entry of a folder takes an inode, which no block count holds; and a folder takes a block sooner or later.
_ENTRY_BYTES, _FOLDER_BYTES = 512, 4096
#: The kernel takes no path above 4,096 bytes, and a name has 255 at most.
_LONG_PATH = 3800
#: Deepest folders from which a walk goes on (below them it must hold a descriptor): some 4,000 levels of long names.
_MAX_HELD = 256
#: Unlinked inodes that a walk remembers so as to count each once; with more the sum is a lower bound.
_MAX_UNLINKED = 100_000


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

    def unseen(self, living: list[procs.Process]) -> set[int]:
        """Pids of those whose counter we may not read: an executed file that its user may not read makes it so."""
        return {process.pid for process in living if process.alive and not procs.read(f"/proc/{process.pid}/io")}

    def _own(self) -> int:
        if self._own_io is None:
            return 0
        return procs.written_bytes(os.pread(self._own_io, 4096, 0).decode("ascii"))


class Walk:
    """One pass over `places` and over the unlinked files that `living` hold open, a bit at a time.

    It may end early: a sum above `limit` says all that is asked. `incomplete`: it was too deep to look everywhere.
    """

    def __init__(self, places: tuple[str, ...], living: list[procs.Process], limit: int | None = None) -> None:
        self._limit = limit
        self._sizes = self._all(places, living)
        self._held = 0
        #: Device and inode of the unlinked files that are open.
        self.unlinked: set[tuple[int, int]] = set()
        self.total = 0
        self.incomplete = False

    def advance(self, seconds: float) -> bool:
        """Goes on for about that long. True: it has ended."""
        deadline = time.monotonic() + seconds
        for count, size in enumerate(self._sizes, start=1):
            self.total += size
            if self._limit is not None and self.total > self._limit:
                return True
            if count % 64 == 0 and time.monotonic() >= deadline:
                return False
        return True

    def _all(self, places: tuple[str, ...], living: list[procs.Process]) -> Iterator[int]:
        for place in places:
            if place == SHARED_MEMORY:
                yield used(place)
            else:
                yield from self._tree(place)
        yield from _unlinked_sizes(living, places, self.unlinked)

    def _tree(self, root: str) -> Iterator[int]:
        try:
            yield os.stat(root).st_blocks * _BLOCK
        except OSError:
            return
        # The last one first, so that few are pending and a held folder is let go of when all below it is done.
        pending: list[tuple[_Held | None, str]] = [(None, root)]
        while pending:
            held, path = pending.pop()
            if len(path) > _LONG_PATH:
                held = self._hold(path)
                if held is None:
                    self.incomplete = True
                    continue
                path = f"/proc/self/fd/{held.fd}"
            try:
                with os.scandir(path) as entries:
                    for entry in entries:
                        try:
                            if entry.is_dir(follow_symlinks=False):
                                pending.append((held, f"{path}/{entry.name}"))
                                yield max(_FOLDER_BYTES, _allocated(entry.stat(follow_symlinks=False)))
                            else:
                                yield _ENTRY_BYTES + _allocated(entry.stat(follow_symlinks=False))
                        except OSError:
                            continue
            except OSError:
                continue

    def _hold(self, path: str) -> _Held | None:
        if self._held >= _MAX_HELD:
            return None
        try:
            return _Held(self, os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))
        except OSError:
            return None

    def count_held(self, change: int) -> None:
        self._held += change


class _Held:
    """An open folder, below which paths are short again; closed with the last path that goes through it."""

    def __init__(self, walk: Walk, fd: int) -> None:
        self._walk = walk
        self.fd = fd
        walk.count_held(1)

    def __del__(self) -> None:
        os.close(self.fd)
        self._walk.count_held(-1)


def occupied(places: tuple[str, ...] = PLACES) -> int:
    """Allocated bytes of all files under `places`, their folders and themselves. Follows no link."""
    walk = Walk(places, [])
    walk.advance(float("inf"))
    return walk.total


def _allocated(status: os.stat_result) -> int:
    """A file with several names counts once: each name has its part."""
    return status.st_blocks * _BLOCK // max(1, status.st_nlink if not _is_folder(status) else 1)


def _is_folder(status: os.stat_result) -> bool:
    return (status.st_mode & 0o170000) == 0o040000


def unlinked(living: list[procs.Process], places: tuple[str, ...] = PLACES) -> int:
    """Allocated bytes of files on the file systems of `places` that have no name any more but are still open."""
    return sum(_unlinked_sizes(living, places, set()))


def _unlinked_sizes(living: list[procs.Process], places: tuple[str, ...], seen: set[tuple[int, int]]) -> Iterator[int]:
    """0 for what is not one of them: each descriptor is a step of the walk."""
    devices = {os.stat(place).st_dev for place in places if place != SHARED_MEMORY and os.path.isdir(place)}
    for process in living:
        folder = f"/proc/{process.pid}/fd"
        try:
            with os.scandir(folder) as names:
                for name in names:
                    yield _unlinked_size(f"{folder}/{name.name}", devices, seen)
        except OSError:
            continue


def _unlinked_size(path: str, devices: set[int], seen: set[tuple[int, int]]) -> int:
    try:
        status = os.stat(path)
    except OSError:
        return 0
    key = (status.st_dev, status.st_ino)
    if status.st_nlink or status.st_dev not in devices or key in seen or len(seen) >= _MAX_UNLINKED:
        return 0
    seen.add(key)
    return _ENTRY_BYTES + status.st_blocks * _BLOCK


def mapped(
    living: list[procs.Process], places: tuple[str, ...] = PLACES, without: Iterable[tuple[int, int]] = ()
) -> int:
    """At most what files under `places` take that have no name any more and are mapped; each counts once.

    Only how far it is mapped can be seen: a file with holes takes less. `without`: those that are open too, by their
    inodes alone, since a mapping may show the device below the container's layers.
    """
    sizes: dict[tuple[str, int], int] = {}
    counted = {inode for _, inode in without}
    folders = tuple(f"{place}/" for place in places if place != SHARED_MEMORY)
    for process in living:
        try:
            with open(f"/proc/{process.pid}/maps", encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    fields = line.rstrip("\n").split(maxsplit=5)
                    if len(fields) == 6 and fields[5].startswith(folders) and fields[5].endswith(" (deleted)"):
                        start, end = (int(address, 16) for address in fields[0].split("-"))
                        key = (fields[3], int(fields[4]))
                        if key[1] not in counted:
                            sizes[key] = max(sizes.get(key, 0), int(fields[2], 16) + end - start)
        except OSError:
            continue
    return sum(sizes.values())


def used(place: str) -> int:
    """Bytes in use of a file system, by whatever files: named, unlinked, mapped. 0 where it is not there."""
    try:
        status = os.statvfs(place)
    except OSError:
        return 0
    return (status.f_blocks - status.f_bfree) * status.f_frsize


class Room(NamedTuple):
    """What a file system has left. The layer's is shared with the whole host: only a hint that something grew."""

    bytes: int
    inodes: int

    @classmethod
    def of(cls, place: str) -> Room:
        try:
            status = os.statvfs(place)
        except OSError:
            return cls(0, 0)
        return cls(status.f_bfree * status.f_frsize, status.f_ffree)

    def lost_since(self, before: Room) -> int:
        """At most what a walk can find more than at that time."""
        return max(0, before.bytes - self.bytes) + max(0, before.inodes - self.inodes) * _ENTRY_BYTES
