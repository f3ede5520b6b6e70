"""Makes a fixture's workspace: the same files, tree and commit every time, and nothing else in it."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Any, NamedTuple

from . import gitobj, planted, tree
from .channel import OpError
from .git import git
from .gitobj import GitEntry

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
#: A fixture is small; its files are written into each run.
_CAP_BYTES = 512 << 20
#: Author and committer, 2026-01-01T00:00:00Z.
SIGNATURE = "acpbench <acpbench@localhost> 1767225600 +0000"
#: What `git init` writes, and no background process of git may outlive an agent's commit.
_CONFIG = """\
[core]
	repositoryformatversion = 0
	filemode = true
	bare = false
	logallrefupdates = true
[gc]
	auto = 0
[maintenance]
	auto = false
"""
#: Outranks every .gitattributes of a fixture: git must store the bytes as they are, or it would find other hashes than
#: the pinned ones (`text=auto` and a file with CRLF line ends, a filter, a keyword).
_AS_THEY_ARE = "* -text -crlf -eol -ident -filter -working-tree-encoding\n"


class ProofResult(NamedTuple):
    """One checked statement about the sandbox; `detail` says what was found."""

    name: str
    ok: bool
    detail: str = ""

    def as_json(self) -> dict[str, object]:
        return self._asdict()


class Pins(NamedTuple):
    """What a fixture's hashes must be; None: not compared (the tooling that computes them)."""

    tree: str | None = None
    commit: str | None = None


class Layout(NamedTuple):
    """Where things are in a container."""

    workspaces: str = "/workspace"
    home: str = "/home/agent"
    #: Where an isolated fixture's tests are laid; below what root alone may write.
    isolated: str = "/acpbench/isolated"

    @property
    def tmp(self) -> str:
        return f"{self.home}/tmp"


class Prepared(NamedTuple):
    """What `prepare` has made: what the proofs, `collect` and `verify` compare with."""

    workspace: str
    tree: str
    commit: str
    manifest: dict[str, GitEntry]
    #: Blob names of the files written into HOME, by relative path.
    home: dict[str, str]
    #: Of the repository's own files that say how git behaves; see `git_state`.
    git_state: dict[str, str]
    proofs: list[ProofResult]
    #: Outside the workspace; what lies in HOME stands in `home` too.
    planted: list[planted.PlantedPath] = []


def prepare(
    layout: Layout,
    fixture: str,
    archive: bytes,
    pins: Pins,
    home: dict[str, str],
    *,
    plant: list[dict[str, Any]] | None = None,
    fsck: bool = True,
) -> Prepared:
    """Writes the workspace and HOME, commits, and checks the result against the pins.

    The objects are written by ourselves, the index by git, which must find the same; with `fsck` it checks all of it.
    Raises OpError `bad_request`, `exists`, `bad_archive`, `git_failed`; a pin that differs is a failed proof.
    """
    if not _ID.fullmatch(fixture):
        raise OpError("bad_request", f"fixture: no name for a folder: {fixture!r}")
    workspace = f"{layout.workspaces}/{fixture}"
    try:
        os.mkdir(workspace, 0o755)
    except FileExistsError as error:
        raise OpError("exists", f"{workspace} is there already") from error
    manifest = write_files(workspace, archive)
    tree_name, commit = commit_files(workspace, manifest, subject_of(fixture))
    proofs = [
        _pin("fixture-tree", tree_name, pins.tree),
        _pin("fixture-commit", commit, pins.commit),
        _index(workspace, manifest),
    ]
    if fsck:
        proofs.append(_fsck(workspace))
    items = plant or []
    written = write_home(layout, home)
    return Prepared(
        workspace=workspace,
        tree=tree_name,
        commit=commit,
        manifest=manifest,
        home={**written, **planted.blobs_below(layout.home, items)},
        git_state=git_state(workspace),
        proofs=proofs,
        planted=planted.plant(items, layout.workspaces, workspace, layout.home, layout.tmp),
    )


def write_files(workspace: str, archive: bytes) -> dict[str, GitEntry]:
    """The fixture's files into an empty folder, modes normalised to 0644 and 0755."""
    extraction = tree.Extraction(workspace, strict=True, cap_bytes=_CAP_BYTES)
    try:
        extraction.run(archive)
    except tree.BadArchive as error:
        raise OpError("bad_archive", str(error)) from error
    return extraction.manifest


