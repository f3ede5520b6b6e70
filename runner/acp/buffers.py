"""The editor's side of fs/*: open documents with unsaved text, and a ledger of the writes that went through the client.

Pure: the driver reads and writes the disk (through the guest) and passes in what it found. Paths are absolute POSIX
paths; two spellings of one path are one document, links are not resolved.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from hashlib import sha1
from typing import ClassVar, Final


@dataclass(frozen=True, slots=True)
class MediatedWrite:
    """One fs/write_text_file that was carried out. Hashes are git blob hashes; `before` is None for a new file.

    It stands in a record as it is.
    """

    #: A reader of records never overlooks what a writer meant.
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}
    path: str
    before: str | None
    after: str
    seq: int
    t_ns: int
    #: The document was open with text that was not on disk.
    was_unsaved: bool
    #: ... and the agent had not read that text through the client: it wrote over what it never saw.
    overwrote_unseen: bool


@dataclass(slots=True)
class _Document:
    text: str
    #: The text is not on disk.
    unsaved: bool
    #: The agent read the document through the client since it was opened or typed into.
    seen: bool = False


def blob_hash(text: str) -> str:
    """The hash git gives a file with this text in UTF-8."""
    data = text.encode("utf-8", "surrogatepass")
    return sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def select_lines(text: str, line: int | None = None, limit: int | None = None) -> str:
    """ACP's `line` (1-based; 0 and null mean the start) and `limit` (lines; null means all). Line ends are kept.

    A line ends at LF only, so that pages put together are the text. Beyond the end there is nothing: "".
    """
    start = _offset(text, 0, max((line or 1) - 1, 0))
    return text[start:] if limit is None else text[start : _offset(text, start, limit)]


def _offset(text: str, start: int, lines: int) -> int:
    """Where the text goes on after `lines` lines from `start`."""
    for _ in range(lines):
        end = text.find("\n", start)
        if end < 0:
            return len(text)
        start = end + 1
    return start


#: Writes that are in the ledger.
MAX_WRITES: Final = 1000


class EditorBuffers:
    """Open documents by path, and the ledger. The order of calls is the order of events."""

    def __init__(self) -> None:
        self._documents: dict[str, _Document] = {}
        self.ledger: list[MediatedWrite] = []
        #: Writes beyond those in the ledger.
        self.left_out = 0

    def open(self, path: str, text: str, *, unsaved: bool) -> None:
        """Opens a document (or replaces its text, as typing does). `unsaved`: the disk does not hold this text."""
        self._documents[_key(path)] = _Document(text, unsaved)

    def close(self, path: str) -> None:
        """Closes it; unsaved text is gone. KeyError where it is not open."""
        del self._documents[_key(path)]

    def is_open(self, path: str) -> bool:
        return _key(path) in self._documents

    def is_unsaved(self, path: str) -> bool:
        document = self._documents.get(_key(path))
        return document is not None and document.unsaved

    def text(self, path: str) -> str | None:
        """The whole text of an open document; None where it is not open."""
        document = self._documents.get(_key(path))
        return document.text if document else None

    def needs_disk(self, path: str) -> bool:
        """Whether `read` wants the disk's text: unsaved text wins over it, a clean document follows it."""
        return not self.is_unsaved(path)

    def read(self, path: str, disk: str | None, line: int | None = None, limit: int | None = None) -> str:
        """What fs/read_text_file answers. `disk`: the file's text, None where there is none (or it was not needed).

        FileNotFoundError where neither a document nor the disk has it.
        """
        document = self._documents.get(_key(path))
        if document is None:
            if disk is None:
                raise FileNotFoundError(path)
            return select_lines(disk, line, limit)
        if not document.unsaved and disk is not None:
            document.text = disk
        document.seen = True
        return select_lines(document.text, line, limit)

    def write(self, path: str, text: str, before: str | None, seq: int, t_ns: int) -> MediatedWrite:
        """Records a write after the disk took it (an editor saves at once): `before` is the disk's hash until then."""
        document = self._documents.get(_key(path))
        unsaved = document is not None and document.unsaved
        unseen = unsaved and document is not None and not document.seen
        if document is not None:
            self._documents[_key(path)] = _Document(text, unsaved=False, seen=True)
        entry = MediatedWrite(_key(path), before, blob_hash(text), seq, t_ns, unsaved, unseen)
        if len(self.ledger) < MAX_WRITES:
            self.ledger.append(entry)
        else:
            self.left_out += 1
        return entry


def _key(path: str) -> str:
    """One spelling per path; POSIX keeps two leading slashes apart from one, editors do not."""
    return posixpath.normpath("/" + path.lstrip("/") if path.startswith("/") else path)
