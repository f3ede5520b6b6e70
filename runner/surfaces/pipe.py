"""The agent's three streams: drained, stamped, framed and logged by a thread of their own; all news is in one inbox.

Parsing happens off that thread. The inbox is the only way into the driver's loop, so the driver needs no
lock: frames, the guest's events and replies, and the sweep's own news arrive in the order in which they were seen here.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from runner.errors import AgentError, InfraError, RunError
from runner.records.disk import disk_error
from runner.sandbox.stream import AttachedStream, Chunk
from runner.wire.frames import (
    OVERSIZE,
    UNTERMINATED,
    Channel,
    Direction,
    Frame,
    Line,
    LineFramer,
    Oversize,
    Unterminated,
)
from runner.wire.log import STDERR_LOG, FrameLogWriter

#: Frames the driver may be behind; beyond it the drain waits, and so does the agent: memory stays flat.
_BACKLOG = 4096
#: The same in bytes; one frame may be as large as it likes.
_BACKLOG_BYTES = 16_000_000


@dataclass(frozen=True, slots=True)
class GuestEvent:
    """What the guest tells unasked: `exit`, `forwarder-died`, `gone`."""

    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Done:
    """Something the driver asked for is there: run `then` on the driver's own thread."""

    then: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Stop:
    """The run has to end now, for this reason (an abort, a dead gateway, a full disk)."""

    reason: RunError


Item = Frame | GuestEvent | Done | Stop


class Inbox:
    """A queue that the first `Stop` jumps; it is handed out once, so that the agent can still be brought to its end.

    Only frames wait for room. The guest's news never do: whoever reads its replies would wait for the driver, which may
    be waiting for a reply. Of the frames before them there are few, so there are few of them.
    """

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[Item] = queue.SimpleQueue()
        #: For frames in the queue, and for their bytes; there is room while both are positive.
        self._places = _BACKLOG
        self._room = _BACKLOG_BYTES
        self._roomy = threading.Condition()
        self._stop: Stop | None = None
        self._told = False
        self._abandoned = False

    def put(self, item: Item) -> None:
        if isinstance(item, Stop):
            self._stop = self._stop or item
            self._items.put(Done(_nothing))  # wakes a `get` that waits on an empty queue
            return
        if isinstance(item, Frame) and not self._admit(item.length):
            return  # nobody reads on; the log has it
        self._items.put(item)

    def get(self, timeout_s: float) -> Item | None:
        """The stop if there is one and it was not told yet, else the next item, or None after `timeout_s`."""
        item: Item | None = None
        if not self._pending_stop():
            with contextlib.suppress(queue.Empty):
                item = self._items.get(timeout=max(0.0, timeout_s))
        if isinstance(item, Frame):
            with self._roomy:
                self._room += item.length
                self._places += 1
                self._roomy.notify()
        if self._pending_stop():
            self._told = True
            return self._stop
        return item

    def abandon(self) -> None:
        """Nobody reads on: whoever waits for room need not, nor will."""
        with self._roomy:
            self._abandoned = True
            self._roomy.notify_all()

    def _admit(self, length: int) -> bool:
        """Wait for room, then take it; False where nobody reads on."""
        with self._roomy:
            while not self._roomy.wait_for(self._has_room, timeout=0.5):
                if self._told:
                    return False
            if self._abandoned:
                return False
            self._room -= length
            self._places -= 1
            return True

    def _has_room(self) -> bool:
        return self._abandoned or (self._room > 0 and self._places > 0)

    def _pending_stop(self) -> bool:
        return self._stop is not None and not self._told


def _nothing() -> None:
    """What there is to do about a wake-up."""


class AgentPipe:
    """Logs every frame in both directions and hands the agent's stdout to the inbox."""

    def __init__(self, stream: AttachedStream, inbox: Inbox, folder: Path, frames_cap: int, stderr_cap: int) -> None:
        """
        :param folder: the attempt's folder: frames.jsonl, blobs/ and stderr.log are written there.
        :param frames_cap: bytes that frames may take on disk; `stderr_cap` likewise. What is cut is counted.
        """
        self._stream = stream
        self._inbox = inbox
        self._log = FrameLogWriter(folder / "frames.jsonl", folder / "blobs", frames_cap)
        self._stderr_path = folder / STDERR_LOG
        self._stderr_room = stderr_cap
        self._stderr_kept = 0
        self._stderr_cut = 0
        #: The log is written by the drain and by whoever sends.
        self._lock = threading.Lock()
        self._seq = 0
        self._delivering = True
        self._stdin_open = True
        self._finished = False
        self._thread = threading.Thread(target=self._drain, name="agent-pipe", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def send(self, line: bytes) -> Frame | None:
        """Log one line (with its LF) and write it to the agent; None, and nothing sent, once stdin is closed.

        :raises AgentError: the agent does not read it.
        """
        if not self._stdin_open:
            return None
        with self._disk_errors(), self._lock:
            frame = self._frame("c2a", "stdin", line.removesuffix(b"\n"), time.monotonic_ns())
            self._log.write(frame)
        try:
            self._stream.write(line)
        except AgentError:
            self._stdin_open = False  # part of the line may be there: nothing can be said any more
            raise
        return frame

    def close_stdin(self) -> None:
        self._stdin_open = False
        self._stream.half_close()

    def finish(self, timeout_s: float) -> bool:
        """Wait until the container's streams have ended and every byte is on disk; False: they have not."""
        self._delivering = False
        self._inbox.abandon()
        if self._finished:
            return True
        self._thread.join(timeout=timeout_s)
        ended = not self._thread.is_alive()
        self._stream.close()
        self._thread.join(timeout=5)
        with self._lock:
            self._log.close()
        self._finished = True
        return ended

    def cut(self) -> dict[str, int]:
        """What the caps left out: bytes and frames."""
        return {**self._log.cut, "stderr_bytes": self._stderr_cut}

    def _frame(
        self, direction: Direction, channel: Channel, raw: bytes, t_ns: int, *flags: str, length: int | None = None
    ) -> Frame:
        frame = Frame(self._seq, t_ns, direction, channel, raw, flags, length)
        self._seq += 1
        return frame

    def _drain(self) -> None:
        framer = LineFramer()
        with contextlib.suppress(InfraError), self._disk_errors(), self._stderr_path.open("wb", buffering=0) as stderr:
            for chunk in self._stream.chunks():
                if chunk.channel == "stderr":
                    self._keep(stderr, chunk)
                    continue
                self._arrived_all(framer.feed(chunk.data), chunk.t_ns)
            tail = framer.close()
            if tail is not None:
                self._arrived(tail, time.monotonic_ns())

    def _arrived_all(self, lines: list[Line], t_ns: int) -> None:
        # In a function of its own: no local name holds a line of 60 MB while the next one comes.
        for line in lines:
            self._arrived(line, t_ns)

    def _arrived(self, line: Line | Unterminated, t_ns: int) -> None:
        with self._lock:
            if isinstance(line, Oversize):
                flags = (OVERSIZE, UNTERMINATED) if line.unterminated else (OVERSIZE,)
                frame = self._frame("a2c", "stdout", b"", t_ns, *flags, length=line.length)
            elif isinstance(line, Unterminated):
                frame = self._frame("a2c", "stdout", line.raw, t_ns, UNTERMINATED)
            else:
                frame = self._frame("a2c", "stdout", line, t_ns)
            self._log.write(frame)
        if self._delivering:
            self._inbox.put(frame)

    def _keep(self, file: BinaryIO, chunk: Chunk) -> None:
        kept = chunk.data[: self._stderr_room]
        self._stderr_room -= len(kept)
        self._stderr_cut += len(chunk.data) - len(kept)
        if not kept:
            return
        file.write(kept)
        with self._lock:
            self._log.stderr(chunk.t_ns, len(kept), self._stderr_kept, self._seq)
            self._seq += 1
        self._stderr_kept += len(kept)

    @contextlib.contextmanager
    def _disk_errors(self) -> Iterator[None]:
        """A run that can leave no evidence must not go on: stop it, and say what the disk said."""
        try:
            yield
        except OSError as error:
            problem = disk_error(error, self._stderr_path.parent)
            self._inbox.put(Stop(problem))
            raise problem from error
