"""A fixture's tar is the same bytes whatever the checkout looks like."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from runner.config.catalog import Catalog
from runner.config.loaded_sweep import load_sweep
from runner.errors import ConfigError, UsageError
from runner.guest import fixture as guest_fixture
from runner.guest.fixture import Layout, Pins
from runner.sandbox.fixture import check_pins, fixture_pins, fixture_tar, fixture_tree, oddities, wrong_pin


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


ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", ["semver", "boundary", "permissions"])
def test_the_shipped_fixtures_are_what_their_files_pin(name: str) -> None:
    catalog = Catalog(ROOT)
    pinned = catalog.fixture(name)
    assert wrong_pin(catalog.fixture_folder(name), pinned) is None
    found = fixture_pins(catalog.fixture_folder(name), name)
    assert (found.tree, found.commit) == (pinned.tree, pinned.commit)


def guest_s(tmp_path: Path, folder: Path) -> guest_fixture.Prepared:
    for name in ("workspace", "home"):
        (tmp_path / name).mkdir()
    layout = Layout(str(tmp_path / "workspace"), str(tmp_path / "home"))
    return guest_fixture.prepare(layout, "fx", fixture_tar(folder), Pins(), {})


def test_the_guest_finds_the_same_pins(tmp_path: Path) -> None:
    folder = make(tmp_path / "one", ["a.txt", "b/c.txt"])
    prepared = guest_s(tmp_path, folder)
    pins = fixture_pins(folder, "fx")
    assert (pins.tree, pins.commit) == (prepared.tree, prepared.commit)


def test_an_empty_folder_is_left_out_and_named(tmp_path: Path) -> None:
    folder = make(tmp_path / "one", ["a.txt", "b/c.txt"])
    before = fixture_tar(folder)
    (folder / "empty/er").mkdir(parents=True)
    assert fixture_tar(folder) == before
    (line,) = oddities(folder)
    assert "empty/er: an empty folder, which git cannot hold" in line
    (folder / ".gitmodules").write_text("")
    assert "a submodule?" in oddities(folder)[-1]


def test_git_stores_the_bytes_whatever_the_attributes_say(tmp_path: Path) -> None:
    folder = make(tmp_path / "one", ["a.txt"])
    (folder / ".gitattributes").write_text("* text=auto\n*.id ident\n*.u working-tree-encoding=UTF-16\n")
    (folder / "dos.txt").write_bytes(b"one\r\ntwo\r\n")
    (folder / "k.id").write_text("$Id$\n")
    (folder / "w.u").write_text("text")
    prepared = guest_s(tmp_path, folder)
    assert [proof for proof in prepared.proofs if not proof.ok] == []
    assert prepared.tree == fixture_tree(folder)
    status = subprocess.run(["git", "status", "--short"], cwd=prepared.workspace, check=True, capture_output=True)
    assert status.stdout == b""
    assert "CRLF line ends" in oddities(folder)[0]


def test_a_pointer_of_git_lfs_is_named(tmp_path: Path) -> None:
    folder = make(tmp_path / "one", ["a.txt"])
    (folder / "big.bin").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    assert "git lfs pull" in oddities(folder)[0]


@pytest.mark.parametrize("name", [".git/HEAD", "sub/.git", "sub/.git/config", "sub/.GIT/x", "sub/git~1", ".git ::x"])
def test_a_repository_inside_is_refused_with_its_place(tmp_path: Path, name: str) -> None:
    folder = make(tmp_path / "one", ["a.txt", name])
    with pytest.raises(UsageError, match=r"one/.*: a repository or submodule inside"):
        fixture_pins(folder, "fx")


def test_what_git_reads_may_be_no_link(tmp_path: Path) -> None:
    folder = make(tmp_path / "one", ["a.txt"])
    (folder / ".gitattributes").symlink_to("a.txt")
    with pytest.raises(UsageError, match=r"\.gitattributes: git takes no symbolic link"):
        fixture_tar(folder)


def test_a_tree_without_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file in the fixture's tree"):
        fixture_tar(tmp_path)


def test_a_checkout_that_changed_the_line_ends_is_named(tmp_path: Path) -> None:
    folder = make(tmp_path / "one", ["a.txt"])
    (folder / "a.txt").write_bytes(b"one\ntwo\n")
    pins = fixture_pins(folder, "fx")
    wanted = Catalog(ROOT).fixture("semver").model_copy(update={"id": "fx", "tree": pins.tree, "commit": pins.commit})
    assert wrong_pin(folder, wanted) is None
    (folder / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    key, text = wrong_pin(folder, wanted) or ("", "")
    assert key == "tree"
    assert "core.autocrlf=false" in text
    (folder / "a.txt").write_bytes(b"other\n")
    assert "fixture pin" in (wrong_pin(folder, wanted) or ("", ""))[1]


def test_every_wrong_pin_of_a_sweep_is_told_at_once(tmp_path: Path) -> None:
    for name in ("configs", "images"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "fixtures", tmp_path / "fixtures", symlinks=True)
    for name, key in (("boundary", "tree"), ("semver", "commit")):
        file = tmp_path / "fixtures" / name / "fixture.yaml"
        file.write_text(re.sub(rf"(?m)^{key}: \w+", f"{key}: {'a' * 40}", file.read_text()))
    sweep = tmp_path / "sweep.yaml"
    arms = "{surfaces: [acp], fixtures: [semver, boundary], models: [scripted/fix-semver]}"
    sweep.write_text(f"id: two\nadapters: [claude-agent-acp@0.64.0]\narms: [{arms}]\n")
    with pytest.raises(ConfigError) as refused:
        check_pins(load_sweep(sweep, Catalog(tmp_path)))
    first, second = str(refused.value).splitlines()
    assert "boundary/fixture.yaml:3: tree aaa" in first
    assert "semver/fixture.yaml:4: commit aaa" in second
