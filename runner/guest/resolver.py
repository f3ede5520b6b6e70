"""A name server of the run's own on loopback: it answers nothing, and what it logs says which names the agent tried."""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from typing import Any

from .channel import OpError, Request
from .reaper import Ended, Reaper
from .untrusted import HELPER

#: A host name has at most 253 characters; whoever asks for more names than this is not read further.
_MAX_NAME = 255
_MAX_NAMES = 1000
_TABLE = "/proc/net/udp"
#: Port 53 as it stands there.
_PORT = ":0035"
_READY_S = 5.0
_READY_STEP_S = 0.005


class NameServer:
    """At most one at a time. Its log comes through a pipe of ours, so that no file of it is the agent's to change."""

    def __init__(self, reaper: Reaper) -> None:
        self._reaper = reaper
        self._pid: int | None = None
        self._names: dict[str, int] = {}
        self._reader: threading.Thread | None = None
        self._ended_ns: int | None = None

    def resolve(self, request: Request) -> dict[str, Any]:
        """`resolve` {argv, query} -> {pid}, once it listens. Errors: `running`, `bad_request`, `not_ready`.

        `query`: what a line of its log looks like that tells of a question; its first group is the name.
        """
        argv = request.texts("argv")
        try:
            query = re.compile(request.text("query"))
        except re.error as error:
            raise OpError("bad_request", f"query: {error}") from error
        if self._pid is not None:
            raise OpError("running", "the resolver runs already")
        self._names, self._ended_ns = {}, None
        reading, writing = os.pipe()
        try:
            self._pid = self._reaper.spawn(
                argv,
                self._ended,
                user=HELPER,
                env={"PATH": os.environ.get("PATH", os.defpath)},
                stdout=writing,
                stderr=writing,
            )
        except OpError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        if self._over():
            self._pid = None
        self._reader = threading.Thread(target=self._read, args=(reading, query), name="resolver", daemon=True)
        self._reader.start()
        self._await_port()
        return {"pid": self._pid}

    def names(self, request: Request) -> dict[str, Any]:
        """`names` {} -> {names: {name: questions}, ended_ns}: after the agent's exit, when the log has come to its end.

        `ended_ns`: when the resolver did; a moment before the agent's exit means that names may be missing.
        """
        if self._reader is not None:
            self._reader.join(_READY_S)
        return {"names": dict(sorted(self._names.items())), "ended_ns": self._ended_ns}

    def root(self) -> list[int]:
        """Its pid, if it runs."""
        return [] if self._pid is None else [self._pid]

    def _read(self, fd: int, query: re.Pattern[str]) -> None:
        # The machine's own name is no host that anybody tries to reach.
        own = socket.gethostname().lower()
        with open(fd, encoding="utf-8", errors="replace") as log:
            for line in log:
                found = query.search(line)
                name = found.group(1).rstrip(".").lower()[:_MAX_NAME] if found is not None else ""
                if name not in ("", own) and (name in self._names or len(self._names) < _MAX_NAMES):
                    self._names[name] = self._names.get(name, 0) + 1

    def _await_port(self) -> None:
        deadline = time.monotonic() + _READY_S
        while not _listening():
            if self._over() or time.monotonic() > deadline:
                raise OpError("not_ready", "the resolver does not listen on port 53")
            time.sleep(_READY_STEP_S)

    def _over(self) -> bool:
        return self._ended_ns is not None

    def _ended(self, ended: Ended) -> None:
        self._ended_ns = ended.t_ns
        self._pid = None


def _listening() -> bool:
    try:
        with open(_TABLE, encoding="ascii") as table:
            return any(fields[1].endswith(_PORT) for line in table if len(fields := line.split()) > 1)
    except OSError:
        return False
