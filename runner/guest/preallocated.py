"""What fallocate takes: room on the disk that nobody writes, so that no counter of written bytes ever sees it.

The filter (`seccomp`) tells us of each such call before it is made: the caller waits for our answer. So a file that is
then mapped, unlinked, or sent away over a socket is counted all the same, and what would pass the limit is not done.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
import threading
from collections.abc import Callable

#: SECCOMP_IOCTL_NOTIF_RECV and _SEND (linux/seccomp.h), on `struct seccomp_notif` and `seccomp_notif_resp`.
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_NOTICE = struct.Struct("<QIIiIQ6Q")
_ANSWER = struct.Struct("<QqiI")
_CONTINUE = 1
_SHARED_MEMORY = "/dev/shm"


class Preallocated:
    """Bytes that were asked for since `watch`; what was asked for twice counts twice, as what is written twice does.

    `on_disk` leaves out files in memory (memfd, /dev/shm), as far as a look at the caller's descriptor tells; `total`
    leaves out nothing.
    """

    def __init__(self, listener: int | None) -> None:
        self._listener = listener
        self._limit: int | None = None
        self._on_full: Callable[[], None] = _nothing
        self.on_disk = 0
        self.total = 0

    def start(self) -> None:
        """Answers from now on; without it whoever calls fallocate waits for ever."""
        if self._listener is not None:
            threading.Thread(target=self._serve, args=(self._listener,), name="fallocate", daemon=True).start()

    def watch(self, limit: int, on_full: Callable[[], None]) -> None:
        """Counts from 0; `on_full` is called, on our thread, before the call that would pass the limit is made."""
        self.on_disk = self.total = 0
        self._limit, self._on_full = limit, on_full

    def unwatch(self) -> None:
        self._limit, self._on_full = None, _nothing

    def _serve(self, listener: int) -> None:
        try:
            while True:
                self._answer(listener)
        finally:
            # Whoever waits is told ENOSYS then.
            os.close(listener)

    def _answer(self, listener: int) -> None:
        notice = bytearray(_NOTICE.size)
        try:
            fcntl.ioctl(listener, _RECEIVE, notice)
            ident, pid, _flags, _number, _arch, _ip, fd, _mode, _offset, length, *_ = _NOTICE.unpack(notice)
            size = ctypes.c_int64(length).value
            on_disk = not _in_memory(pid, ctypes.c_int32(fd & 0xFFFFFFFF).value)
            self._count(max(0, size), on_disk)
            try:
                fcntl.ioctl(listener, _SEND, _ANSWER.pack(ident, 0, 0, _CONTINUE))
            except FileNotFoundError:
                # A signal came first: the caller asks again, or it is dead.
                self._count(-max(0, size), on_disk)
        except OSError as error:
            if error.errno not in (errno.EINTR, errno.ENOENT):
                raise

    def _count(self, size: int, on_disk: bool) -> None:
        if self._limit is None:
            return
        self.total += size
        if on_disk:
            self.on_disk += size
            if size > 0 and self.on_disk > self._limit:
                self._on_full()


def _in_memory(pid: int, fd: int) -> bool:
    """Whether a descriptor is of a file in memory; False where we may not look."""
    path = f"/proc/{pid}/fd/{fd}"
    try:
        return os.readlink(path).startswith("/memfd:") or os.stat(path).st_dev == os.stat(_SHARED_MEMORY).st_dev
    except OSError:
        return False


def _nothing() -> None:
    """Nobody is watched."""
