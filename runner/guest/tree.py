"""Folders as manifests and archives: read a checked tar, write its files, look at what stands on disk."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Callable, Iterator
from typing import NamedTuple

from . import gitobj
from .gitobj import EXECUTABLE, FILE, SYMLINK, GitEntry

#: Longer paths, with the workspace's own before them, cannot be handed to the kernel in one piece (PATH_MAX is 4096).
MAX_PATH = 3900
_CHUNK = 1 << 20
#: What git cannot hold, or we cannot read: equal to no file of a fixture.
UNKNOWN = GitEntry(0, "0" * 40)


class BadArchive(Exception):
    """An archive holds what it must not: `member` says where."""


class Skipped(NamedTuple):
    """A member or a file that was not taken over, and why."""

    path: str
    reason: str


def members(data: bytes) -> Iterator[tuple[tarfile.TarInfo, tarfile.TarFile]]:
    """The members of a tar, plain or gzip, in order. Raises BadArchive where it is none."""
    mode = "r|gz" if data[:2] == b"\x1f\x8b" else "r|"
    try:
        with tarfile.open(  # type: ignore[call-overload]
            fileobj=io.BytesIO(data), mode=mode, encoding="utf-8", errors="surrogateescape"
        ) as archive:
            for member in archive:
                yield member, archive
    except (tarfile.TarError, EOFError, OSError) as error:
        raise BadArchive(f"not an archive: {error}") from error


def safe_name(name: str) -> str | None:
    """The normal form of a member's name; None where it is absolute, climbs, or is empty."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or not parts or ".." in parts or "\0" in name or len(os.fsencode(name)) > MAX_PATH:
        return None
    return "/".join(parts)


class Extraction:
    """Writes members below a folder that nobody else writes to, and that holds the files of `standing` and no others.

    It keeps the kind of everything it has made and refuses what would be reached through a link, stand twice or reach
    the top-level `.git`: so nothing can land outside. Links are made last and never followed.
    """

    def __init__(self, root: str, *, strict: bool, cap_bytes: int, standing: gitobj.Manifest | None = None) -> None:
        self.root = root
        self.manifest: dict[str, GitEntry] = dict(standing or {})
        self.skipped: list[Skipped] = []
        self._strict = strict
        self._left = cap_bytes
        self._folders: set[str] = {"", *(folder for path in self.manifest for folder in parents(path))}
        self._links: dict[str, str] = {}

    def run(self, data: bytes) -> None:
        """Raises BadArchive: always for what is no archive, with `strict` also for a refused member."""
        for member, archive in members(data):
            reason = self._take(member, archive)
            if reason is not None:
                if self._strict:
                    raise BadArchive(f"{member.name!r}: {reason}")
                self.skipped.append(Skipped(member.name, reason))
        for path, target in self._links.items():
            os.symlink(target, f"{self.root}/{path}")

    def _take(self, member: tarfile.TarInfo, archive: tarfile.TarFile) -> str | None:
        """Takes one member over. Returns why not."""
        if member.isdir() and member.name.strip("/.") == "" and not member.name.startswith("/"):
            return None
        path = safe_name(member.name)
        if path is None:
            return "not a path below the root"
        if path.split("/", 1)[0] == ".git":
            return "the repository's own folder"
        if path in self.manifest or (path in self._folders and not member.isdir()):
            return "stands there already"
        if not self._make_folders(path if member.isdir() else os.path.dirname(path)):
            return "below something that is no folder"
        if member.isdir():
            return None
        if member.issym():
            return self._take_link(path, member.linkname)
        if not member.isreg():
            return "neither file, folder nor symbolic link"
        if member.size > self._left:
            return "over the size limit"
        self._left -= member.size
        stream = archive.extractfile(member)
        assert stream is not None
        mode = EXECUTABLE if member.mode & 0o100 else FILE
        self.manifest[path] = GitEntry(mode, _write(f"{self.root}/{path}", stream, member.size, mode & 0o777))
        return None

    def _take_link(self, path: str, target: str) -> str | None:
        if not target or "\0" in target or len(os.fsencode(target)) > MAX_PATH:
            return "a link to nowhere"
        self._links[path] = target
        self.manifest[path] = GitEntry(SYMLINK, gitobj.blob_name(os.fsencode(target)))
        return None

    def _make_folders(self, path: str) -> bool:
        made = ""
        for part in path.split("/") if path else []:
            made = f"{made}/{part}" if made else part
            if made in self._folders:
                continue
            if made in self.manifest:
                return False
            os.mkdir(f"{self.root}/{made}", 0o755)
            os.chmod(f"{self.root}/{made}", 0o755)
            self._folders.add(made)
        return True


