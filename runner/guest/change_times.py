"""When what is in the workspace was last changed, by the kernel's own stamp (ctime), which no program can set.

The stamp is taken from a clock that ticks every few milliseconds, so it is at most that much too early and never late.
"""

from __future__ import annotations

import heapq
import itertools
import os
import stat
import time
from collections.abc import Iterator
from typing import Any

from .channel import Request

#: CLOCK_REALTIME_COARSE of Linux, from which files are stamped; Python has no name for it.
_REALTIME_COARSE = 5
#: Changes that are told, the newest.
_MAX = 1000
#: Clocks that run further apart than this since *go* were set meanwhile.
_STEP_NS = 5_000_000


class ChangeTimes:
    """What has changed since `mark`."""

    def __init__(self) -> None:
        self._since = 0
        self._offset = 0
        self._root: tuple[int, int] | None = None

    def mark(self, workspace: str) -> None:
        """Remember this moment, just before the agent is started."""
        self._since = time.clock_gettime_ns(_REALTIME_COARSE)
        self._offset = _offset()
        self._root = _identity(workspace)

    def list(self, request: Request) -> dict[str, Any]:
        """`change_times` {workspace, skip, within_s} -> {changes: [{path, kind, t_ns}], more, steady}.

        `t_ns`: CLOCK_MONOTONIC. `kind`: `file` (anything but a folder), `folder` (an entry came or went, or it was
        moved), `replaced` (path "": another folder stands in the workspace's place). `skip`: paths below it that are
        not looked at. `more`: there are more than are told, or than could be looked at within `within_s`. `steady`
        false: the wall clock was set since `mark`, so the times say nothing.
        """
        workspace, skip = request.text("workspace"), frozenset(request.texts("skip"))
        offset = _offset()
        deadline = time.monotonic() + request.number("within_s")
        looked = itertools.takewhile(lambda _: time.monotonic() < deadline, self._changed(workspace, skip))
        found = heapq.nlargest(_MAX + 1, (path for path in looked if path is not None))
        return {
            "changes": [{"path": path, "kind": kind, "t_ns": at - offset} for at, path, kind in found[:_MAX]],
            "more": len(found) > _MAX or time.monotonic() >= deadline,
            "steady": abs(offset - self._offset) < _STEP_NS,
        }

    def _changed(self, workspace: str, skip: frozenset[str]) -> Iterator[tuple[int, str, str] | None]:
        """(stamp, path, kind) of what has changed; None for each path that has not."""
        if self._root is not None and _identity(workspace) != self._root:
            yield _ctime(workspace), "", "replaced"
        elif (at := _ctime(workspace)) >= self._since:
            yield at, "", "folder"
        pending = [""]
        while pending:
            folder = pending.pop()
            for name in _names(f"{workspace}/{folder}"):
                path = f"{folder}/{name}" if folder else name
                if path in skip:
                    continue
                try:
                    status = os.lstat(f"{workspace}/{path}")
                except OSError:
                    continue
                is_folder = stat.S_ISDIR(status.st_mode)
                if is_folder:
                    pending.append(path)
                changed = status.st_ctime_ns >= self._since
                yield (status.st_ctime_ns, path, "folder" if is_folder else "file") if changed else None


def _offset() -> int:
    """CLOCK_REALTIME minus CLOCK_MONOTONIC."""
    before = time.monotonic_ns()
    now = time.time_ns()
    return now - (before + time.monotonic_ns()) // 2


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _ctime(path: str) -> int:
    try:
        return os.lstat(path).st_ctime_ns
    except OSError:
        return 0


def _names(folder: str) -> list[str]:
    """Nothing is opened that is closed to us: to do so would be a change."""
    try:
        return os.listdir(folder)
    except OSError:
        return []
