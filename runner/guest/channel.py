"""The channel to the host: JSON lines in both directions, requests handed to handlers, replies in any order."""

from __future__ import annotations

import base64
import json
import os
import queue
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

#: Bytes encoded at a time when a reply carries a blob; a multiple of 3, so that the pieces join to one base64 text.
_BLOB_STEP = 3 * (1 << 18)
#: Text up to this is sent as JSON text. Longer text is sent as base64 of its UTF-8 in a member `<name>#utf8`: as JSON
#: it could take six bytes for one, several times over, while the container's memory is the agent's too.
SHORT_TEXT = 1 << 16
#: Text that is taken or given in one message. It is held several times over, here in memory that is the agent's too
#: (`sandbox.container.GUEST_RESERVE_MB`), and as JSON on its way to the agent it must stay below the wire's 64 MiB.
MAX_TEXT = 8 << 20
#: Added to a member's name where its value is base64 of UTF-8.
UTF8 = "#utf8"
#: Slow operations that may run at once. Started before the agent: it may use up the container's process limit.
_WORKERS = 3


class OpError(Exception):
    """An operation cannot be done; `code` is for programs, the message for people."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class Channel:
    """Two descriptors, one line an object. Writing is thread-safe; reading belongs to one thread."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._lock = threading.Lock()

    def lines(self) -> Iterator[bytearray]:
        """Every line without its line feed, until the host closes; a last line without one is dropped."""
        buffer = bytearray()
        while True:
            try:
                chunk = os.read(self._read_fd, 1 << 20)
            except ConnectionError:
                return
            if not chunk:
                return
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                # Handed on as it is, and let go of: a line can be large.
                line, buffer = buffer, bytearray()
                line += end
                yield line
                del line
            buffer += rest

    def send(self, message: dict[str, Any], blobs: Mapping[str, bytes | IO[bytes]] | None = None) -> None:
        """Writes one object. `blobs` become base64 members, encoded piece by piece so that no second copy is held.

        A file is read from where it stands.

        Text is escaped to ASCII: names that are not UTF-8 (surrogate escapes) pass as `\\udcXX` and come out alike.
        """
        head = json.dumps(message, separators=(",", ":")).encode("ascii")
        with self._lock:
            if not blobs:
                self._write(head + b"\n")
                return
            self._write(head[:-1])
            for name, blob in blobs.items():
                self._write(b"," + json.dumps(name).encode("ascii") + b':"')
                for piece in _pieces(blob):
                    self._write(base64.b64encode(piece))
                self._write(b'"')
            self._write(b"}\n")

    def event(self, name: str, **fields: Any) -> None:
        self.send({"event": name, **fields})

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._write_fd, view) :]


def _pieces(blob: bytes | IO[bytes]) -> Iterator[bytes | memoryview]:
    """Each of `_BLOB_STEP` bytes but the last one."""
    if isinstance(blob, bytes):
        view = memoryview(blob)
        yield from (view[start : start + _BLOB_STEP] for start in range(0, len(view), _BLOB_STEP))
        return
    while piece := blob.read(_BLOB_STEP):
        yield piece


