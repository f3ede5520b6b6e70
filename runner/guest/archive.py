"""A bounded archive of files that an agent left, and a count of what did not fit."""

from __future__ import annotations

import gzip
import os
import stat
import tarfile
import tempfile
from typing import IO

from . import tree

_BLOCK = 512
#: The list is bounded: a million files must neither fill the channel nor the host's memory.
_MAX_SKIPPED = 1_000
#: An archive above this goes to a file without a name: memory is as scarce as the agent's was. In a folder that is not
#: the agent's to close.
_IN_MEMORY = 4 << 20
_SPOOL = "/tmp"


class Archive:
    """A gzip tar of a folder, at most `cap_bytes` of contents and headers. Names keep their bytes (GNU format)."""

    def __init__(self, cap_bytes: int) -> None:
        #: Bytes that still fit.
        self.left = cap_bytes
        self._buffer = tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=_SPOOL)  # noqa: SIM115 - closed by `close`
        self._gzip = gzip.GzipFile(fileobj=self._buffer, mode="wb", compresslevel=1, mtime=0)
        self._tar = tarfile.open(  # noqa: SIM115 - closed by `close`
            fileobj=self._gzip,
            mode="w|",
            format=tarfile.GNU_FORMAT,
            encoding="utf-8",
            errors="surrogateescape",
        )
        self.files = 0
        self.size = 0
        #: Kind -> files and bytes that did not fit.
        self.left_out: dict[str, dict[str, int]] = {}
        #: At most `_MAX_SKIPPED` of all that was not taken, and how many there were of another kind than too large.
        self.skipped: list[dict[str, str]] = []
        self.odd = 0

    @property
    def cut(self) -> bool:
        return bool(self.left_out)

    def add(self, root: str, path: str, status: os.stat_result, kind: str = "files") -> None:
        """A folder, a file or a symbolic link; anything else is named in `skipped`, and so is what does not fit.

        `kind` is under what name the latter is counted in `left_out`.
        """
        entry = tarfile.TarInfo(path)
        entry.mode = stat.S_IMODE(status.st_mode)
        entry.mtime = int(status.st_mtime)
        full = f"{root}/{path}"
        fits = True
        try:
            if stat.S_ISREG(status.st_mode):
                fits = self._add_file(entry, full)
            elif stat.S_ISDIR(status.st_mode):
                entry.type = tarfile.DIRTYPE
                fits = self._add_plain(entry)
            elif stat.S_ISLNK(status.st_mode):
                entry.type = tarfile.SYMTYPE
                entry.linkname = os.readlink(full)
                fits = self._add_plain(entry)
                self.files += fits
            else:
                self.skip(path, kind_of(status.st_mode))
        except OSError as error:
            self.skip(path, error.strerror or str(error))
        if not fits:
            self.leave_out(kind, path, status)

    def leave_out(self, kind: str, path: str, status: os.stat_result) -> None:
        """Count what does not fit, and name it."""
        counted = self.left_out.setdefault(kind, {"files": 0, "bytes": 0})
        counted["files"] += 1
        counted["bytes"] += status.st_size if stat.S_ISREG(status.st_mode) else 0
        self._name(path, "over the size limit")

    def finish(self) -> IO[bytes]:
        """The archive, from its beginning, until `close`."""
        self._tar.close()
        self._gzip.close()
        self._buffer.seek(0)
        return self._buffer

    def close(self) -> None:
        """Lets go of it, finished or not."""
        self._tar.close()
        self._gzip.close()
        self._buffer.close()

    def _add_file(self, entry: tarfile.TarInfo, full: str) -> bool:
        with tree.open_regular(full) as fd:
            entry.size = os.fstat(fd).st_size
            if not self._fits(entry):
                return False
            with open(fd, "rb", closefd=False) as stream:
                self._tar.addfile(entry, stream)
            self.files += 1
            self.size += entry.size
        return True

    def _add_plain(self, entry: tarfile.TarInfo) -> bool:
        if not self._fits(entry):
            return False
        self._tar.addfile(entry)
        return True

    def _fits(self, entry: tarfile.TarInfo) -> bool:
        cost = entry.size + 2 * _BLOCK + len(os.fsencode(entry.name))
        if cost > self.left:
            return False
        self.left -= cost
        return True

    def skip(self, path: str, reason: str) -> None:
        """Name what cannot be taken home."""
        self.odd += 1
        self._name(path, reason)

    def _name(self, path: str, reason: str) -> None:
        if len(self.skipped) < _MAX_SKIPPED:
            self.skipped.append({"path": path, "reason": reason})


def kind_of(mode: int) -> str:
    """`file`, `link`, `pipe`, `socket`, `device` or `folder`."""
    kinds = (
        (stat.S_ISREG, "file"),
        (stat.S_ISLNK, "link"),
        (stat.S_ISDIR, "folder"),
        (stat.S_ISFIFO, "pipe"),
        (stat.S_ISSOCK, "socket"),
    )
    return next((name for test, name in kinds if test(mode)), "device")
