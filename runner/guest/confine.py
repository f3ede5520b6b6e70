"""Opens paths below given roots, so that no link and no race leads outside.

The kernel does it where it can (openat2 with RESOLVE_BENEATH). A walk, component by component over descriptors that
follow nothing, does it where the kernel or the engine's seccomp filter does not offer the call, and for absolute links,
which RESOLVE_BENEATH always refuses though their target may lie within a root.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import stat
from collections import deque
from collections.abc import Iterator

from . import system
from .channel import OpError

_PATH_ONLY = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_LINKS = 40
#: openat2 answers EAGAIN when something moves while it resolves `..`.
_TRIES = 4


class Roots:
    """Absolute folders. A root is itself opened without following any link: the agent may have put one in its place."""

    def __init__(self, roots: list[str], *, kernel: bool | None = None) -> None:
        self._roots = sorted((posixpath.normpath(root) for root in roots), key=len, reverse=True)
        if not all(root.startswith("/") for root in self._roots):
            raise OpError("bad_request", "roots: absolute paths are wanted")
        self._kernel = HAS_OPENAT2 if kernel is None else kernel

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        """A descriptor for `path`. Raises OpError `denied` outside the roots and OSError as open(2) does."""
        root, rest = self._split(path)
        if self._kernel:
            with _root_fd(root) as fd, contextlib.suppress(_Undecided):
                return _kernel_open(fd, rest, flags, mode)
        return self._walk(root, rest, flags, mode)

    def make_folders(self, path: str) -> None:
        """Makes the missing folders of `path`. Raises as `open` does."""
        root, rest = self._split(path)
        made = root
        for name in rest.split("/"):
            parent, made = made, f"{made}/{name}"
            if name == ".":
                continue
            try:
                os.close(self.open(made, os.O_PATH | os.O_DIRECTORY))
            except FileNotFoundError:
                parent_fd = self.open(parent, os.O_PATH | os.O_DIRECTORY)
                try:
                    os.mkdir(name, 0o755, dir_fd=parent_fd)
                except FileExistsError:
                    pass
                finally:
                    os.close(parent_fd)

    def _split(self, path: str) -> tuple[str, str]:
        """The longest root above `path` and the rest, `.` for the root itself. `..` counts as text, as in editors."""
        if not path.startswith("/") or "\0" in path:
            raise OpError("denied", f"{path!r}: no absolute path")
        plain = posixpath.normpath(path)
        if plain.startswith("//"):
            plain = plain[1:]
        for root in self._roots:
            if plain == root:
                return root, "."
            prefix = root if root == "/" else f"{root}/"
            if plain.startswith(prefix):
                return root, plain[len(prefix) :]
        raise OpError("denied", f"{path}: outside the session's folders")

    def _walk(self, root: str, rest: str, flags: int, mode: int) -> int:
        """The same by hand: `..` steps back over the descriptors we came by, a link's text is walked in its place."""
        pending = deque(rest.split("/"))
        links = 0
        folders: list[int] = []
        try:
            with _root_fd(root) as fd:
                folders.append(os.dup(fd))
            while True:
                name = pending.popleft() if pending else "."
                if name == "..":
                    if len(folders) == 1:
                        raise OpError("denied", "a link leads outside")
                    os.close(folders.pop())
                if name in ("", ".", ".."):
                    if not pending:
                        return os.open(".", flags | os.O_CLOEXEC, mode, dir_fd=folders[-1])
                    continue
                target = _link_target(name, folders[-1])
                if target is None and not pending:
                    return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folders[-1])
                if target is None:
                    folders.append(os.open(name, _PATH_ONLY | os.O_DIRECTORY, dir_fd=folders[-1]))
                    continue
                links += 1
                if links > _MAX_LINKS:
                    raise OpError("denied", "too many links")
                if target.startswith("/"):
                    root, target = self._split(target)
                    while folders:
                        os.close(folders.pop())
                    with _root_fd(root) as fd:
                        folders.append(os.dup(fd))
                pending.extendleft(reversed(target.split("/")))
        finally:
            for fd in folders:
                os.close(fd)


class _Undecided(Exception):
    """The kernel's answer does not settle it: the walk decides."""


def _kernel_open(root_fd: int, rest: str, flags: int, mode: int) -> int:
    resolve = system.RESOLVE_BENEATH | system.RESOLVE_NO_MAGICLINKS
    for _ in range(_TRIES):
        try:
            return system.openat2(root_fd, rest, flags, mode, resolve)
        except OSError as error:
            if error.errno == errno.EXDEV:
                break
            if error.errno != errno.EAGAIN:
                raise
    raise _Undecided


@contextlib.contextmanager
def _root_fd(root: str) -> Iterator[int]:
    fd = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        for name in root.strip("/").split("/"):
            if name:
                try:
                    below = os.open(name, _PATH_ONLY | os.O_DIRECTORY, dir_fd=fd)
                except NotADirectoryError as error:
                    raise OpError("denied", f"{root}: a link or a file is in the way") from error
                os.close(fd)
                fd = below
        yield fd
    finally:
        os.close(fd)


def _link_target(name: str, folder: int) -> str | None:
    """The text of a symbolic link; None for anything else, also for what is not there."""
    try:
        fd = os.open(name, _PATH_ONLY, dir_fd=folder)
    except FileNotFoundError:
        return None
    try:
        return os.readlink("", dir_fd=fd) if stat.S_ISLNK(os.fstat(fd).st_mode) else None
    finally:
        os.close(fd)


#: Found out once: the filter of a container does not change.
HAS_OPENAT2 = system.has_openat2()
