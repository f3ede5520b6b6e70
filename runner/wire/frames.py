"""Bytes to lines and the frame, the unit of the log. Sans-IO: no stream, no clock; time stamps are passed in.

A line ends at byte 0x0A and nowhere else: decoding comes after framing, so that a multibyte character split over
two reads, a lone CR or U+2028 inside a string never makes or breaks a line.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from runner.text.files import open_below, open_regular

Direction = Literal["c2a", "a2c"]
Channel = Literal["stdin", "stdout", "stderr"]

#: Flags of a frame.
OVERSIZE: Final = "oversize"  # longer than the framer keeps: no bytes
UNTERMINATED: Final = "unterminated"  # the stream ended before the LF
CUT: Final = "cut"  # the log's cap left its bytes out

#: Longest line that is kept, without its LF.
MAX_LINE_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Oversize:
    """A line above the cap. `length` is its bytes without the LF; none are kept."""

    length: int
    unterminated: bool = False


@dataclass(frozen=True, slots=True)
class Unterminated:
    """What stood after the last LF when the stream ended."""

    raw: bytes


Line: TypeAlias = bytes | Oversize


class LineFramer:
    """Feed it bytes in any chunks, get whole lines without their LF. Keeps at most `max_bytes` (plus the chunk)."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        if max_bytes < 1:
            raise ValueError(f"max_bytes must be at least 1, not {max_bytes}")
        self._max = max_bytes
        self._kept = bytearray()
        #: Bytes of the current line seen, kept or not.
        self._length = 0

    def feed(self, data: bytes) -> list[Line]:
        """The lines that `data` completes, in order."""
        *ends, rest = data.split(b"\n")
        lines: list[Line] = []
        for end in ends:
            self._push(end)
            lines.append(self._take())
        self._push(rest)
        return lines

    def close(self) -> Unterminated | Oversize | None:
        """The tail after the last LF, None where there is none. The framer is as new afterwards."""
        if not self._length:
            return None
        line = self._take()
        return Oversize(line.length, unterminated=True) if isinstance(line, Oversize) else Unterminated(line)

    def _push(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._length > self._max:
            self._kept = bytearray()
        else:
            self._kept += piece

    def _take(self) -> Line:
        line: Line = Oversize(self._length) if self._length > self._max else bytes(self._kept)
        self._kept = bytearray()
        self._length = 0
        return line


@dataclass(frozen=True, slots=True)
class Stored:
    """Bytes that lie in a file: a blob, or a stretch of stderr.log. Read when asked for.

    `folder`: the run's, out of which no part of `path` may lead; None: `path` is read as it is.
    """

    path: Path
    length: int
    offset: int = 0
    folder: Path | None = None

    def read(self) -> bytes:
        """Raises OSError where the file is gone, or is none."""
        opened = (
            open_regular(self.path)
            if self.folder is None
            else open_below(self.folder, self.path.relative_to(self.folder).as_posix())
        )
        with opened as file:
            # What a log says of a length may be anything: no more is made room for than is there.
            left = os.fstat(file.fileno()).st_size - self.offset
            file.seek(self.offset)
            return file.read(max(0, min(self.length, left, MAX_LINE_BYTES)))


@dataclass(frozen=True, slots=True)
class Frame:
    """One line (or one stretch of stderr) as it crossed. `t_ns` is CLOCK_MONOTONIC; `payload` has no LF.

    c2a on stdin is what we sent; a2c on stdout and stderr is the agent's. `seq` is unique in a run and in the order
    of logging; the order between stdout and stderr is not causal.
    """

    seq: int
    t_ns: int
    direction: Direction
    channel: Channel
    payload: bytes | Stored
    flags: tuple[str, ...] = ()
    #: Bytes the line had; None where `payload` holds them all.
    true_length: int | None = None

    @property
    def raw(self) -> bytes:
        """The bytes as received (empty where oversize or cut); loads a blob each time it is asked."""
        return self.payload.read() if isinstance(self.payload, Stored) else self.payload

    @property
    def length(self) -> int:
        """Bytes of the line as received, whether or not they were kept."""
        if self.true_length is not None:
            return self.true_length
        return self.payload.length if isinstance(self.payload, Stored) else len(self.payload)
