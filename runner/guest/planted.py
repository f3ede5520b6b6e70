"""What a fixture has outside its workspace: files and links put there before *go*, looked at again for the proof."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import Any, NamedTuple

from . import gitobj, tree
from .channel import OpError


class PlantedPath(NamedTuple):
    """One path as it was planted. `sha256` (hex) is a file's, `target` a link's."""

    path: str
    kind: str
    sha256: str | None
    target: str | None

    def as_json(self) -> dict[str, Any]:
        return self._asdict()


def plant(items: list[dict[str, Any]], workspaces: str, workspace: str, home: str, tmp: str) -> list[PlantedPath]:
    """Write `items` ({path, content} or {path, link}). Raises OpError `bad_request` for a place that is not allowed.

    Allowed is what lies below `workspaces` but outside `workspace`, and what lies below `home` but outside `tmp`.
    """
    planted = []
    for item in items:
        path = str(item.get("path"))
        _check(path, workspaces, workspace, home, tmp)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            if isinstance(link := item.get("link"), str):
                os.symlink(link, path)
            else:
                with open(path, "x", encoding="utf-8") as stream:
                    stream.write(str(item.get("content")))
        except FileExistsError as error:
            raise OpError("bad_request", f"planted twice: {path}") from error
        planted.append(look(path))
    return planted


def look(path: str) -> PlantedPath:
    """What stands at `path` now; kind `absent` or `other` where it is neither file nor link. Follows no link."""
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            return PlantedPath(path, "link", None, os.readlink(path))
        if stat.S_ISREG(mode):
            with tree.open_regular(path) as fd, open(fd, "rb", closefd=False) as stream:
                return PlantedPath(path, "file", sha256(stream.read()), None)
    except OSError:
        return PlantedPath(path, "absent", None, None)
    return PlantedPath(path, "other", None, None)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def blobs_below(folder: str, items: list[dict[str, Any]]) -> dict[str, str]:
    """Path below `folder` -> git blob name, of the items that lie there."""
    names = {}
    for item in items:
        path, text = str(item["path"]), item["link"] if isinstance(item.get("link"), str) else item["content"]
        if path.startswith(f"{folder}/"):
            names[path[len(folder) + 1 :]] = gitobj.blob_name(str(text).encode("utf-8"))
    return names


def meant(item: dict[str, Any]) -> PlantedPath:
    """An item as `plant` leaves it."""
    if isinstance(link := item.get("link"), str):
        return PlantedPath(str(item["path"]), "link", None, link)
    return PlantedPath(str(item["path"]), "file", sha256(str(item["content"]).encode("utf-8")), None)


def differences(planted: list[PlantedPath]) -> list[str]:
    """The planted paths that are not what they were."""
    return [f"{path.path} differs" for path in planted if look(path.path) != path]


def _check(path: str, workspaces: str, workspace: str, home: str, tmp: str) -> None:
    def below(folder: str) -> bool:
        return path.startswith(f"{folder}/")

    if os.path.normpath(path) != path or "\0" in path:
        raise OpError("bad_request", f"no plain absolute path: {path!r}")
    outside = below(workspaces) and path != workspace and not below(workspace)
    if not outside and not (below(home) and path != tmp and not below(tmp)):
        raise OpError("bad_request", f"neither outside the workspace nor in HOME: {path!r}")
