"""Which files of a workspace are collected: what differs from the pinned fixture, the most telling first.

A fixture's file that is as it was does not travel; the verifier has it. Of the rest come, as far as the cap allows,
first the fixture's own files that differ, then new ones, then those that .gitignore files cover. A folder that is not
the fixture's and does not fit (an `npm install`) is left out whole, since half of it would help nobody.
"""

from __future__ import annotations

import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from . import gitobj, tree
from .archive import Archive
from .channel import OpError
from .git import ignored
from .gitobj import GitEntry, Manifest

#: New files that are sorted at a time: an agent can leave millions.
_CHUNK = 50_000
#: For all questions to git; an agent's .gitignore may be a pipe or a pattern that takes for ever.
_GIT_S = 10.0
#: What an empty file takes of the cap.
_LEAST_BYTES = 1024


class File(NamedTuple):
    """A file or a link of the workspace."""

    path: str
    status: os.stat_result

    @property
    def cost(self) -> int:
        """What it takes of the archive's cap."""
        size = self.status.st_size if stat.S_ISREG(self.status.st_mode) else 0
        return size + _LEAST_BYTES + len(os.fsencode(self.path))


def take_changes(archive: Archive, workspace: str, manifest: Manifest, deadline: float) -> list[str]:
    """Adds to `archive` what differs from `manifest`. Returns the paths of `manifest` that are not as they were: gone,
    changed or replaced, also where the change itself did not fit. Raises TimeoutError after `deadline`."""
    kept: set[str] = set()
    changed: list[File] = []
    folders: list[File] = []
    new = _New(archive, workspace, manifest)
    for path, status in tree.walk(workspace, missed=archive.skip):
        if time.monotonic() > deadline:
            raise TimeoutError
        if stat.S_ISDIR(status.st_mode):
            if len(folders) < new.most:
                folders.append(File(path, status))
            else:
                archive.leave_out("folders", path, status)
        elif path not in manifest:
            new.add(File(path, status))
        elif _entry(f"{workspace}/{path}", status) == manifest[path]:
            kept.add(path)
        else:
            changed.append(File(path, status))
    for file in sorted(changed, key=lambda file: (file.cost, file.path)):
        archive.add(workspace, *file, kind="changed")
    for kind, file in new.chosen():
        if time.monotonic() > deadline:
            raise TimeoutError
        archive.add(workspace, *file, kind=kind)
    # Folders of files come with the files; this is for empty ones.
    implied = {folder for path in kept for folder in tree.parents(path)}
    for file in folders:
        if file.path not in implied:
            archive.add(workspace, *file, kind="folders")
    return [path for path in manifest if path not in kept]


def _entry(full: str, status: os.stat_result) -> GitEntry:
    """What stands at a path as a tree would hold it; mode 0 where it cannot."""
    try:
        if stat.S_ISLNK(status.st_mode):
            return GitEntry(gitobj.SYMLINK, gitobj.blob_name(os.fsencode(os.readlink(full))))
        if not stat.S_ISREG(status.st_mode):
            return tree.UNKNOWN
        with tree.open_regular(full) as fd:
            return GitEntry(gitobj.EXECUTABLE if status.st_mode & 0o100 else gitobj.FILE, gitobj.file_blob_name(fd))
    except OSError:
        return tree.UNKNOWN


class _Group:
    """The new files of one kind below one entry of the workspace's top."""

    def __init__(self) -> None:
        self.files: list[File] = []
        self.cost = 0
        #: It cannot fit, so its files are only counted.
        self.dropped = False


class _New:
    """Files that the fixture does not have. git is asked about them only where not all of them fit."""

    def __init__(self, archive: Archive, workspace: str, manifest: Manifest) -> None:
        self._archive = archive
        self._workspace = workspace
        self._ours = {path.partition("/")[0] for path in manifest}
        self._git_until: float | None = None
        self._pending: list[File] = []
        self._groups: dict[str, dict[str, _Group]] = {"untracked": {}, "ignored": {}}
        self._kept = 0
        #: Files that could fit at all, were they empty.
        self.most = archive.left // _LEAST_BYTES + 1

    def add(self, file: File) -> None:
        self._pending.append(file)
        if len(self._pending) >= _CHUNK:
            self._sort()

    def chosen(self) -> Iterator[tuple[str, File]]:
        """Each file that shall be tried, with its kind, in order; what is left out whole is counted here."""
        if not any(self._groups.values()) and sum(file.cost for file in self._pending) <= self._archive.left:
            yield from (("untracked", file) for file in self._pending)
            return
        self._sort()
        for kind, groups in self._groups.items():
            for top, group in sorted(groups.items(), key=lambda item: (item[1].cost, item[0])):
                if top not in self._ours and group.cost > self._archive.left:
                    self._drop(kind, group)
                else:
                    yield from ((kind, file) for file in sorted(group.files, key=lambda file: (file.cost, file.path)))

    def _sort(self) -> None:
        """Moves the pending files to their groups; what cannot fit is counted and forgotten."""
        ignored = self._ignored([file.path for file in self._pending])
        for file in self._pending:
            kind = "ignored" if file.path in ignored else "untracked"
            top = file.path.partition("/")[0]
            group = self._groups[kind].setdefault(top, _Group())
            if group.dropped or self._kept > max(self.most, _CHUNK):
                self._archive.leave_out(kind, file.path, file.status)
                continue
            group.files.append(file)
            group.cost += file.cost
            self._kept += 1
            if top not in self._ours and group.cost > self._archive.left:
                self._drop(kind, group)
        self._pending = []

    def _drop(self, kind: str, group: _Group) -> None:
        for file in group.files:
            self._archive.leave_out(kind, file.path, file.status)
        self._kept -= len(group.files)
        group.files, group.dropped = [], True

    def _ignored(self, paths: list[str]) -> set[str]:
        """Which of the paths the .gitignore files cover. The repository that git is shown is an empty one of ours, so
        that nothing in the agent's has a say; where git fails, nothing is ignored."""
        if not paths:
            return set()
        if self._git_until is None:
            self._git_until = time.monotonic() + _GIT_S
        left_s = self._git_until - time.monotonic()
        if left_s <= 0:
            return set()
        try:
            with _empty_repository() as folder:
                return ignored(paths, repository=folder, work_tree=self._workspace, timeout_s=left_s)
        except (OSError, OpError):
            self._git_until = 0.0
            return set()


@contextmanager
def _empty_repository() -> Iterator[str]:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="acpbench-") as folder:
        os.makedirs(f"{folder}/objects")
        os.makedirs(f"{folder}/refs")
        with open(f"{folder}/HEAD", "w", encoding="ascii") as stream:
            stream.write("ref: refs/heads/main\n")
        yield folder
