"""Takes home what the agent left: its workspace as an archive, and a list of what it wrote elsewhere.

The agent is dead by now, so what is seen stays as it is. No link is followed, and no git is run on its repository.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from typing import Any

from . import tree
from .archive import Archive, kind_of
from .changed import take_changes
from .channel import OpError, Request, within
from .fixture import Prepared, git_state
from .gitobj import Manifest

#: Lists are bounded: a million files must neither fill the channel nor the host's memory.
_MAX_OUTSIDE = 20_000
_OUTSIDE_BYTES = 8 << 20
_SKIPPED_BYTES = 2 << 20
#: Bytes that are hashed for the list of files outside the workspace.
_HASH_BYTES = 256 << 20


def collect(request: Request, prepared: Prepared | None) -> None:
    """`collect` {workspace, cap_bytes, writable, changes_only, within_s} -> {tar, differing, cut, files, bytes,
    left_out: {kind: {files, bytes}}, skipped:[{path, reason}], odd, outside:[...], outside_cut, git_changed,
    git_changes:[name]}. Replies itself, since the archive is large. Error: `too_much`, not done within `within_s`.

    `changes_only`: without the fixture's files that are as they were; `differing` then names those that are not (null
    where the archive is whole). `odd`: entries that are neither file, folder nor link, or could not be read.

    A workspace that is no folder any more (moved away, a link, removed) is one in which nothing is left.
    """
    workspace = request.text("workspace")
    deadline = time.monotonic() + float(request.args.get("within_s", 3600))
    manifest = prepared.manifest if prepared is not None and request.args.get("changes_only") is True else None
    with contextlib.closing(Archive(request.number("cap_bytes"))) as archive:
        try:
            differing = _take(archive, workspace, manifest, deadline)
        except TimeoutError:
            raise OpError("too_much", "the workspace holds more than can be looked through in time") from None
        outside, outside_cut = list_outside(request.texts("writable"), workspace, deadline)
        changes = git_changes(workspace, prepared)
        told = within(outside, _OUTSIDE_BYTES)
        request.reply(
            {
                "differing": differing,
                "cut": archive.cut,
                "files": archive.files,
                "bytes": archive.size,
                "left_out": archive.left_out,
                "skipped": within(archive.skipped, _SKIPPED_BYTES),
                "odd": archive.odd,
                "outside": told,
                "outside_cut": outside_cut or len(told) < len(outside),
                "git_changed": bool(changes),
                "git_changes": changes,
            },
            blobs={"tar": archive.finish()},
        )


def _take(archive: Archive, workspace: str, manifest: Manifest | None, deadline: float) -> list[str] | None:
    """Fills the archive. Returns the paths of `manifest` that are not as it says; None without one. Raises
    TimeoutError after `deadline`."""
    if not stat.S_ISDIR(_mode(workspace)):
        archive.skip(".", "no folder any more")
        return None if manifest is None else list(manifest)
    if manifest is not None:
        return take_changes(archive, workspace, manifest, deadline)
    for path, status in tree.walk(workspace, missed=archive.skip):
        if time.monotonic() > deadline:
            raise TimeoutError
        archive.add(workspace, path, status)
    return None


def list_outside(
    places: list[str], workspace: str, deadline: float = float("inf")
) -> tuple[list[dict[str, Any]], bool]:
    """Everything but folders below `places`, without the workspace, and whether the list was cut short."""
    found: list[dict[str, Any]] = []
    left = _HASH_BYTES
    for place in outermost(places):
        inside = workspace[len(place) + 1 :] if workspace.startswith(f"{place}/") else ""
        for path, status in tree.walk(place, skip=inside):
            if time.monotonic() > deadline:
                return found, True
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
                    "kind": kind_of(status.st_mode),
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
