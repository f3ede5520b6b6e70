"""The way to the model: socat takes loopback connections and passes them to the gateway's Unix socket."""

from __future__ import annotations

import os
import socket

from . import procs
from .channel import Channel, OpError, Request
from .reaper import Ended, Reaper
from .untrusted import HELPER

#: Agents open many connections at once; with the default of 5 some of them wait a second to send their SYN again.
_BACKLOG = 128
#: After one side has closed its half, wait this long for the other (socat's 0.5 s cuts half-closed clients off).
_LINGER_S = 3600


class Forwarder:
    """At most one at a time. The listening socket is ours until socat has it: whoever connects meanwhile is queued."""

    def __init__(self, channel: Channel, reaper: Reaper) -> None:
        self._channel = channel
        self._reaper = reaper
        self._pid: int | None = None
        self._ending = False

    def forward(self, request: Request) -> dict[str, object]:
        """`forward` {listen, socket} -> {pid}. Errors: `running`, `listen_failed`, `no_model`."""
        port, path = request.number("listen"), request.text("socket")
        if self._pid is not None:
            raise OpError("running", "the forwarder runs already")
        if not os.path.exists(path):
            raise OpError("no_model", f"{path} is not there")
        try:
            listener = _listen(port)
        except OSError as error:
            raise OpError("listen_failed", f"127.0.0.1:{port}: {error}") from error
        with listener:
            fd = listener.fileno()
            self._ending = False
            self._pid = self._reaper.spawn(
                # Without shut-down an end on the model's side does not reach the agent, which then waits for ever.
                ["socat", "-t", str(_LINGER_S), f"ACCEPT-FD:{fd},fork,shut-down", f"UNIX-CONNECT:{path}"],
                self._ended,
                user=HELPER,
                env={"PATH": os.environ.get("PATH", os.defpath)},
                pass_fds=(fd,),
            )
        # Our copy is closed now: were it open, connections to a dead forwarder would hang instead of being refused.
        return {"pid": self._pid}

    def pids(self) -> list[int]:
        """The forwarder and its children, one for each connection."""
        pid = self._pid
        return [] if pid is None else [pid, *(process.pid for process in procs.descendants(pid))]

    def root(self) -> list[int]:
        """The forwarder's own pid, if it runs."""
        return [] if self._pid is None else [self._pid]

    def ending(self) -> None:
        """Announces that its end is ours to answer for, so that no event is sent for it."""
        self._ending = True

    def _ended(self, ended: Ended) -> None:
        self._pid = None
        if not self._ending:
            self._channel.event("forwarder-died", t_ns=ended.t_ns, code=ended.code, signal=ended.signal)


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
