from __future__ import annotations

import os
import stat
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.guest import tree
from runner.guest.gitobj import EXECUTABLE, FILE, SYMLINK, GitEntry, blob_name
from tests.unit.guest.recorder import member, tar


def extract(root: Path, data: bytes, *, strict: bool = False, cap: int = 1 << 20) -> tree.Extraction:
    root.mkdir()
    extraction = tree.Extraction(str(root), strict=strict, cap_bytes=cap)
    extraction.run(data)
    return extraction


def test_modes_are_normalised_and_links_made(tmp_path: Path) -> None:
    root = tmp_path / "root"
    data = tar(
        member("./a/run", b"x", mode=0o4711),
        member("a/b", b"y", mode=0o600),
        member("link", type=tarfile.SYMTYPE, linkname="a/b"),
        member("empty/", type=tarfile.DIRTYPE, mode=0o700),
    )
    manifest = extract(root, data, strict=True).manifest
    assert stat.S_IMODE((root / "a/run").stat().st_mode) == 0o755
    assert stat.S_IMODE((root / "a/b").stat().st_mode) == 0o644
    assert stat.S_IMODE((root / "empty").stat().st_mode) == 0o755
    assert (root / "link").readlink() == Path("a/b")
    assert manifest == tree.scan(str(root))
    assert manifest == {
        "a/run": GitEntry(EXECUTABLE, blob_name(b"x")),
        "a/b": GitEntry(FILE, blob_name(b"y")),
        "link": GitEntry(SYMLINK, blob_name(b"a/b")),
    }


HOSTILE = {
    "absolute": [member("/tmp/evil", b"x")],
    "climbs": [member("a/../../evil", b"x")],
    "only dots": [member("..", b"x")],
    "git": [member(".git/config", b"x")],
    "git itself": [member(".git", b"x")],
    "git after a dot": [member("./.git/hooks/pre-commit", b"x")],
    "hard link": [member("hard", type=tarfile.LNKTYPE, linkname="/etc/passwd")],
    "device": [member("null", type=tarfile.CHRTYPE)],
    "pipe": [member("pipe", type=tarfile.FIFOTYPE)],
    "through a link": [member("out", type=tarfile.SYMTYPE, linkname="/tmp"), member("out/evil", b"x")],
    "through a file": [member("file", b"x"), member("file/evil", b"x")],
    "folder over a link": [
        member("out", type=tarfile.SYMTYPE, linkname="/tmp"),
        member("out", type=tarfile.DIRTYPE),
        member("out/evil", b"x"),
    ],
    "link over a folder": [member("a/b", b"x"), member("a", type=tarfile.SYMTYPE, linkname="/tmp")],
    "file twice": [member("a", b"x"), member("a", b"y")],
    "file over a link": [member("a", type=tarfile.SYMTYPE, linkname="/tmp/evil"), member("a", b"x")],
    "too long": [member("a/" * 2000 + "b", b"x")],
    "too large": [member("big", b"x" * 2000)],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_members_are_left_out(tmp_path: Path, name: str) -> None:
    """The last member is the hostile one; with `strict` the archive is refused, without it only that member."""
    root = tmp_path / "root"
    outside = set(os.listdir("/tmp"))
    extraction = extract(root, tar(member("good", b"ok"), *HOSTILE[name]), cap=1000)
    assert extraction.skipped[-1].path == HOSTILE[name][-1][0].name
    assert (root / "good").read_bytes() == b"ok"
    assert not (root / ".git").exists()
    assert not any(item.name.startswith("evil") for item in tmp_path.iterdir())
    assert "evil" not in set(os.listdir("/tmp")) - outside
    assert extraction.manifest == tree.scan(str(root))
    with pytest.raises(tree.BadArchive):
        extract(tmp_path / "strict", tar(*HOSTILE[name]), strict=True, cap=1000)


def test_a_nested_git_is_only_a_folder(tmp_path: Path) -> None:
    root = tmp_path / "root"
    manifest = extract(root, tar(member("sub/.git/config", b"[core]"))).manifest
    assert list(manifest) == ["sub/.git/config"]


ODD = [b"new\nline", b"caf\xe9", b"\xff\xfe", b"x" * 255, b'tab\tquote"back\\slash', b"-rf"]


@pytest.mark.parametrize("name", ODD)
def test_odd_names_survive(tmp_path: Path, name: bytes) -> None:
    root = tmp_path / "root"
    extract(root, tar(member(os.fsdecode(b"dir/" + name), b"odd"), compress=True))
    assert os.listdir(bytes(root) + b"/dir") == [name]


@pytest.mark.parametrize("data", [b"", b"no archive at all" * 100, b"\x1f\x8b nor this"])
def test_what_is_no_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(tree.BadArchive):
        extract(tmp_path / "root", data)


@given(st.text(max_size=30))
def test_a_safe_name_stays_below_its_root(name: str) -> None:
    name = name.encode("utf-8", "replace").decode()
    safe = tree.safe_name(name)
    if safe is not None:
        assert os.path.normpath(f"/root/{safe}") == f"/root/{safe}"
    else:
        assert (
            not name
            or name.startswith("/")
            or "\0" in name
            or {".", ".."} & set(name.split("/"))
            or not name.strip("/")
        )


def test_a_scan_names_what_git_cannot_hold(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/x").write_text("x")
    assert tree.scan(str(tmp_path)) == {"pipe": tree.UNKNOWN}
    assert set(tree.scan(str(tmp_path), skip="")) == {"pipe", ".git/x"}


def test_a_walk_gives_folders_first_and_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "b/c").mkdir(parents=True)
    (tmp_path / "b/c/d").write_text("")
    (tmp_path / "a").symlink_to("b")
    assert [path for path, _ in tree.walk(str(tmp_path))] == ["a", "b", "b/c", "b/c/d"]


def test_a_walk_ends_where_paths_do(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(40):
        os.mkdir("d" * 200, dir_fd=here)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    depth = max(path.count("/") for path, _ in tree.walk(str(tmp_path)))
    assert 15 < depth < 20
    # pytest's own clean-up cannot remove what is deeper than a path.
    os.system(f"rm -rf {tmp_path}/d*")


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(OSError, match=name), tree.open_regular(str(tmp_path / name)):
            pass
    with tree.open_regular(str(tmp_path / "file")) as fd:
        assert os.read(fd, 9) == b"x"
