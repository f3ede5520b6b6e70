"""`frames.jsonl`: one JSON object a line for every frame, flushed as it comes, so that a killed run leaves what parses.

A line: `seq`, `t_ns`, `direction`, `channel`, `length` (bytes of the frame as received), then one of `text` (UTF-8),
`b64` (what is not UTF-8), `blob` (above 1 MiB: "blobs/<seq>.bin" beside the log), `offset` (stderr: where in
stderr.log it starts) or none of them (oversize, cut), and `flags` where there are any. Synchronous and unlocked: one
thread writes a log.
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar, get_args

from runner.text.files import lines_of
from runner.wire.frames import CUT, Channel, Direction, Frame, Stored

#: Frames above this go to a blob file.
BLOB_BYTES: Final = 1024 * 1024

#: Longest line of a log that is read, bytes: a frame of BLOB_BYTES, each of them escaped, fits.
_LONGEST: Final = 16 * BLOB_BYTES
_BLOB: Final = re.compile(r"blobs/[0-9]{1,19}\.bin", re.ASCII)
_INT: Final = 2**63
_DIRECTIONS: Final[tuple[Direction, ...]] = get_args(Direction)
_CHANNELS: Final[tuple[Channel, ...]] = get_args(Channel)
_Word = TypeVar("_Word", bound=str)

#: The log beside which stderr's bytes lie.
STDERR_LOG: Final = "stderr.log"


class FrameLogWriter:
    """Appends frames to `path`. `cap_bytes` bounds what the log and its blobs take on disk.

    Above the cap a frame's bytes are left out (flag `cut`); such lines may take another tenth of the cap, then
    frames are only counted. `cut` has the counts: `frames` and `bytes` left out, `unlogged` frames without a line.
    Errors of the disk surface as OSError after the log was cut back to its last whole line.
    """

    def __init__(self, path: Path, blobs_dir: Path, cap_bytes: int) -> None:
        """`path` must not exist (FileExistsError): logs are append-only and never reopened."""
        self._blobs = blobs_dir
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._closed = False
        self._size = 0
        self._spent = 0
        self._cap = cap_bytes
        #: There was no room for a line without bytes.
        self._full = False
        self.cut: dict[str, int] = {"frames": 0, "bytes": 0, "unlogged": 0}

    def write(self, frame: Frame) -> None:
        """Logs one frame. Raises OSError (disk full), ValueError after `close`."""
        if self._full:
            self._count(frame)
            self.cut["unlogged"] += 1
            return
        head = _head(frame.seq, frame.t_ns, frame.direction, frame.channel, frame.length)
        raw = frame.raw
        as_blob = len(raw) > BLOB_BYTES
        body = _blob_body(self._blobs, frame.seq) if as_blob else _body(raw, frame)
        line = _line(head, body, frame.flags)
        if self._spent + len(line) + (len(raw) if as_blob else 0) > self._cap:
            self._cut(head, frame)
            return
        if as_blob:
            self._write_blob(frame.seq, raw)
        self._append(line)

    def stderr(self, t_ns: int, length: int, offset: int, seq: int | None = None) -> None:
        """Logs that `length` bytes came on stderr, which lie in stderr.log from `offset`. `seq` may be left out."""
        line = _line(_head(seq, t_ns, "a2c", "stderr", length), {"offset": offset}, ())
        if self._spent + len(line) > self._cap + self._cap // 10:
            self.cut["unlogged"] += 1
            return
        self._append(line)

    def close(self) -> None:
        """Closes the file; a second time does nothing."""
        if not self._closed:
            self._closed = True
            os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _cut(self, head: dict[str, Any], frame: Frame) -> None:
        """Logs the frame without its bytes, or counts it where even that is too much: then every later one too."""
        self._count(frame)
        line = _line(head, {}, (*frame.flags, CUT))
        if self._spent + len(line) > self._cap + self._cap // 10:
            self.cut["unlogged"] += 1
            self._full = True
            return
        self._append(line)

    def _count(self, frame: Frame) -> None:
        self.cut["frames"] += 1
        self.cut["bytes"] += frame.length

    def _write_blob(self, seq: int, raw: bytes) -> None:
        """The blob first: a line never names a blob that is not whole."""
        self._blobs.mkdir(parents=True, exist_ok=True)
        path = self._blobs / f"{seq}.bin"
        try:
            path.write_bytes(raw)
        except OSError:
            path.unlink(missing_ok=True)
            raise
        self._spent += len(raw)

    def _append(self, line: bytes) -> None:
        """One whole line, straight to the kernel; after a failure nothing of it stays."""
        if self._closed:
            raise ValueError("the frame log is closed")
        left = memoryview(line)
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError:
            self._undo()
            raise
        self._size += len(line)
        self._spent += len(line)

    def _undo(self) -> None:
        """Takes back half a line; where even that fails nothing may follow it."""
        try:
            os.ftruncate(self._fd, self._size)
        except OSError:
            self.close()


def _head(seq: int | None, t_ns: int, direction: str, channel: str, length: int) -> dict[str, Any]:
    return {"seq": seq, "t_ns": t_ns, "direction": direction, "channel": channel, "length": length}


def _blob_body(blobs: Path, seq: int) -> dict[str, Any]:
    return {"blob": f"{blobs.name}/{seq}.bin"}


def _body(raw: bytes, frame: Frame) -> dict[str, Any]:
    """text, b64, or nothing for a frame whose bytes were not kept."""
    if len(raw) != frame.length:
        return {}
    try:
        return {"text": raw.decode("utf-8")}
    except UnicodeDecodeError:
        return {"b64": b64encode(raw).decode("ascii")}


def _line(head: dict[str, Any], body: dict[str, Any], flags: tuple[str, ...]) -> bytes:
    fields = {**head, **body, "flags": list(flags)} if flags else {**head, **body}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8") + b"\n"


def read_frames(path: Path) -> Iterator[Frame]:
    """The frames of a log, in order. Blobs and stderr stay on disk until `Frame.raw` is asked for.

    A last line that is cut short (a killed run) is left out. A broken line before the last raises ValueError with
    its number: such a log was changed after it was written. So does a blob that no writer would have named: a log that
    somebody brought along must not make us read files of this machine. Raises OSError where `path` is no file.
    """
    for number, line in enumerate(lines_of(path, _LONGEST), start=1):
        if not line.endswith(b"\n"):
            return
        try:
            frame = _frame(json.loads(line), path.parent)
        except KeyError as error:
            raise ValueError(f"{path}:{number}: not a frame: it lacks {error}") from error
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(f"{path}:{number}: not a frame: {error}") from error
        yield frame


@dataclass(frozen=True, slots=True)
class LoggedFrames:
    """The frames of a log, read anew whenever they are iterated: none is held in memory."""

    path: Path

    def __iter__(self) -> Iterator[Frame]:
        return read_frames(self.path)


def _frame(fields: Any, directory: Path) -> Frame:
    """A stderr line without seq has the seq -1."""
    if not isinstance(fields, dict):
        raise ValueError("no JSON object")
    flags = fields.get("flags", [])
    if not isinstance(flags, list) or not all(isinstance(flag, str) for flag in flags):
        raise ValueError("flags is no list of texts")
    return Frame(
        seq=-1 if fields["seq"] is None else _count(fields, "seq"),
        t_ns=_count(fields, "t_ns"),
        direction=_one_of(fields, "direction", _DIRECTIONS),
        channel=_one_of(fields, "channel", _CHANNELS),
        payload=_payload(fields, directory),
        flags=tuple(flags),
        true_length=_count(fields, "length"),
    )


def _payload(fields: dict[str, Any], directory: Path) -> bytes | Stored:
    if "text" in fields:
        return _text(fields, "text").encode("utf-8")
    if "b64" in fields:
        return b64decode(_text(fields, "b64"), validate=True)
    if "blob" in fields:
        name = _text(fields, "blob")
        if not _BLOB.fullmatch(name):
            raise ValueError(f"the blob {name[:80]!r} is none of this run's, which are blobs/<seq>.bin")
        return Stored(directory / name, fields["length"], folder=directory)
    if "offset" in fields:
        return Stored(directory / STDERR_LOG, fields["length"], _count(fields, "offset"), folder=directory)
    return b""


def _count(fields: dict[str, Any], name: str) -> int:
    value = fields[name]
    if type(value) is not int or not 0 <= value < _INT:
        raise ValueError(f"{name} is no count")
    return value


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields[name]
    if not isinstance(value, str):
        raise ValueError(f"{name} is no text")
    return value


def _one_of(fields: dict[str, Any], name: str, known: tuple[_Word, ...]) -> _Word:
    found = next((word for word in known if word == fields[name]), None)
    if found is None:
        raise ValueError(f"{name} is none of {', '.join(known)}")
    return found
