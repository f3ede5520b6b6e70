"""Keys struck out of an attempt's files, as streams: memory stays flat, a file is replaced whole or not at all.

- frames.jsonl frame by frame: the bytes that it holds are looked at decoded (base64 too). A key may also be cut over
  frames: over pieces of a streamed answer or of a tool call's input, which are the texts at one place of consecutive
  JSON lines, or over lines of plain output.
- workspace.patch: git packs what is binary; that is looked at unpacked, and emptied where it says a key.
- stderr.log: stars, as many as the key has bytes, since frames.jsonl says where in it each frame begins.
- model.jsonl and tape.jsonl: as bytes, and what stands there in base64 decoded.
- every other file, blobs too, as bytes.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

from runner.errors import InfraError
from runner.redaction.forms import Forms, Span, merged, struck
from runner.redaction.joined import Joined, TextSpan

#: Read at a time, and how much of it is looked at again with the next: no form of a key is longer.
_BLOCK: Final = 1 << 20
_OVERLAP: Final = 1 << 18
_SUFFIX: Final = ".striking.tmp"
_MEMBER: Final = re.compile(rb'"base64": ?"([A-Za-z0-9+/]+)=*"')
_PACKED: Final = b"GIT binary patch\n"
#: As git writes an empty file.
_EMPTY_HUNK: Final = b"literal 0\nHcmV?d00001\n"


class Striker(Protocol):
    """What `runner.redaction.redact.Redactor` is to us."""

    @property
    def forms(self) -> Forms: ...
    def spans(self, data: bytes) -> list[Span]: ...


def strike_files(striker: Striker, folder: Path) -> list[str]:
    """Rewrite every file below `folder` that says a key; their names, `/` between parts.

    A file that cannot be rewritten is removed, since it says a key; so is one that cannot be searched, which its name
    then says.

    :raises InfraError: the disk refuses.
    """
    found = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()):
        name = path.relative_to(folder).as_posix()
        if path.name.endswith(_SUFFIX):
            path.unlink()  # of a process that was killed
            continue
        try:
            if _strike(striker, path):
                found.append(name)
        except InfraError:
            raise
        except Exception as problem:  # noqa: BLE001 - a fault of ours must not leave a key behind, nor end the sweep
            path.unlink(missing_ok=True)
            found.append(f"{name} (removed: the search failed: {type(problem).__name__}: {problem})")
    return found


def _strike(striker: Striker, path: Path) -> bool:
    """Whether the file said a key."""
    rewritten = _KINDS.get(path.name, _plain)
    try:
        # The first pass writes nothing: most files say none.
        if not any(changed for _, changed in rewritten(striker, path)):
            return False
    except OSError as problem:
        raise InfraError(f"{path}: cannot be read: {problem.strerror or problem}") from problem
    aside = path.with_name(f".{path.name}{_SUFFIX}")
    try:
        with aside.open("wb") as file:
            for data, _ in rewritten(striker, path):
                file.write(data)
        aside.chmod(path.stat().st_mode & 0o7777)
        aside.replace(path)
    except OSError as problem:
        for folder in (aside, path):
            with contextlib.suppress(OSError):
                folder.unlink()
        raise InfraError(f"{path}: said a key, could not be rewritten and was removed: {problem}") from problem
    return True


#: A file's new bytes in order, each with whether it differs from what stands there.
Rewritten = Iterator[tuple[bytes, bool]]


def _plain(striker: Striker, path: Path) -> Rewritten:
    with path.open("rb") as file:
        yield from strike_stream(striker, iter(lambda: file.read(_BLOCK), b""))


def _jsonl(striker: Striker, path: Path) -> Rewritten:
    yield from _plain(_InBase64(striker), path)


class _InBase64:
    """A striker for JSON in which bytes that are no UTF-8 stand as `{"base64": "..."}`, as in tapes."""

    def __init__(self, striker: Striker) -> None:
        self.forms = striker.forms
        self._striker = striker

    def spans(self, data: bytes) -> list[Span]:
        packed = [found.span(1) for found in _MEMBER.finditer(data) if self._striker.spans(_unpacked_member(found[1]))]
        return merged([*self._striker.spans(data), *packed])


def _unpacked_member(packed: bytes) -> bytes:
    """What it says; nothing where it only looks like base64."""
    return base64.b64decode(packed[: -1 if len(packed) % 4 == 1 else None] + b"===")


def _stderr(striker: Striker, path: Path) -> Rewritten:
    with path.open("rb") as file:
        yield from strike_stream(striker, iter(lambda: file.read(_BLOCK), b""), same_length=True)


def strike_stream(striker: Striker, blocks: Iterable[bytes], *, same_length: bool = False) -> Rewritten:
    """A stream of bytes, in blocks of any size, struck; what is held back is bounded."""
    #: The byte before `window` says whether a word begins at its start.
    before, window, first = b"", b"", True
    for block in blocks:
        window += block
        if len(window) < 2 * _OVERLAP:
            continue
        spans = _spans(striker, before, window, first=first, last=False)
        cut = len(window) - _OVERLAP
        cut = next((start for start, end in spans if start < cut < end), cut) or cut
        yield _upto(window, spans, cut, same_length)
        before, window, first = window[cut - 1 : cut], window[cut:], False
    yield _upto(window, _spans(striker, before, window, first=first, last=True), len(window), same_length)


def _spans(striker: Striker, before: bytes, window: bytes, *, first: bool, last: bool) -> list[Span]:
    shift = len(before)
    found = [(max(0, start - shift), end - shift) for start, end in striker.spans(before + window) if end > shift]
    # A cap may have cut a key at either end of a file.
    edges = striker.forms.edges(window) if first or last else []
    found += [(start, end) for start, end in edges if (first and start == 0) or (last and end == len(window))]
    return merged(found)


def _upto(window: bytes, spans: list[Span], cut: int, same_length: bool) -> tuple[bytes, bool]:
    mine = [(start, min(end, cut)) for start, end in spans if start < cut]
    return struck(window[:cut], mine, same_length=same_length), bool(mine)


# frames.jsonl


def _frames(striker: Striker, path: Path) -> Rewritten:
    beyond = _over_frames(striker.forms, path)
    with path.open("rb") as file:
        for number, line in enumerate(file):
            yield _frame(striker, line, beyond.get(number, []))


def _frame(striker: Striker, line: bytes, places: list[TextSpan]) -> tuple[bytes, bool]:
    fields = _fields(line)
    if fields is None:
        clean = struck(line, striker.spans(line))
        return clean, clean != line
    raw = _payload(fields)
    if raw is None:
        return line, False
    beyond = (span for place in places for span in place.spans(raw))
    spans = merged([*striker.spans(raw), *striker.forms.edges(raw), *beyond])
    if not spans:
        return line, False
    clean = struck(raw, spans)
    try:
        body: Mapping[str, Any] = {"text": clean.decode("utf-8")}
    except UnicodeDecodeError:
        body = {"b64": base64.b64encode(clean).decode("ascii")}
    rest = {name: value for name, value in fields.items() if name not in ("text", "b64")}
    flags = {"flags": rest.pop("flags")} if "flags" in rest else {}
    whole = json.dumps({**rest, **body, **flags}, ensure_ascii=False, separators=(",", ":"))
    return whole.encode("utf-8") + b"\n", True


def _over_frames(forms: Forms, path: Path) -> dict[int, list[TextSpan]]:
    """Number of a line, from 0 -> the parts in it of keys that are cut over frames."""
    joined = Joined(forms)
    with path.open("rb") as file:
        for number, line in enumerate(file):
            fields = _fields(line)
            raw = None if fields is None else _payload(fields)
            if fields is not None and raw is not None:
                joined.feed(number, str(fields.get("channel")), raw)
    return joined.found


def _fields(line: bytes) -> dict[str, Any] | None:
    """A line of the log; None where it is torn."""
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) and line.endswith(b"\n") else None


def _payload(fields: Mapping[str, Any]) -> bytes | None:
    text, packed = fields.get("text"), fields.get("b64")
    try:
        if isinstance(text, str):
            return text.encode("utf-8")
        return base64.b64decode(packed, validate=True) if isinstance(packed, str) else None
    except ValueError:
        return None


# workspace.patch


def _patch(striker: Striker, path: Path) -> Rewritten:
    """Text is struck as a stream between the packed parts; those are looked at unpacked, one at a time."""
    quoted = _InPatches(striker)
    with path.open("rb") as file:
        text = _Between(quoted)
        for line in file:
            if line != _PACKED:
                yield from text.feed(line)
                continue
            yield from text.feed(line)
            yield from text.end()
            yield from _packed(striker, file)
            text = _Between(quoted)
        yield from text.end()


class _InPatches:
    """A striker for a patch's text: a key may go on in the next line, behind its mark. Lines and marks stay."""

    def __init__(self, striker: Striker) -> None:
        self.forms = striker.forms
        self._striker = striker
        self._quoted = Forms(striker.forms.secrets, in_patches=True)

    def spans(self, data: bytes) -> list[Span]:
        found = merged([*self._striker.spans(data), *self._quoted.spans(data)])
        return [part for start, end in found for part in _of_lines(data, start, end)]