class Request:
    """One request: its arguments by type (a wrong one is `bad_request`) and its one reply."""

    def __init__(self, channel: Channel, ident: Any, args: dict[str, Any]) -> None:
        self._channel = channel
        self._ident = ident
        self.args = args

    def reply(self, result: dict[str, Any], blobs: Mapping[str, bytes | IO[bytes]] | None = None) -> None:
        self._channel.send({"id": self._ident, "ok": True, **result}, blobs)

    def reply_text(self, name: str, text: bytes, **result: Any) -> None:
        """Replies with text as UTF-8 in the member `name`, and `result`; see `SHORT_TEXT`."""
        if len(text) <= SHORT_TEXT:
            self.reply({name: text.decode("utf-8"), **result})
        else:
            self.reply(result, {name + UTF8: text})

    def fail(self, code: str, message: str) -> None:
        self._channel.send({"id": self._ident, "ok": False, "error": {"code": code, "message": message}})

    def event(self, name: str, **fields: Any) -> None:
        """Tells the host, before the reply, how far it is."""
        self._channel.event(name, **fields)

    def text(self, name: str) -> str:
        value: str = self._typed(name, str)
        return value

    def optional_text(self, name: str) -> str | None:
        return None if self.args.get(name) is None else self.text(name)

    def number(self, name: str) -> int:
        value: int = self._typed(name, int)
        return value

    def optional_number(self, name: str) -> int | None:
        return None if self.args.get(name) is None else self.number(name)

    def texts(self, name: str) -> list[str]:
        values: list[Any] = self._typed(name, list)
        if not all(isinstance(value, str) for value in values):
            raise OpError("bad_request", f"{name}: a list of strings is wanted")
        return values

    def objects(self, name: str) -> list[dict[str, Any]]:
        """A list of objects; absent is empty."""
        values: list[Any] = self._typed(name, list) if name in self.args else []
        if not all(isinstance(value, dict) for value in values):
            raise OpError("bad_request", f"{name}: a list of objects is wanted")
        return values

    def text_map(self, name: str) -> dict[str, str]:
        values: dict[str, Any] = self._typed(name, dict)
        if not all(isinstance(value, str) for value in values.values()):
            raise OpError("bad_request", f"{name}: a map of strings is wanted")
        return values

    def blob(self, name: str) -> bytes:
        """A base64 argument; it is let go of, since it can be large."""
        text = self.text(name)
        del self.args[name]
        try:
            return base64.b64decode(text, validate=True)
        except ValueError as error:
            raise OpError("bad_request", f"{name}: not base64: {error}") from error

    def utf8(self, name: str) -> bytes:
        """A text argument as UTF-8; see `SHORT_TEXT`. Half of a surrogate pair, which JSON can carry and UTF-8 cannot,
        becomes U+FFFD as in JavaScript."""
        return self.blob(name + UTF8) if name + UTF8 in self.args else utf8(self.text(name))

    def _typed(self, name: str, kind: type) -> Any:
        value = self.args.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise OpError("bad_request", f"{name}: {kind.__name__} is wanted, not {type(value).__name__}")
        return value


def utf8(text: str) -> bytes:
    """See `Request.utf8`."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode("utf-8")


def within(items: list[Any], max_bytes: int) -> list[Any]:
    """As many of the first items as fit into a reply: names can be long, and each byte of one can take six."""
    left = max_bytes
    for count, item in enumerate(items):
        left -= len(json.dumps(item)) + 1
        if left < 0:
            return items[:count]
    return items


#: Answers with a result, or with None when it has replied or will reply itself.
Handler = Callable[[Request], dict[str, Any] | None]


class Dispatcher:
    """Reads requests and runs their handlers: quick ones at once in the reading thread, slow ones in workers."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._handlers: dict[str, tuple[Handler, bool]] = {}
        self._slow: queue.SimpleQueue[tuple[Handler, Request]] = queue.SimpleQueue()

    def register(self, op: str, handler: Handler, *, slow: bool = False) -> None:
        self._handlers[op] = (handler, slow)

    def run(self) -> None:
        """Serves until the host closes the channel."""
        for number in range(_WORKERS):
            threading.Thread(target=self._work, name=f"worker-{number}", daemon=True).start()
        for line in self._channel.lines():
            self._take(line)

    def _take(self, line: bytearray) -> None:
        try:
            message = json.loads(line)
            line.clear()  # it can be large, and the operation has its arguments
            ident, op = message.pop("id"), message.pop("op")
        except (ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
            self._channel.event("bad-request", message=f"not a request: {error!r}")
            return
        request = Request(self._channel, ident, message)
        handler, slow = self._handlers.get(op, (_unknown, False)) if isinstance(op, str) else (_unknown, False)
        if slow:
            self._slow.put((handler, request))
        else:
            _answer(handler, request)

    def _work(self) -> None:
        while True:
            handler, request = self._slow.get()
            _answer(handler, request)
            del handler, request


def _unknown(request: Request) -> dict[str, Any]:
    raise OpError("unknown_op", "no such operation")


def _answer(handler: Handler, request: Request) -> None:
    """Runs a handler; whatever it raises becomes the error reply."""
    try:
        result = handler(request)
    except OpError as error:
        request.fail(error.code, str(error))
    except ConnectionError:
        raise
    except Exception as error:  # noqa: BLE001 - an operation must never end the guest
        where = traceback.extract_tb(error.__traceback__)[-1]
        request.fail("internal", f"{error!r} at {os.path.basename(where.filename)}:{where.lineno}")
    else:
        if result is not None:
            request.reply(result)
