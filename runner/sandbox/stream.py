"""A container's stdin, stdout and stderr over one hijacked engine connection: attach, or an exec.

The engine multiplexes stdout and stderr of a container without a TTY into frames: an 8-byte header (stream type, three
zero bytes, big-endian length) and the payload; source: Docker Engine API v1.41, "ContainerAttach", stream format.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from docker import DockerClient

from runner.errors import AgentError

Channel = Literal["stdout", "stderr"]
_CHANNELS: dict[int, Channel] = {1: "stdout", 2: "stderr"}
_HEADER = struct.Struct(">BxxxL")
_READ = 256 * 1024


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes as they came: `t_ns` (CLOCK_MONOTONIC) is stamped right after the read that completed them."""

    channel: Channel
    t_ns: int
    data: bytes


class AttachedStream:
    """Both directions of a container (or exec) without a TTY. One thread reads; any thread writes, one at a time."""

    def __init__(self, connection: Any) -> None:
        # docker-py hands out a SocketIO over the hijacked connection; writing and half-closing need the socket itself.
        self._keep = connection
        self._socket: socket.socket = getattr(connection, "_sock", connection)
        self._socket.settimeout(None)

    @classmethod
    def attach(cls, client: DockerClient, container_id: str, *, stdin: bool = True) -> AttachedStream:
        """Attach to a created container; do it before the start, or early output is lost."""
        params = {"stdin": int(stdin), "stdout": 1, "stderr": 1, "stream": 1}
        return cls(client.api.attach_socket(container_id, params=params))

    @classmethod
    def execute(cls, client: DockerClient, container_id: str, argv: Sequence[str], user: str) -> AttachedStream:
        """Run `argv` as `user` in a running container, with its own three streams."""
        created = client.api.exec_create(container_id, list(argv), stdin=True, user=user)
        return cls(client.api.exec_start(created["Id"], socket=True))

    def write(self, data: bytes, timeout_s: float = 30.0) -> None:
        """Send all of `data`.

        :raises AgentError: the other side does not read, or has closed its end.
        """
        deadline = time.monotonic() + timeout_s
        view = memoryview(data)
        while view:
            try:
                # Not a socket timeout: that would also cut the reader, which may wait for ever.
                sent = self._socket.send(view, socket.MSG_DONTWAIT)
            except BlockingIOError:
                left = deadline - time.monotonic()
                if left <= 0 or not select.select([], [self._socket], [], left)[1]:
                    raise AgentError(f"does not read its standard input: {len(view)} bytes unread") from None
                continue
            except OSError as problem:
                raise AgentError(f"its standard input is closed ({problem.strerror})") from None
            view = view[sent:]

    def half_close(self) -> None:
        """Close the other side's standard input; what it still writes is still read."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def chunks(self) -> Iterator[Chunk]:
        """Yield until the other side ends (a connection cut inside a frame ends it too)."""
        while header := self._exactly(_HEADER.size):
            kind, left = _HEADER.unpack(header)
            channel = _CHANNELS.get(kind, "stdout")
            while left:
                data = self._some(min(left, _READ))
                if not data:
                    return
                left -= len(data)
                yield Chunk(channel, time.monotonic_ns(), data)

    def close(self) -> None:
        """End both directions; a reader blocked in `chunks` returns."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._socket.close()
            self._keep.close()

    def _some(self, limit: int) -> bytes:
        try:
            return self._socket.recv(limit)
        except OSError:
            return b""

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._some(count - len(data))
            if not more:
                return b""
            data += more
        return data
