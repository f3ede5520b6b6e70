"""The conversation with a running gateway: JSON lines over its container's own streams. Knows no engine."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from runner.errors import InfraError, RunError
from runner.sandbox.stream import Chunk
from runner.wire.frames import Line, LineFramer, Oversize

START_S = 30.0
_REPLY_S = 15.0
_STOP_S = 3.0
#: Put into a waiting queue when no reply will come.
_DEAD: dict[str, Any] = {}


class ControlStream(Protocol):
    """What `runner.sandbox.stream.AttachedStream` is to us."""

    def write(self, data: bytes, timeout_s: float) -> None: ...
    def half_close(self) -> None: ...
    def chunks(self) -> Iterator[Chunk]: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Miss:
    """Told by the gateway the moment it happens; the entry follows with the journal."""

    run: str
    reason: str
    nearest: str | None


class Control:
    """One thread reads; any thread asks. Every call is bounded.

    When the other side ends, calls that wait fail at once and `on_death(why)` is called once, from the reading thread,
    unless `close` came first.
    """

    def __init__(
        self,
        stream: ControlStream,
        *,
        on_death: Callable[[str], None] | None = None,
        on_miss: Callable[[Miss], None] | None = None,
        on_budget: Callable[[str], None] | None = None,
        on_lost: Callable[[str, str], None] | None = None,
    ) -> None:
        self._stream = stream
        self._on_lost = on_lost
        self._on_budget = on_budget
        self._on_death = on_death
        self._on_miss = on_miss
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        # Apart from the other one: the reader must go on while a full pipe holds a writer up.
        self._writing = threading.Lock()
        self._waiting: dict[int, SimpleQueue[dict[str, Any]]] = {}
        self._ready: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._log: deque[str] = deque(maxlen=50)
        self._closing = False
        self._ended = threading.Event()
        self._reader = threading.Thread(target=self._read, name="gateway", daemon=True)
        self._reader.start()

    @property
    def alive(self) -> bool:
        return not self._ended.is_set()

    def versions(self, timeout_s: float = START_S) -> dict[str, str]:
        """Wait for the gateway's first word: it listens now. Call once."""
        event = self._next(self._ready, "start", timeout_s)
        return {str(name): str(version) for name, version in event["versions"].items()}

    def ask(self, op: str, *, timeout_s: float = _REPLY_S, **args: Any) -> dict[str, Any]:
        """One request, one reply.

        :raises InfraError: the gateway is dead, silent, or refuses.
        """
        with self._asked(op, args) as queue:
            return self._reply(queue, op, timeout_s)

    def journal(self, run: str, size: int) -> Iterator[bytes]:
        """The `size` bytes of a run's journal, piece by piece as they are asked for: no more than a piece is held.

        :raises InfraError: the gateway is dead or silent, or has less.
        """
        at = 0
        while at < size:
            piece = base64.b64decode(self.ask("read", run=run, at=at)["data"])
            if not piece:
                raise InfraError(f"model gateway: collect announced {size} bytes and sent {at}")
            at += len(piece)
            yield piece

    def close(self, timeout_s: float = _STOP_S) -> bool:
        """Close its stdin, which ends it; True if it ended in time."""
        self._closing = True
        self._stream.half_close()
        ended = self._ended.wait(timeout_s)
        self._stream.close()
        self._reader.join(timeout_s)
        return ended

    @contextlib.contextmanager
    def _asked(self, op: str, args: Mapping[str, Any]) -> Iterator[SimpleQueue[dict[str, Any]]]:
        number = next(self._ids)
        queue: SimpleQueue[dict[str, Any]] = SimpleQueue()
        line = json.dumps({"id": number, "op": op, **args}).encode() + b"\n"
        with self._lock:
            if self._ended.is_set():
                raise self._death()
            self._waiting[number] = queue
        try:
            with self._writing:
                self._stream.write(line, _REPLY_S)
            yield queue
        except InfraError:
            raise
        except RunError as problem:  # a full or closed pipe; the stream words it for an agent
            raise InfraError(f"model gateway: {problem}{self._said()}") from problem
        finally:
            with self._lock:
                self._waiting.pop(number, None)

    def _reply(self, queue: SimpleQueue[dict[str, Any]], op: str, timeout_s: float) -> dict[str, Any]:
        message = self._next(queue, op, timeout_s)
        if message.get("ok") is False:
            raise InfraError(f"model gateway: {op}: {message['error']['message']}")
        return message

    def _next(self, queue: SimpleQueue[dict[str, Any]], op: str, timeout_s: float) -> dict[str, Any]:
        try:
            message = queue.get(timeout=timeout_s)
        except Empty:
            raise InfraError(f"model gateway: no answer to {op} within {timeout_s:g} s{self._said()}") from None
        if message is _DEAD:
            raise self._death()
        return message

    def _death(self) -> InfraError:
        return InfraError(f"model gateway: it ended{self._said()}")

    def _said(self) -> str:
        lines = [line for line in list(self._log) if line.strip()]
        return f"; its last words: {lines[-1].strip()}" if lines else ""

    def _read(self) -> None:
        framer = LineFramer()
        try:
            for chunk in self._stream.chunks():
                if chunk.channel == "stderr":
                    self._log.extend(chunk.data.decode("utf-8", "replace").splitlines())
                else:
                    for line in framer.feed(chunk.data):
                        self._dispatch(line)
        finally:
            # Also after a failure of ours: nobody reads any more, and the runs must hear of it.
            self._end()

    def _dispatch(self, line: Line) -> None:
        if isinstance(line, Oversize):
            self._log.append(f"a line of {line.length} bytes")
            return
        try:
            message = json.loads(line)
        except ValueError:
            self._log.append(f"not JSON: {line[:200]!r}")
            return
        if message.get("event") == "ready":
            self._ready.put(message)
        elif message.get("event") == "miss":
            if self._on_miss is not None:
                self._on_miss(Miss(message["run"], message["reason"], message["nearest"]))
        elif message.get("event") == "budget":
            if self._on_budget is not None:
                self._on_budget(message["reason"])
        elif message.get("event") == "lost":
            if self._on_lost is not None:
                self._on_lost(message["run"], message["reason"])
        else:
            with self._lock:
                queue = self._waiting.get(message.get("id", 0))
            if queue is not None:
                queue.put(message)

    def _end(self) -> None:
        with self._lock:
            self._ended.set()
            waiting = [*self._waiting.values(), self._ready]
        for queue in waiting:
            queue.put(_DEAD)
        if not self._closing and self._on_death is not None:
            self._on_death(str(self._death()))
