"""A fixture's tar is the same bytes whatever the checkout looks like."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from runner.errors import UsageError
from runner.sandbox.fixture import fixture_tar, fixture_tree


def make(folder: Path, order: list[str]) -> Path:
    for name in order:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
    (folder / "link").symlink_to("a.txt")
    return folder


def test_the_same_bytes_whatever_mode_owner_order_and_time(tmp_path: Path) -> None:
    one = make(tmp_path / "one", ["a.txt", "b/c.txt"])
    two = make(tmp_path / "two", ["b/c.txt", "a.txt"])
    os.utime(two / "a.txt", (1, 1))
    (two / "a.txt").chmod(0o600)
    assert fixture_tar(one) == fixture_tar(two)


def test_the_executable_bit_counts(tmp_path: Path) -> None:
    one = make(tmp_path / "one", ["a.txt"])
    before = fixture_tar(one)
    (one / "a.txt").chmod(0o755)
    after = fixture_tar(one)
    assert before != after
    with tarfile.open(fileobj=io.BytesIO(after)) as tar:
        assert tar.getmember("a.txt").mode == 0o755
        assert tar.getmember("link").linkname == "a.txt"


def test_other_kinds_of_file_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="pipe"):
        fixture_tar(tmp_path)


def test_the_tree_is_the_one_that_git_names(tmp_path: Path) -> None:
    folder = make(tmp_path / "one", ["a.txt", "b/c.txt", "b.txt"])
    (folder / "a.txt").chmod(0o755)
    before = fixture_tree(folder)
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    named = subprocess.run(["git", "write-tree"], cwd=folder, check=True, capture_output=True, text=True)
    assert before == named.stdout.strip()
