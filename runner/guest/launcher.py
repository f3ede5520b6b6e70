"""Isolated fixtures: the tests run as one user, the code under test as another, and only the guest starts it.

The tests' user reads the workspace but runs nothing of it; the code's user can neither read the tests nor reach their
processes. A test calls `$ACPBENCH_RUN_CODE ARGV...`, which asks here (see run_code.py).
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from .channel import OpError

_MAX_REQUEST = 1 << 20
_REQUEST_S = 10.0
_SIZE = 4
#: As a shell says that a command is not there, and that it cannot be run.
_NOT_FOUND, _REFUSED = 127, 126

#: Starts argv as the code's user with these three descriptors. Returns its pid. Raises OpError `spawn_failed`.
Spawn = Callable[[Sequence[str], tuple[int, int, int]], int]


class _Asked(NamedTuple):
    """What a test wants to have run; `problem` in place of it."""

    argv: list[str]
    streams: list[int]
    problem: str = ""


class Launcher:
    """Serves one test after the other: a second one waits until the first one's program has ended.

    `end_code` kills and reaps every process of the code's user. It is called when a program has ended and when its test
    has gone, so nothing that the code leaves behind meets the next one.
    """

    def __init__(self, path: str, tests_uid: int, spawn: Spawn, end_code: Callable[[], object]) -> None:
        self._tests_uid = tests_uid
        self._spawn = spawn
        self._end_code = end_code
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        os.chmod(path, 0o660)
        self._listener.listen(16)
        #: Written to once, and all waiting ends.
        self._stop_read, self._stop_write = os.pipe2(os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._serve, name="launcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends what runs and takes no more; returns when the code's user has no process."""
        os.write(self._stop_write, b"x")
        self._thread.join()
        self._listener.close()
        for fd in (self._stop_read, self._stop_write):
            os.close(fd)
        self._end_code()

    def _serve(self) -> None:
        while self._stop_read not in _ready(self._listener.fileno(), self._stop_read):
            connection, _ = self._listener.accept()
            with connection:
                if _peer_uid(connection) != self._tests_uid:
                    continue
                with contextlib.suppress(OSError):  # the test has gone
                    connection.sendall(self._answer(connection))

    def _answer(self, connection: socket.socket) -> bytes:
        asked = _receive(connection)
        try:
            if asked.problem:
                return _line(_REFUSED, asked.problem)
            stdin, stdout, stderr = asked.streams
            pid = self._spawn(asked.argv, (stdin, stdout, stderr))
        except OpError as error:
            return _line(_NOT_FOUND if "ENOENT" in str(error) else _REFUSED, str(error))
        finally:
            for fd in asked.streams:
                os.close(fd)
        pidfd = os.pidfd_open(pid)
        try:
            # A test says nothing more: a readable connection is one that has been closed.
            ready = _ready(pidfd, connection.fileno(), self._stop_read)
        finally:
            os.close(pidfd)
        answer = _line(_exit_code(pid)) if pidfd in ready else b""
        self._end_code()
        return answer


def _line(code: int, problem: str = "") -> bytes:
    """What the client reads: an exit code, and why it is ours and not a program's."""
    return " ".join([str(code), *problem.split()]).encode("utf-8", "replace") + b"\n"


def _exit_code(pid: int) -> int:
    """Of a child that has ended; a signal shows as 128 + number, as in a shell."""
    while True:
        _, status = os.waitpid(pid, 0)
        # A child may have made us its tracer; then its stops come before its end.
        if not os.WIFSTOPPED(status):
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _receive(connection: socket.socket) -> _Asked:
    """Four bytes with the length of what follows, words that each have a NUL behind them, and three descriptors."""
    connection.settimeout(_REQUEST_S)
    text, streams = b"", []
    try:
        while len(text) < _SIZE or len(text) < (size := _SIZE + int.from_bytes(text[:_SIZE], "big")):
            # More descriptors than asked for are closed by the kernel.
            data, received, _, _ = socket.recv_fds(connection, 1 << 16, 3, socket.MSG_CMSG_CLOEXEC)
            streams += received
            text += data
            if not data or len(text) > _MAX_REQUEST:
                return _Asked([], streams, "the request has no end")
    except OSError as error:
        return _Asked([], streams, f"not a request: {error}")
    finally:
        connection.settimeout(None)
    *words, rest = text[_SIZE:].split(b"\0")
    if len(text) != size or not words or rest:
        return _Asked([], streams, "not a request: words are wanted")
    if len(streams) != 3:
        return _Asked([], streams, "not a request: three descriptors are wanted")
    return _Asked([os.fsdecode(word) for word in words], streams)


def _ready(*fds: int) -> set[int]:
    """Which descriptors can be read from, or have ended."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return {fd for fd, _ in poll.poll()}


def _peer_uid(connection: socket.socket) -> int:
    _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(uid)
