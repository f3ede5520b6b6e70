"""The channel to the host: JSON lines in both directions, requests handed to handlers, replies in any order."""

from __future__ import annotations

import base64
import json
import os
import queue
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

#: Bytes encoded at a time when a reply carries a blob; a multiple of 3, so that the pieces join to one base64 text.
_BLOB_STEP = 3 * (1 << 18)
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

    def lines(self) -> Iterator[bytes]:
        """Every line without its line feed, until the host closes; a last line without one is dropped."""
        buffer = bytearray()
        while True:
            try:
                chunk = os.read(self._read_fd, 1 << 20)
            except ConnectionError:
                return
            if not chunk:
                return
            seen = len(buffer)
            buffer += chunk
            start = 0
            while (end := buffer.find(b"\n", max(start, seen))) >= 0:
                yield bytes(buffer[start:end])
                start = end + 1
            del buffer[:start]

    def send(self, message: dict[str, Any], blobs: dict[str, bytes] | None = None) -> None:
        """Writes one object. `blobs` become base64 members, encoded piece by piece so that no second copy is held.

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
                view = memoryview(blob)
                for start in range(0, len(view), _BLOB_STEP):
                    self._write(base64.b64encode(view[start : start + _BLOB_STEP]))
                self._write(b'"')
            self._write(b"}\n")

    def event(self, name: str, **fields: Any) -> None:
        self.send({"event": name, **fields})

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._write_fd, view) :]


class Request:
    """One request: its arguments by type (a wrong one is `bad_request`) and its one reply."""

    def __init__(self, channel: Channel, ident: Any, args: dict[str, Any]) -> None:
        self._channel = channel
        self._ident = ident
        self.args = args

    def reply(self, result: dict[str, Any], blobs: dict[str, bytes] | None = None) -> None:
        self._channel.send({"id": self._ident, "ok": True, **result}, blobs)

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

    def _typed(self, name: str, kind: type) -> Any:
        value = self.args.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise OpError("bad_request", f"{name}: {kind.__name__} is wanted, not {type(value).__name__}")
        return value


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

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
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