def _of_lines(data: bytes, start: int, end: int) -> Iterator[Span]:
    while (line := data.find(b"\n", start, end)) >= 0:
        yield start, line
        start = line + 2
    if start < end:
        yield start, end


@dataclass
class _Between:
    """Lines of text, struck in blocks."""

    striker: Striker
    lines: list[bytes] = field(default_factory=list)
    size: int = 0

    def feed(self, line: bytes) -> Rewritten:
        self.lines.append(line)
        self.size += len(line)
        if self.size >= 4 * _BLOCK:
            data = b"".join(self.lines)
            yield from self._upto(data, len(data) - _OVERLAP)

    def end(self) -> Rewritten:
        data = b"".join(self.lines)
        yield from self._upto(data, len(data))

    def _upto(self, data: bytes, cut: int) -> Rewritten:
        spans = _spans(self.striker, b"", data, first=False, last=False)
        cut = next((start for start, end in spans if start < cut < end), cut) or cut
        yield _upto(data, spans, cut, same_length=False)
        self.lines, self.size = [data[cut:]], len(data) - cut


def _packed(striker: Striker, file: BinaryIO) -> Rewritten:
    """The two hunks (there and back) of a binary file's change; each ends with an empty line."""
    for _ in range(2):
        start = file.tell()
        head = file.readline()
        if not head.startswith((b"literal ", b"delta ")):
            file.seek(start)
            return
        try:
            says = any(changed for _, changed in strike_stream(striker, _unpacked(_lines(file))))
        except (ValueError, zlib.error):
            says = False  # torn, at the patch's cap
        file.seek(start + len(head))
        if says:
            yield _EMPTY_HUNK, True
        else:
            yield head, False
        for line in _lines(file):
            if not says or line == b"\n":
                yield line, False


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a hunk, the empty one at its end too."""
    while line := file.readline():
        yield line
        if line == b"\n":
            return


def _unpacked(lines: Iterable[bytes]) -> Iterator[bytes]:
    unpack = zlib.decompressobj()
    for line in lines:
        if line == b"\n":
            break
        size = line[0] - 0x40 if line[:1].isupper() else line[0] - 0x60 + 26
        packed = base64.b85decode(line[1:].rstrip(b"\n"))[:size]
        while packed:
            yield unpack.decompress(packed, _BLOCK)
            packed = unpack.unconsumed_tail
    yield unpack.flush()


_KINDS: Final[Mapping[str, Callable[[Striker, Path], Rewritten]]] = {
    "frames.jsonl": _frames,
    "model.jsonl": _jsonl,
    "tape.jsonl": _jsonl,
    "stderr.log": _stderr,
    "workspace.patch": _patch,
}
