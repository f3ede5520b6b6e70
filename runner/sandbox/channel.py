"""The host's end of the guest's channel: JSON lines, many calls in flight, events pushed to a listener.

The guest is ours, and nobody else in its container may write to its channel. Should somebody all the same: a reply is
known by an id that cannot be guessed, and no line, ended or not, takes more than what was asked can need. Whatever is
no guest's word ends the channel.
"""

from __future__ import annotations

import base64
import contextlib
import json
import secrets
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from typing import Any

from runner.errors import AgentError, InfraError
from runner.guest.channel import MAX_TEXT, UTF8
from runner.sandbox.stream import AttachedStream

Reply = dict[str, Any]
_STDERR_KEPT = 4096
#: Bytes of a line: an event, and a reply beside what its call was asked to bring.
_LINE_BYTES = 4 << 20
#: Lists of paths in a reply; the guest bounds each of them (`within`).
_LISTS_BYTES = 24 << 20
#: The patch of a workspace (`runner.guest.verify`).
_PATCH_BYTES = 64 << 20


class GuestGone(InfraError):
    """The guest vanished without being asked to."""


class GuestBroken(GuestGone):
    """What came over its channel was no guest's word."""


class GuestSilent(InfraError):
    """The guest did not answer in time."""


class GuestRefused(Exception):
    """The guest answered `ok: false`; `code` is its word for why (`not_found`, `denied`, ...)."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(f"{code}: {message}")


class _Broken(Exception):
    """What came is no guest's word."""


def reply_bytes(op: str, arguments: Mapping[str, Any]) -> int:
    """What the line of a reply may take, from what was asked."""
    match op:
        case "collect":  # what does not compress grows by less than a thousandth
            return _base64(int(arguments["cap_bytes"]) * 1001 // 1000) + _LISTS_BYTES + _LINE_BYTES
        case "verify":
            return _base64(_PATCH_BYTES) + _LISTS_BYTES + _LINE_BYTES
        case "prepare" | "reset" | "survey":
            return _LISTS_BYTES
        case "fs.read" | "terminal.output":
            return _base64(MAX_TEXT) + _LINE_BYTES
    return _LINE_BYTES


def _base64(size: int) -> int:
    return 4 * (size // 3 + 1)


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that waits for its reply, which may take `most` bytes."""

    future: Future[Reply]
    most: int


class GuestChannel:
    """Calls into one guest. Thread-safe; replies are handed out on the channel's reader thread."""

    def __init__(self, stream: AttachedStream, on_event: Callable[[Reply], None], *, name: str) -> None:
        self._stream = stream
        self._on_event = on_event
        self._pending: dict[str, _Call] = {}
        self._lock = threading.Lock()
        #: Held while a line is written, which may take as long as the guest takes to read; its replies are taken
        #: meanwhile, or it would never come to reading.
        self._writing = threading.Lock()
        self._dead: str | None = None
        self._gone: type[GuestGone] = GuestGone
        self._stderr = b""
        self._reader = threading.Thread(target=self._read, name=name, daemon=True)
        self._reader.start()

    def submit(self, op: str, /, **arguments: Any) -> Future[Reply]:
        """Send a call; the future gives the reply, or raises `GuestRefused` or `GuestGone`."""
        future: Future[Reply] = Future()
        with self._lock:
            if self._dead is not None:
                future.set_exception(self._gone(self._dead))
                return future
            ident = secrets.token_hex(16)
            self._pending[ident] = _Call(future, reply_bytes(op, arguments))
        line = json.dumps({"id": ident, "op": op, **arguments}, ensure_ascii=True) + "\n"
        try:
            with self._writing:
                self._stream.write(line.encode("ascii"))
        except (AgentError, OSError) as problem:
            with self._lock:
                mine = self._pending.pop(ident, None)
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
        broken = ""
        try:
            self._take()
        except _Broken as problem:
            broken = str(problem)
            self._stream.close()
        self._die(broken)

    def _take(self) -> None:
        rest = bytearray()
        for chunk in self._stream.chunks():
            if chunk.channel == "stderr":
                self._stderr = (self._stderr + chunk.data)[-_STDERR_KEPT:]
                continue
            *ends, tail = chunk.data.split(b"\n")
            for end in ends:
                # Handed on as it is, and let go of: a line can be large.
                line, rest = rest, bytearray()
                line += end
                self._dispatch(line)
            rest += tail
            if len(rest) > _LINE_BYTES:
                self._bound(len(rest))

    def _bound(self, size: int) -> None:
        """Nothing that is waited for may be as long as what has come of a line."""
        with self._lock:
            most = max((call.most for call in self._pending.values()), default=_LINE_BYTES)
        if size > most:
            raise _Broken(f"a line of more than {most} bytes")

    def _dispatch(self, line: bytearray) -> None:
        size = len(line)
        self._bound(size)
        try:
            message: Reply = json.loads(line)
            ident, is_event = message.get("id"), "event" in message
        except (ValueError, AttributeError, RecursionError):
            raise _Broken(f"no message: {bytes(line[:80])!r}") from None
        line.clear()
        if is_event:
            if size > _LINE_BYTES:
                raise _Broken(f"an event of {size} bytes")
            self._on_event(message)
            return
        with self._lock:
            call = self._pending.pop(ident, None) if isinstance(ident, str) else None
        if call is None:
            raise _Broken("a reply to no call")
        if size > call.most:
            call.future.set_exception(GuestBroken(f"the guest's channel broke: a reply of {size} bytes"))
            raise _Broken(f"a reply of {size} bytes")
        if message.get("ok") is True:
            call.future.set_result(_with_text(message))
        else:
            error = message.get("error")
            code, told = (error.get("code"), error.get("message")) if isinstance(error, dict) else (None, None)
            call.future.set_exception(GuestRefused(str(code), str(told)))

    def _die(self, broken: str) -> None:
        words = self._stderr.decode("utf-8", "replace").strip().splitlines()
        why = f"the guest's channel broke: {broken}" if broken else "the guest is gone"
        with self._lock:
            self._gone = GuestBroken if broken else GuestGone
            self._dead = why + (f": {words[-1]}" if words else "")
            pending, self._pending = self._pending, {}
        for call in pending.values():
            with contextlib.suppress(Exception):
                call.future.set_exception(self._gone(self._dead))
        self._on_event({"event": "gone", "reason": self._dead})


def _with_text(reply: Reply) -> Reply:
    """Long text comes as base64 of its UTF-8 (`runner.guest.channel.SHORT_TEXT`)."""
    for name in [name for name in reply if name.endswith(UTF8)]:
        reply[name.removesuffix(UTF8)] = base64.b64decode(reply.pop(name)).decode("utf-8", "replace")
    return reply
