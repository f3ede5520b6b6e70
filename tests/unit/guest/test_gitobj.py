from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.guest import gitobj
from runner.guest.git import git
from runner.guest.gitobj import EXECUTABLE, FILE, SYMLINK, GitEntry

NAMES = st.sampled_from(["a", "a.b", "a-b", "a0", "b", "B", "ä", "-x", "caf\udce9"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
ENTRIES = st.builds(
    lambda mode, data: (mode, data), st.sampled_from([FILE, EXECUTABLE, SYMLINK]), st.binary(min_size=1, max_size=20)
)


def without_conflicts(files: dict[str, tuple[int, bytes]]) -> dict[str, tuple[int, bytes]]:
    """Drops what stands below a file."""
    return {path: item for path, item in files.items() if not any(path.startswith(f"{other}/") for other in files)}


FILES = st.dictionaries(PATHS, ENTRIES, max_size=8).map(without_conflicts)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git("init", "-q", "--template=", ".", cwd=str(tmp_path))
    return tmp_path


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=FILES)
def test_trees_and_index_are_git_s_own(repository: Path, files: dict[str, tuple[int, bytes]]) -> None:
    """git itself, given the same blobs, names the same tree; what we read back is what it wrote."""
    objects = str(repository / ".git/objects")
    manifest = {
        path: GitEntry(mode, gitobj.write_object(objects, "blob", data)) for path, (mode, data) in files.items()
    }
    lines = b"".join(
        f"{entry.mode:o} {entry.sha} 0\t".encode() + os.fsencode(path) + b"\0" for path, entry in manifest.items()
    )
    (repository / ".git/index").unlink(missing_ok=True)
    git("update-index", "-z", "--add", "--index-info", cwd=str(repository), stdin=lines)
    theirs = git("write-tree", cwd=str(repository)).stdout.decode().strip()
    assert gitobj.build_trees(manifest, lambda data: gitobj.write_object(objects, "tree", data)) == theirs
    assert gitobj.read_tree(objects, theirs) == manifest
    index = repository / ".git/index"
    assert (gitobj.read_index(index.read_bytes()) if index.exists() else {}) == manifest
    assert git("fsck", "--full", "--no-dangling", cwd=str(repository)).stdout == b""


def test_blob_names(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"hello\n" * 1000)
    theirs = subprocess.run(["git", "hash-object", path], capture_output=True, check=True).stdout.decode().strip()
    assert gitobj.blob_name(path.read_bytes()) == theirs
    with path.open("rb") as stream:
        assert gitobj.file_blob_name(stream.fileno()) == theirs


def test_deep_folders_do_not_exhaust_the_stack() -> None:
    path = "/".join("a" * 1900)
    assert len(gitobj.build_trees({path: GitEntry(FILE, "0" * 40)})) == 40


@pytest.mark.parametrize("other", ["a", "a/b/c"])
def test_a_path_that_is_file_and_folder_is_refused(other: str) -> None:
    entry = GitEntry(FILE, "0" * 40)
    with pytest.raises(ValueError, match="a"):
        gitobj.build_trees(dict.fromkeys(["a/b", other], entry))


def test_an_object_that_is_not_what_its_name_says_is_refused(tmp_path: Path) -> None:
    objects = str(tmp_path)
    name = gitobj.write_object(objects, "blob", b"one")
    other = gitobj.write_object(objects, "blob", b"two")
    Path(gitobj.loose_path(objects, other)).unlink()
    Path(gitobj.loose_path(objects, name)).rename(gitobj.loose_path(objects, other))
    with pytest.raises(ValueError, match=other):
        gitobj.read_object(objects, other)


@pytest.mark.parametrize("data", [b"", b"XXXX" + bytes(8), b"DIRC\0\0\0\4\0\0\0\0"])
def test_what_is_no_index_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="index"):
        gitobj.read_index(data)
