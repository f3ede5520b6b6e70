"""What was collected of a workspace, and what was not: the findings about it, and the way through the engine.

Nothing here is a fault of the agent's or a reason to try again: the verdict is reached on what was collected.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import tarfile
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, cast

from runner.records.schema import Finding, Verdict

_MB = 10**6
#: Odd entries named in a finding.
_NAMED = 3
#: Kinds of files that the tests may need; ignored ones and empty folders they seldom do.
_NEEDED = ("changed", "untracked", "files")
#: Read of an engine's archive, most of which is not kept (`.git`).
_READ_BYTES = 4 << 30
#: What a member takes of the cap beside its content.
_HEADER = 1024


def cap_findings(reply: Mapping[str, Any], cap_mb: int) -> list[Finding]:
    """Findings about a guest's reply to `collect`: what did not fit, what cannot be taken, a list that was cut."""
    found = []
    if left := reply["left_out"]:
        files, size = (sum(kind[name] for kind in left.values()) for name in ("files", "bytes"))
        parts = ", ".join(f"{kind['files']} {_said(name)}" for name, kind in left.items())
        told = f"{files} entries of the workspace ({size / _MB:.1f} MB) were not collected: {parts}"
        found.append(Finding(id="collect-cut", message=f"{told}; knobs.collect_cap_mb: {cap_mb} raises the limit"))
    if odd := reply["odd"]:
        all_named = [one for one in reply["skipped"] if one["reason"] != "over the size limit"]
        named = ", ".join(f"{one['path']} ({one['reason']})" for one in all_named[:_NAMED])
        more = f" and {odd - _NAMED} more" if odd > _NAMED else ""
        found.append(Finding(id="collect-skipped", message=f"not collected from the workspace: {named}{more}"))
    if reply["outside_cut"]:
        told = f"the list of files outside the workspace ends after {len(reply['outside'])}"
        found.append(Finding(id="outside-cut", message=f"{told}; what was written beyond it is in no metric"))
    return found


def _said(kind: str) -> str:
    names = {"changed": "changed files of the fixture", "untracked": "new files", "ignored": "files ignored by git"}
    return names.get(kind, kind)


def with_missing(verdict: Verdict, left_out: Mapping[str, Mapping[str, int]], cap_mb: int) -> Verdict:
    """The verdict; where it is a fail and files that the tests may need did not fit, its reason says so."""
    missing = sum(left_out[kind]["files"] for kind in _NEEDED if kind in left_out)
    if verdict.passed or not missing:
        return verdict
    told = f"{missing} changed or new files were not collected (knobs.collect_cap_mb: {cap_mb})"
    return verdict.model_copy(update={"reason": f"{verdict.reason}; {told}"})


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
