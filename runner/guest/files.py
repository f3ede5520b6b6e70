"""fs/*: reads and writes text files for the agent, with its uid, below the session's roots only."""

from __future__ import annotations

import codecs
import errno
import os
import stat
from typing import Any

from .channel import MAX_TEXT, OpError, Request
from .confine import Roots
from .gitobj import blob_name

#: Checked and hashed at a time.
_STEP = 1 << 20
#: A pipe is not waited for, a terminal not taken, a lease of the agent's not sat out.
_FLAGS = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CODES = {
    errno.ENOENT: "not_found",
    errno.ENOTDIR: "not_found",
    errno.EISDIR: "not_a_file",
    errno.ENXIO: "not_a_file",
    errno.EFBIG: "too_large",
    errno.ENOSPC: "no_space",
    errno.EDQUOT: "no_space",
}


def read(request: Request) -> None:
    """`fs.read` {path, roots} -> {content, size}. Replies itself: `content` is text as `Request.reply_text` sends it.

    Errors: `not_found`, `denied`, `not_a_file`, `not_text`, `too_large`.
    """
    path, roots = request.text("path"), Roots(request.texts("roots"))
    data = read_file(roots, path)
    wrong = _not_utf8(data)
    if wrong is not None:
        raise OpError("not_text", f"{path}: not UTF-8 at byte {wrong}")
    request.reply_text("content", data, size=len(data))


def write(request: Request) -> dict[str, Any]:
    """`fs.write` {path, roots, content} -> {before, after}: git blob hashes, `before` null for a new file.

    Missing folders are made. The file is written through, as editors do: mode, links and inode stay.
    Errors as `fs.read`, and `no_space`.
    """
    path, roots = request.text("path"), Roots(request.texts("roots"))
    data = request.utf8("content")
    if len(data) > MAX_TEXT:
        raise OpError("too_large", f"{path}: {len(data)} bytes, at most {MAX_TEXT} are written")
    before = write_file(roots, path, data)
    return {"before": before, "after": blob_name(data)}


def read_file(roots: Roots, path: str) -> bytes:
    try:
        fd = roots.open(path, os.O_RDONLY | _FLAGS)
    except OSError as error:
        raise _refusal(path, error) from error
    try:
        return _content(fd, path)
    finally:
        os.close(fd)


def write_file(roots: Roots, path: str, data: bytes) -> str | None:
    """Returns the blob name of what was there before."""
    try:
        fd, before = _open_for_writing(roots, path)
        try:
            _replace(fd, data)
        finally:
            os.close(fd)
    except OSError as error:
        raise _refusal(path, error) from error
    return before


def _not_utf8(data: bytes) -> int | None:
    """Where `data` is no UTF-8; piece by piece, since a text takes up to four times its bytes."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    view = memoryview(data)
    for start in range(0, len(view) + 1, _STEP):
        held = len(decoder.getstate()[0])
        try:
            decoder.decode(view[start : start + _STEP], final=start + _STEP > len(view))
        except UnicodeDecodeError as error:
            return start - held + error.start
    return None


def _open_for_writing(roots: Roots, path: str) -> tuple[int, str | None]:
    try:
        fd = roots.open(path, os.O_RDWR | _FLAGS)
    except FileNotFoundError:
        roots.make_folders(os.path.dirname(path))
        return roots.open(path, os.O_RDWR | os.O_CREAT | _FLAGS), None
    try:
        return fd, blob_name(_content(fd, path))
    except OpError:
        os.close(fd)
        raise


def _content(fd: int, path: str) -> bytes:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise OpError("not_a_file", f"{path}: no regular file")
    if status.st_size > MAX_TEXT:
        raise OpError("too_large", f"{path}: {status.st_size} bytes, at most {MAX_TEXT} are served")
    chunks, left = [], MAX_TEXT + 1
    while left and (chunk := os.read(fd, min(left, 1 << 20))):
        chunks.append(chunk)
        left -= len(chunk)
    if not left:
        raise OpError("too_large", f"{path}: it grows while it is read")
    return b"".join(chunks)


def _replace(fd: int, data: bytes) -> None:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise OSError(errno.EISDIR, "no regular file")
    at = 0
    while at < len(data):
        at += os.pwrite(fd, data[at : at + (1 << 20)], at)
    os.ftruncate(fd, len(data))


def _refusal(path: str, error: OSError) -> OpError:
    code = _CODES.get(error.errno or 0, "denied")
    return OpError(code, f"{path}: {error.strerror or error}")
