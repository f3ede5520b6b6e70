"""The host's end of the guest's channel: JSON lines, many calls in flight, events pushed to a listener."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from runner.errors import AgentError, InfraError
from runner.sandbox.stream import AttachedStream

Reply = dict[str, Any]
_STDERR_KEPT = 4096


class GuestGone(InfraError):
    """The guest vanished without being asked to, or what came from it was no guest's."""


class GuestSilent(InfraError):
    """The guest did not answer in time."""


class GuestRefused(Exception):
    """The guest answered `ok: false`; `code` is its word for why (`not_found`, `denied`, ...)."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(f"{code}: {message}")


class GuestChannel:
    """Calls into one guest. Thread-safe; replies are handed out on the channel's reader thread."""

    def __init__(self, stream: AttachedStream, on_event: Callable[[Reply], None], *, name: str) -> None:
        self._stream = stream
        self._on_event = on_event
        self._ids = itertools.count(1)
        self._pending: dict[int, Future[Reply]] = {}
        self._lock = threading.Lock()
        #: Held while a line is written, which may take as long as the guest takes to read; its replies are taken
        #: meanwhile, or it would never come to reading.
        self._writing = threading.Lock()
        self._dead: str | None = None
        self._stderr = b""
        self._reader = threading.Thread(target=self._read, name=name, daemon=True)
        self._reader.start()

    def submit(self, op: str, /, **arguments: Any) -> Future[Reply]:
        """Send a call; the future gives the reply, or raises `GuestRefused` or `GuestGone`."""
        future: Future[Reply] = Future()
        with self._lock:
            if self._dead is not None:
                future.set_exception(GuestGone(self._dead))
                return future
            number = next(self._ids)
            self._pending[number] = future
        line = json.dumps({"id": number, "op": op, **arguments}, ensure_ascii=True) + "\n"
        try:
            with self._writing:
                self._stream.write(line.encode("ascii"))
        except (AgentError, OSError) as problem:
            with self._lock:
                mine = self._pending.pop(number, None)
            if mine is not None:  # else it has been told so
                future.set_exception(GuestGone(f"the guest is gone: {problem}"))
        return future

    def call(self, op: str, within_s: float, /, **arguments: Any) -> Reply:
        """`submit` and wait.

        :raises GuestRefused: the guest said no.
        :raises GuestGone: there is no guest any more.
        :raises GuestSilent: it did not answer in time.
        """
        try:
            return self.submit(op, **arguments).result(within_s)
        except FutureTimeout:
            raise GuestSilent(f"the guest did not answer '{op}' within {within_s:g} s") from None

    def close(self) -> None:
        self._stream.close()
        self._reader.join(timeout=5)

    def _read(self) -> None:
        rest = bytearray()
        for chunk in self._stream.chunks():
            if chunk.channel == "stderr":
                self._stderr = (self._stderr + chunk.data)[-_STDERR_KEPT:]
                continue
            rest += chunk.data
            if b"\n" in chunk.data:
                *lines, tail = rest.split(b"\n")
                rest = bytearray(tail)
                for line in lines:
                    self._dispatch(bytes(line))
        self._die()

    def _dispatch(self, line: bytes) -> None:
        try:
            message: Reply = json.loads(line)
        except ValueError:
            self._stderr = (self._stderr + line + b"\n")[-_STDERR_KEPT:]
            return
        if "event" in message:
            self._on_event(message)
            return
        with self._lock:
            future = self._pending.pop(message.get("id", -1), None)
        if future is None:
            return
        if message.get("ok"):
            future.set_result(message)
        else:
            error = message.get("error") or {}
            future.set_exception(GuestRefused(str(error.get("code")), str(error.get("message"))))

    def _die(self) -> None:
        words = self._stderr.decode("utf-8", "replace").strip().splitlines()
        with self._lock:
            self._dead = "the guest is gone" + (f": {words[-1]}" if words else "")
            pending, self._pending = self._pending, {}
        for future in pending.values():
            with contextlib.suppress(Exception):
                future.set_exception(GuestGone(self._dead))
        self._on_event({"event": "gone", "reason": self._dead})
