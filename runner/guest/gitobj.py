"""Git's object format, read and written without git: names of blobs and trees, loose objects, the index.

Paths are `str` with surrogate escapes, relative, `/` between components. A *manifest* maps each path to its mode and
blob name, as a tree does; folders are implied.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

FILE, EXECUTABLE, SYMLINK = 0o100644, 0o100755, 0o120000
_TREE = 0o040000
#: Objects we read ourselves are commits and trees: far smaller than this.
_MAX_OBJECT = 64 << 20
_CHUNK = 1 << 20


class GitEntry(NamedTuple):
    """What stands at a path. Mode 0 is something git cannot hold (a pipe, a socket, a device)."""

    mode: int
    sha: str


Manifest = Mapping[str, GitEntry]


def object_name(kind: str, data: bytes) -> str:
    """The name git gives an object."""
    return hashlib.sha1(f"{kind} {len(data)}\0".encode("ascii") + data, usedforsecurity=False).hexdigest()


def blob_name(data: bytes) -> str:
    return object_name("blob", data)


def file_blob_name(fd: int) -> str:
    """The blob name of an open regular file, read in pieces. Raises OSError if its size changes meanwhile."""
    size = os.fstat(fd).st_size
    digest = hashlib.sha1(f"blob {size}\0".encode("ascii"), usedforsecurity=False)
    seen = 0
    while chunk := os.read(fd, _CHUNK):
        digest.update(chunk)
        seen += len(chunk)
    if seen != size:
        raise OSError(f"{seen} bytes read of {size}")
    return digest.hexdigest()


def build_trees(manifest: Manifest, keep: Callable[[bytes], object] | None = None) -> str:
    """The name of the root tree; `keep` is given the content of every tree."""
    root: dict[str, object] = {}
    for path, entry in manifest.items():
        *folders, name = path.split("/")
        here = root
        for folder in folders:
            below = here.setdefault(folder, {})
            if not isinstance(below, dict):
                raise ValueError(f"{path}: {folder} is a file elsewhere")
            here = below
        if name in here:
            raise ValueError(f"{path}: stands there twice")
        here[name] = entry
    return _tree(root, keep)


def _tree(folder: Mapping[str, object], keep: Callable[[bytes], object] | None) -> str:
    """Depth is bounded by the length of a path (4096), twice Python's default recursion limit: hence no recursion."""
    names: dict[int, str] = {}
    stack: list[tuple[Mapping[str, object], bool]] = [(folder, False)]
    while stack:
        here, ready = stack.pop()
        if not ready:
            stack.append((here, True))
            stack.extend((below, False) for below in here.values() if isinstance(below, dict))
            continue
        data = _tree_data(here, names)
        names[id(here)] = object_name("tree", data)
        if keep is not None:
            keep(data)
    return names[id(folder)]


def _tree_data(folder: Mapping[str, object], names: Mapping[int, str]) -> bytes:
    """A tree's entries sort as if folders ended in a slash."""
    lines = []
    for name, item in folder.items():
        raw = os.fsencode(name)
        if isinstance(item, GitEntry):
            lines.append((raw, f"{item.mode:o}", item.sha))
        else:
            lines.append((raw + b"/", f"{_TREE:o}", names[id(item)]))
    lines.sort()
    return b"".join(
        mode.encode("ascii") + b" " + raw.rstrip(b"/") + b"\0" + bytes.fromhex(sha) for raw, mode, sha in lines
    )


def loose_path(objects: str, name: str) -> str:
    return f"{objects}/{name[:2]}/{name[2:]}"


def write_object(objects: str, kind: str, data: bytes) -> str:
    """Writes a loose object unless it is there. Returns its name."""
    name = object_name(kind, data)
    path = loose_path(objects, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
    except FileExistsError:
        return name
    with open(fd, "wb") as stream:
        stream.write(zlib.compress(f"{kind} {len(data)}\0".encode("ascii") + data, 1))
    return name


def write_files(objects: str, root: str, manifest: Manifest) -> None:
    """Writes the blobs of the files and links of `manifest` that stand below `root`."""
    for path, entry in manifest.items():
        full = f"{root}/{path}"
        if entry.mode == SYMLINK:
            data = os.fsencode(os.readlink(full))
        else:
            with open(full, "rb") as stream:
                data = stream.read()
        write_object(objects, "blob", data)


def read_object(objects: str, name: str) -> tuple[str, bytes]:
    """Kind and content of a loose object, its name checked. Raises ValueError or OSError."""
    with open(loose_path(objects, name), "rb") as stream:
        raw = zlib.decompressobj().decompress(stream.read(), _MAX_OBJECT)
    head, _, data = raw.partition(b"\0")
    kind = head.partition(b" ")[0].decode("ascii")
    if object_name(kind, data) != name:
        raise ValueError(f"object {name} holds something else")
    return kind, data


def read_tree(objects: str, name: str) -> dict[str, GitEntry]:
    """The manifest of a tree, all its loose tree objects read. Raises ValueError or OSError."""
    found: dict[str, GitEntry] = {}
    pending = [("", name)]
    while pending:
        prefix, sha = pending.pop()
        kind, data = read_object(objects, sha)
        if kind != "tree":
            raise ValueError(f"{sha} is a {kind}, no tree")
        at = 0
        while at < len(data):
            head, _, _ = data[at:].partition(b"\0")
            mode, _, raw = head.partition(b" ")
            at += len(head) + 21
            entry = GitEntry(int(mode, 8), data[at - 20 : at].hex())
            path = prefix + os.fsdecode(raw)
            if entry.mode == _TREE:
                pending.append((f"{path}/", entry.sha))
            else:
                found[path] = entry
    return found


def read_index(data: bytes) -> dict[str, GitEntry]:
    """The manifest in an index file, version 2 or 3 (gitformat-index). Raises ValueError."""
    if data[:4] != b"DIRC":
        raise ValueError("no index")
    version, count = struct.unpack(">II", data[4:12])
    if version not in (2, 3):
        raise ValueError(f"index version {version}")
    found: dict[str, GitEntry] = {}
    at = 12
    for _ in range(count):
        mode = struct.unpack(">I", data[at + 24 : at + 28])[0]
        sha = data[at + 40 : at + 60].hex()
        flags = struct.unpack(">H", data[at + 60 : at + 62])[0]
        start = at + (64 if flags & 0x4000 else 62)
        end = data.index(b"\0", start)
        if flags & 0x3000:
            raise ValueError("unmerged entries")
        found[os.fsdecode(data[start:end])] = GitEntry(mode, sha)
        at += (end - at + 8) // 8 * 8
    return found