def commit_files(workspace: str, manifest: gitobj.Manifest, subject: str) -> tuple[str, str]:
    """Makes `.git` as `git init -b main` and a first commit would, without templates. Returns tree and commit."""
    folder = f"{workspace}/.git"
    for name in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "logs/refs/heads"):
        os.makedirs(f"{folder}/{name}")
    objects = f"{folder}/objects"
    gitobj.write_files(objects, workspace, manifest)
    root = gitobj.build_trees(manifest, lambda data: gitobj.write_object(objects, "tree", data))
    commit = gitobj.write_object(objects, "commit", commit_data(root, subject))
    log = f"{'0' * 40} {commit} {SIGNATURE}\tcommit (initial): {subject}\n"
    files = {
        "config": _CONFIG,
        "HEAD": "ref: refs/heads/main\n",
        "refs/heads/main": f"{commit}\n",
        "logs/HEAD": log,
        "logs/refs/heads/main": log,
    }
    if any(path.rsplit("/", 1)[-1] == ".gitattributes" for path in manifest):
        os.mkdir(f"{folder}/info")
        files["info/attributes"] = _AS_THEY_ARE
    for name, text in files.items():
        with open(f"{folder}/{name}", "w", encoding="ascii") as stream:
            stream.write(text)
    return root, commit


def commit_data(tree_name: str, subject: str) -> bytes:
    """The content of the first commit of a tree. It depends on nothing else, so the host can compute its name."""
    return f"tree {tree_name}\nauthor {SIGNATURE}\ncommitter {SIGNATURE}\n\n{subject}\n".encode("ascii")


def subject_of(fixture: str) -> str:
    """The first line of a fixture's commit."""
    return f"fixture {fixture}"


def write_home(layout: Layout, files: dict[str, str]) -> dict[str, str]:
    """TMPDIR and the adapter's files into HOME. Returns their blob names. Raises OpError `bad_request`."""
    os.makedirs(layout.tmp, mode=0o700, exist_ok=True)
    names = {}
    for name, content in files.items():
        path = tree.safe_name(name)
        if path is None or path.split("/", 1)[0] == "tmp":
            raise OpError("bad_request", f"home: no path below HOME: {name!r}")
        full = f"{layout.home}/{path}"
        os.makedirs(os.path.dirname(full), exist_ok=True)
        data = content.encode("utf-8")
        with open(full, "wb") as stream:
            stream.write(data)
        names[path] = gitobj.blob_name(data)
    return names


def head_commit(workspace: str) -> str:
    """The commit of the one branch `main`, as a loose ref. Raises OpError `git_failed`."""
    try:
        with open(f"{workspace}/.git/refs/heads/main", encoding="ascii") as stream:
            return stream.read().strip()
    except (OSError, ValueError) as error:
        raise OpError("git_failed", f"no branch main: {error}") from error


def commit_tree(workspace: str, commit: str) -> str:
    """The tree of a commit without parents. Raises OpError `git_failed`."""
    try:
        kind, data = gitobj.read_object(f"{workspace}/.git/objects", commit)
    except (OSError, ValueError) as error:
        raise OpError("git_failed", f"commit {commit}: {error}") from error
    head = data.partition(b"\n\n")[0].decode("utf-8", "replace").split("\n")
    if kind != "commit" or not head[0].startswith("tree ") or any(line.startswith("parent ") for line in head):
        raise OpError("git_failed", f"{commit} is no first commit")
    return head[0][5:]


def git_state(workspace: str) -> dict[str, str]:
    """Blob names of what decides how git behaves in a workspace: config, HEAD, the branch, hooks, attributes, excludes.

    Read without git. Something that is no regular file shows as `not-a-file`, what is absent is absent.
    """
    folder = f"{workspace}/.git"
    names = ["HEAD", "config", "config.worktree", "refs/heads/main", "packed-refs", "info/attributes", "info/exclude"]
    with contextlib.suppress(OSError):
        names += sorted(f"hooks/{name}" for name in os.listdir(f"{folder}/hooks"))[:200]
    state = {}
    for name in names:
        path = f"{folder}/{name}"
        if os.path.lexists(path):
            try:
                with tree.open_regular(path) as fd:
                    state[name] = gitobj.file_blob_name(fd)
            except OSError:
                state[name] = "not-a-file"
    return state


def _pin(name: str, found: str, pin: str | None) -> ProofResult:
    if pin is not None and found != pin:
        return ProofResult(name, False, f"{found}, pinned {pin}")
    return ProofResult(name, True, found)


def _index(workspace: str, manifest: gitobj.Manifest) -> ProofResult:
    """Has git write the index. It differs where git would store a file otherwise than it is (by an attribute)."""
    git("add", "--all", "--force", ".", cwd=workspace)
    with open(f"{workspace}/.git/index", "rb") as stream:
        found = gitobj.read_index(stream.read())
    differing = sorted(path for path in found.keys() | manifest.keys() if found.get(path) != manifest.get(path))
    return ProofResult(
        "git-index", not differing, f"git stores otherwise: {', '.join(differing[:10])}" if differing else ""
    )


def _fsck(workspace: str) -> ProofResult:
    done = git("fsck", "--full", "--strict", "--no-progress", cwd=workspace, ok=range(256))
    text = (done.stdout + done.stderr).decode("utf-8", "replace").strip()
    return ProofResult("git-fsck", done.returncode == 0 and not text, text[:400] or "clean")
