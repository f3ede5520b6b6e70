"""Servers of the session that say when they are ready: sd_notify's datagram `READY=1`, one abstract socket a server.

Whoever is in the container can say it in a server's name. All that follows is that the agent is prompted earlier, which
harms nobody but the agent: so nothing here is proved, and nothing here is evidence.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any

from .channel import Channel, OpError, Request

#: Datagrams that are read of one server before it is no longer listened to, and servers at once.
_MAX_DATAGRAMS = 100
_MAX_SERVERS = 32
_CLOSED_S = 1.0


class Readiness:
    """Listens from `listen` on; each address is told once, by the event `ready`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._listening: list[tuple[socket.socket, threading.Thread]] = []

    def listen(self, request: Request) -> dict[str, Any]:
        """`readiness` {addresses} -> {}, before `go`; then an event `ready` {address} for each. Errors: `bad_request`,
        `listen_failed`.

        `addresses`: as in NOTIFY_SOCKET, `@name`. A later call takes the place of an earlier one.
        """
        addresses = request.texts("addresses")
        if len(addresses) > _MAX_SERVERS or not all(address.startswith("@") for address in addresses):
            raise OpError("bad_request", f"addresses: at most {_MAX_SERVERS}, each beginning with @")
        for old, thread in self._listening:
            with contextlib.suppress(OSError):
                old.shutdown(socket.SHUT_RD)  # its thread reads an end, and closes it
            thread.join(_CLOSED_S)
        self._listening = []
        for address in addresses:
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                listener.bind("\0" + address[1:])
            except OSError as error:
                listener.close()
                raise OpError("listen_failed", f"{address}: {error}") from error
            thread = threading.Thread(target=self._await, args=(address, listener), name="readiness", daemon=True)
            thread.start()
            self._listening.append((listener, thread))
        return {}

    def _await(self, address: str, listener: socket.socket) -> None:
        with listener:
            for _ in range(_MAX_DATAGRAMS):
                said = listener.recv(4096)
                if not said:
                    return
                if b"READY=1" in said.split(b"\n"):
                    self._channel.event("ready", address=address)
                    return
