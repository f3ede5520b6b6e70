"""Files written whole or not at all, and what a disk refuses as an error in one line."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from runner.errors import InfraError
from runner.text.encoding import repaired


class DiskFull(InfraError):
    """No room (or quota) left: trying again is no use, the sweep must stop."""


def json_bytes(value: Any) -> bytes:
    return json.dumps(repaired(value), indent=1, ensure_ascii=True, allow_nan=False).encode("ascii") + b"\n"


def name_bytes(line: str) -> bytes:
    """A name's own bytes; half of a surrogate pair, which never had any, is written out."""
    try:
        return line.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return line.encode("utf-8", "backslashreplace")


def write_whole(path: Path, data: bytes) -> Path:
    return write_pieces_whole(path, (data,))


def write_pieces_whole(path: Path, pieces: Iterable[bytes]) -> Path:
    """Atomically: a temporary file in the same folder, fsync, rename, fsync of the folder."""
    aside = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    with disk_errors(path):
        try:
            with aside.open("xb") as file:
                for piece in pieces:
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                aside.unlink()
            raise
        flush(path.parent)
    return path


def flush(path: Path) -> None:
    """fsync a file or a folder."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """What the operating system refuses becomes InfraError in one line."""
    try:
        yield
    except OSError as error:
        raise disk_error(error, path) from error


def full_disk(error: OSError, path: Path) -> DiskFull | None:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"disk full: {path} cannot be written; what was written before is whole")
    return None


def disk_error(error: OSError, path: Path) -> InfraError:
    """What the operating system refused, as an error of ours in one line; `DiskFull` where there is no room."""
    return full_disk(error, path) or InfraError(f"{path}: cannot be written: {error.strerror or error}")