def _write(path: str, stream: io.BufferedReader | object, size: int, mode: int) -> str:
    """Writes a new file and returns its blob name."""
    digest = hashlib.sha1(f"blob {size}\0".encode("ascii"), usedforsecurity=False)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with open(fd, "wb", buffering=0) as out:
        os.fchmod(fd, mode)
        left = size
        while left:
            chunk = stream.read(min(left, _CHUNK))  # type: ignore[union-attr]
            if not chunk:
                raise BadArchive(f"{path}: cut short")
            digest.update(chunk)
            view = memoryview(chunk)
            while view:
                view = view[out.write(view) :]
            left -= len(chunk)
    return digest.hexdigest()


def parents(path: str) -> Iterator[str]:
    """The folders above a path, the nearest first."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def scan(root: str, *, skip: str = ".git") -> dict[str, GitEntry]:
    """The manifest of what stands on disk below `root`, without `skip` at the top. Follows no link; see `walk`."""
    found: dict[str, GitEntry] = {}
    for path, status in walk(root, skip=skip):
        if stat.S_ISREG(status.st_mode):
            mode = EXECUTABLE if status.st_mode & 0o100 else FILE
            try:
                with open_regular(f"{root}/{path}") as fd:
                    found[path] = GitEntry(mode, gitobj.file_blob_name(fd))
            except OSError:
                found[path] = UNKNOWN
        elif stat.S_ISLNK(status.st_mode):
            found[path] = GitEntry(SYMLINK, gitobj.blob_name(os.fsencode(os.readlink(f"{root}/{path}"))))
        elif not stat.S_ISDIR(status.st_mode):
            found[path] = UNKNOWN
    return found


def walk(
    root: str, *, skip: str = ".git", missed: Callable[[str, str], None] = lambda _path, _reason: None
) -> Iterator[tuple[str, os.stat_result]]:
    """Every path below `root` with its lstat, folders before what is in them, in byte order; not `skip` at the top.

    A folder that its owner has closed to itself is opened first (the agent's uid is ours). What cannot be looked at
    and what lies deeper than a path can say is left out, and told to `missed` with the reason.
    """
    pending = [""]
    while pending:
        folder = pending.pop()
        below = []
        for name in _names(f"{root}/{folder}" if folder else root):
            path = f"{folder}/{name}" if folder else name
            if path == skip:
                continue
            if len(os.fsencode(path)) > MAX_PATH:
                missed(f"{folder}/...", "deeper than a path can say")
                continue
            try:
                status = os.lstat(f"{root}/{path}")
            except OSError as error:
                missed(path, error.strerror or str(error))
                continue
            yield path, status
            if stat.S_ISDIR(status.st_mode):
                below.append(path)
        pending.extend(reversed(below))


def _names(folder: str) -> list[str]:
    try:
        names = os.listdir(folder)
    except PermissionError:
        try:
            os.chmod(folder, 0o700)
            names = os.listdir(folder)
        except OSError:
            return []
    except OSError:
        return []
    return sorted(names, key=os.fsencode)


@contextlib.contextmanager
def open_regular(path: str) -> Iterator[int]:
    """A regular file's descriptor for reading; neither a link nor a pipe is opened. Raises OSError."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(path, flags)
    except PermissionError:
        # Closed to its owner, which we are: the agent must not be able to hide a file so.
        os.chmod(path, 0o600)
        fd = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(f"{path}: no regular file")
        yield fd
    finally:
        os.close(fd)
