"""The workspace as the engine packs it, made into what the guest's `collect` gives."""

from __future__ import annotations

import contextlib
import gzip
import io
import tarfile
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

#: Read of an engine's archive, most of which is not kept (`.git`).
_READ_BYTES = 4 << 30
#: What a member takes of the cap beside its content.
_HEADER = 1024


def from_engine(stream: BinaryIO, folder: str, cap_bytes: int) -> tuple[bytes, dict[str, dict[str, int]]]:
    """An engine's tar of `/workspace/<folder>` as `collect` gives it: paths in the workspace, no `.git`, gzipped.

    Returns it with the files and bytes that did not fit. The engine chooses the order, so the first ones are kept.
    """
    out = io.BytesIO()
    left = cap_bytes
    cut = {"files": 0, "bytes": 0}
    with (
        gzip.GzipFile(fileobj=out, mode="wb", compresslevel=1, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.GNU_FORMAT, errors="surrogateescape") as target,
    ):
        for member, source in _members(stream):
            name = member.name.partition("/")[2]
            if not name or name == ".git" or name.startswith(".git/") or not member.name.startswith(f"{folder}/"):
                continue
            member.name = name
            cost = member.size + _HEADER + len(name)
            if cost > left or member.offset > _READ_BYTES:
                cut["files"] += 1
                cut["bytes"] += member.size
            else:
                left -= cost
                try:
                    file = source.extractfile(member) if member.isreg() else None
                    content = io.BytesIO(file.read()) if file is not None else None
                except tarfile.TarError:
                    break  # it breaks off in the middle of this one
                target.addfile(member, content)
            if member.offset > _READ_BYTES:
                break
    return out.getvalue(), ({"files": cut} if cut["files"] else {})


def _members(stream: BinaryIO) -> Iterator[tuple[tarfile.TarInfo, tarfile.TarFile]]:
    """The members of a tar that is read once, up to where it ends or makes no sense any more."""
    with (
        contextlib.suppress(tarfile.TarError),
        tarfile.open(fileobj=stream, mode="r|", errors="surrogateescape") as source,
    ):
        for member in source:
            yield member, source


class Readable(io.RawIOBase):
    """Pieces of bytes as a file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = piece
        taken = self._rest[: len(buffer)]
        self._rest = self._rest[len(taken) :]
        buffer[: len(taken)] = taken
        return len(taken)


def as_file(pieces: Iterator[bytes]) -> BinaryIO:
    """Pieces of bytes as a file that reads as much as it is asked for."""
    return cast(BinaryIO, io.BufferedReader(Readable(pieces), 1 << 20))
