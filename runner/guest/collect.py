"""Takes home what the agent left: its workspace as an archive, and a list of what it wrote elsewhere.

The agent is dead by now, so what is seen stays as it is. No link is followed and no git is run.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import stat
import tarfile
import tempfile
from typing import IO, Any

from . import tree
from .channel import Request, within
from .fixture import Prepared, git_state

_BLOCK = 512
#: Lists are bounded: a million files must neither fill the channel nor the host's memory.
_MAX_OUTSIDE = 20_000
_MAX_SKIPPED = 1_000
_OUTSIDE_BYTES = 8 << 20
_SKIPPED_BYTES = 2 << 20
#: An archive above this goes to a file without a name: memory is as scarce as the agent's was. In a folder that is not
#: the agent's to close.
_IN_MEMORY = 4 << 20
_SPOOL = "/tmp"
#: Bytes that are hashed for the list of files outside the workspace.
_HASH_BYTES = 256 << 20


class Archive:
    """A gzip tar of a folder, at most `cap_bytes` of contents and headers. Names keep their bytes (GNU format)."""

    def __init__(self, cap_bytes: int) -> None:
        self._left = cap_bytes
        self._buffer = tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=_SPOOL)  # noqa: SIM115 - handed on by `finish`
        self._gzip = gzip.GzipFile(fileobj=self._buffer, mode="wb", compresslevel=1, mtime=0)
        self._tar = tarfile.open(  # noqa: SIM115 - closed by `finish`
            fileobj=self._gzip,
            mode="w|",
            format=tarfile.GNU_FORMAT,
            encoding="utf-8",
            errors="surrogateescape",
        )
        self.cut = False
        self.files = 0
        self.size = 0
        self.skipped: list[dict[str, str]] = []

    def add(self, root: str, path: str, status: os.stat_result) -> None:
        """A folder, a file or a symbolic link; anything else, and what does not fit, is named in `skipped`."""
        entry = tarfile.TarInfo(path)
        entry.mode = stat.S_IMODE(status.st_mode)
        entry.mtime = int(status.st_mtime)
        full = f"{root}/{path}"
        try:
            if stat.S_ISREG(status.st_mode):
                self._add_file(entry, full)
            elif stat.S_ISDIR(status.st_mode):
                entry.type = tarfile.DIRTYPE
                self._add_plain(entry)
            elif stat.S_ISLNK(status.st_mode):
                entry.type = tarfile.SYMTYPE
                entry.linkname = os.readlink(full)
                self._add_plain(entry)
                self.files += 1
            else:
                self.skip(path, kind(status.st_mode))
        except OSError as error:
            self.skip(path, error.strerror or str(error))

    def finish(self) -> IO[bytes]:
        """The archive, from its beginning; for the caller to close."""
        self._tar.close()
        self._gzip.close()
        self._buffer.seek(0)
        return self._buffer

    def _add_file(self, entry: tarfile.TarInfo, full: str) -> None:
        with tree.open_regular(full) as fd:
            entry.size = os.fstat(fd).st_size
            if not self._fits(entry):
                return
            with open(fd, "rb", closefd=False) as stream:
                self._tar.addfile(entry, stream)
            self.files += 1
            self.size += entry.size

    def _add_plain(self, entry: tarfile.TarInfo) -> None:
        if self._fits(entry):
            self._tar.addfile(entry)

    def _fits(self, entry: tarfile.TarInfo) -> bool:
        cost = entry.size + 2 * _BLOCK + len(os.fsencode(entry.name))
        if cost > self._left:
            self.cut = True
            self.skip(entry.name, "over the size limit")
            return False
        self._left -= cost
        return True

    def skip(self, path: str, reason: str) -> None:
        """Name what is not taken home."""
        if len(self.skipped) < _MAX_SKIPPED:
            self.skipped.append({"path": path, "reason": reason})


def collect(request: Request, prepared: Prepared | None) -> None:
    """`collect` {workspace, cap_bytes, writable} -> {tar, cut, files, bytes, skipped:[{path, reason}], outside:[...],
    outside_cut, git_changed, git_changes:[name]}. Replies itself, since the archive is large.

    A workspace that is no folder any more (moved away, a link, removed) is one in which nothing is left.
    """
    workspace = request.text("workspace")
    archive = Archive(request.number("cap_bytes"))
    if stat.S_ISDIR(_mode(workspace)):
        for path, status in tree.walk(workspace, missed=archive.skip):
            archive.add(workspace, path, status)
    else:
        archive.skip(".", "no folder any more")
    outside, outside_cut = list_outside(request.texts("writable"), workspace)
    changes = git_changes(workspace, prepared)
    told = within(outside, _OUTSIDE_BYTES)
    with archive.finish() as data:
        request.reply(
            {
                "cut": archive.cut,
                "files": archive.files,
                "bytes": archive.size,
                "skipped": within(archive.skipped, _SKIPPED_BYTES),
                "outside": told,
                "outside_cut": outside_cut or len(told) < len(outside),
                "git_changed": bool(changes),
                "git_changes": changes,
            },
            blobs={"tar": data},
        )


def list_outside(places: list[str], workspace: str) -> tuple[list[dict[str, Any]], bool]:
    """Everything but folders below `places`, without the workspace, and whether the list was cut short."""
    found: list[dict[str, Any]] = []
    left = _HASH_BYTES
    for place in outermost(places):
        inside = workspace[len(place) + 1 :] if workspace.startswith(f"{place}/") else ""
        for path, status in tree.walk(place, skip=inside):
            if stat.S_ISDIR(status.st_mode):
                continue
            if len(found) == _MAX_OUTSIDE:
                return found, True
            full = f"{place}/{path}"
            regular = stat.S_ISREG(status.st_mode)
            sha256 = _sha256(full) if regular and status.st_size <= left else None
            left -= status.st_size if sha256 else 0
            found.append(
                {
                    "path": full,
                    "kind": kind(status.st_mode),
                    "size": status.st_size,
                    "mode": stat.S_IMODE(status.st_mode),
                    "sha256": sha256,
                    "target": _target(full) if stat.S_ISLNK(status.st_mode) else None,
                }
            )
    return found, False


def outermost(places: list[str]) -> list[str]:
    """The folders among `places` that do not lie below another of them."""
    folders = sorted({place.rstrip("/") for place in places if stat.S_ISDIR(_mode(place))})
    return [place for place in folders if not any(place.startswith(f"{other}/") for other in folders)]


def git_changes(workspace: str, prepared: Prepared | None) -> list[str]:
    """Files of the repository's own that differ from what `prepare` made: `config`, `HEAD`, `refs/heads/main`, ..."""
    before = {} if prepared is None else prepared.git_state
    after = git_state(workspace)
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def kind(mode: int) -> str:
    """`file`, `link`, `pipe`, `socket`, `device` or `folder`."""
    kinds = (
        (stat.S_ISREG, "file"),
        (stat.S_ISLNK, "link"),
        (stat.S_ISDIR, "folder"),
        (stat.S_ISFIFO, "pipe"),
        (stat.S_ISSOCK, "socket"),
    )
    return next((name for test, name in kinds if test(mode)), "device")


def _mode(path: str) -> int:
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0


def _target(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None


def _sha256(path: str) -> str | None:
    digest = hashlib.sha256()
    try:
        with tree.open_regular(path) as fd:
            while chunk := os.read(fd, 1 << 20):
                digest.update(chunk)
    except OSError:
        return None
    return digest.hexdigest()
