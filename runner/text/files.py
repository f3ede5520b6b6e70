"""Files that may be anything: a record may have been made, changed or brought along by somebody else.

What stands where a file is expected may be a pipe (opening it waits for ever), a device, a folder, a link that leads
out of the record, or ten gigabytes. Whoever reads a file of a record opens it here.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from runner.errors import UsageError

#: Largest file that is read as a whole, bytes: a record, a lock, a plan. What is larger was not written by us.
WHOLE = 256 << 20
#: Longest line that is read, bytes: the body of a request to a model holds a whole conversation.
LINE = 256 << 20

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISCHR, "a device"),
)


class NotRegular(OSError):
    """What stands at `filename` is not a file that is read here; `strerror` says what it is and what to do."""

    def __init__(self, path: Path, told: str) -> None:
        super().__init__(errno.EINVAL, told, str(path))


def open_regular(path: Path, *, links: bool = False) -> BinaryIO:
    """Open a file to read; never waits. `links`: the path may be a symbolic link, as one that a user gave.

    :raises NotRegular: it is something else than a file.
    :raises OSError: it is not there, or may not be read.
    """
    # Before it is opened: opening a device may do something.
    _check(path, path.stat(follow_symlinks=links).st_mode)
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if links else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP and not links:
            raise NotRegular(path, _told("a symbolic link")) from None
        raise
    return _opened(path, descriptor)


def open_below(folder: Path, name: str) -> BinaryIO:
    """Open `name`, a path below `folder`; no part of it may be a symbolic link, so that nothing leads out of there.

    Raises as `open_regular`; NotRegular also where `name` is absolute or climbs.
    """
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or "\0" in name or not {"", ".", ".."}.isdisjoint(name.split("/")):
        raise NotRegular(folder / "...", f"the log names {name[:80]!r}, which is no file below its folder")
    path = folder
    for part in parts[:-1]:
        path /= part
        mode = path.stat(follow_symlinks=False).st_mode
        if not stat.S_ISDIR(mode):
            raise NotRegular(path, _told(kind_of(mode), "a folder"))
    return open_regular(path / parts[-1])


def read_regular(path: Path, limit: int = WHOLE, *, links: bool = False) -> bytes:
    """All bytes of a file. Raises as `open_regular`; NotRegular also for a file of more than `limit` bytes."""
    with open_regular(path, links=links) as file:
        size = os.fstat(file.fileno()).st_size
        # A file may grow, or say that it is empty and be endless (/proc): what is read counts.
        data = file.read(limit + 1) if size <= limit else b""
    if size > limit or len(data) > limit:
        message = f"it has {max(size, len(data)) // 10**6} MB; at most {limit // 10**6} MB are read of such a file"
        raise NotRegular(path, message)
    return data


def lines_of(path: Path, longest: int = LINE) -> Iterator[bytes]:
    """The lines of a file with their ends, none but one of them held. Raises as `read_regular`."""
    with open_regular(path) as file:
        yield from lines_in(file, path, longest)


def lines_in(file: BinaryIO, path: Path, longest: int = LINE) -> Iterator[bytes]:
    """As `lines_of`, of a file that is open at its beginning."""
    number = 0
    while line := file.readline(longest + 1):
        number += 1
        if len(line) > longest:
            raise NotRegular(path, f"it has a line, {number}, of more than {longest >> 20} MiB")
        yield line


def unreadable(path: Path, error: OSError) -> UsageError:
    """Why a file could not be read, in one line."""
    return UsageError(f"{error.filename or path}: cannot be read: {error.strerror or error}")


def check_folder(path: Path) -> bool:
    """Whether a folder is there. Raises UsageError where something else is, a link to one too."""
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise unreadable(path, error) from None
    if not stat.S_ISDIR(mode):
        raise unreadable(path, NotRegular(path, _told(kind_of(mode), "a folder")))
    return True


def is_there(path: Path) -> bool:
    """Whether anything stands there; a link that leads nowhere does."""
    return os.path.lexists(path)


def kind_of(mode: int) -> str:
    """`a pipe`, `a folder`, ..."""
    return next((name for fits, name in _KINDS if fits(mode)), "a file")


def _check(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise NotRegular(path, _told(kind_of(mode)))


def _told(found: str, wanted: str = "a file") -> str:
    copied = f"; put the {wanted.removeprefix('a ')} itself there" if found == "a symbolic link" else ""
    return f"it is {found} where {wanted} is expected{copied}"


def _opened(path: Path, descriptor: int) -> BinaryIO:
    try:
        _check(path, os.fstat(descriptor).st_mode)
        os.set_blocking(descriptor, True)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise
