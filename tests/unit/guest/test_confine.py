"""Both ways of opening, the kernel's and the walk, give the same answers."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.guest import confine, system
from runner.guest.channel import OpError
from runner.guest.confine import Roots


@pytest.fixture(params=[True, False], ids=["openat2", "walk"])
def kernel(request: pytest.FixtureRequest) -> bool:
    if request.param and not system.has_openat2():
        pytest.skip("no openat2 here")
    return bool(request.param)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A root, a second one, and a secret outside of both."""
    tmp_path = tmp_path.resolve()
    for name in ("root/sub", "second"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "root/file").write_text("inside")
    (tmp_path / "second/file").write_text("second")
    (tmp_path / "secret").write_text("secret")
    return tmp_path


@pytest.fixture
def roots(place: Path, kernel: bool) -> Roots:
    return Roots([str(place / "root"), str(place / "second")], kernel=kernel)


def read(roots: Roots, path: Path | str) -> str:
    fd = roots.open(str(path), os.O_RDONLY)
    with open(fd) as stream:
        return stream.read()


LINKS = {
    "relative": ("file", "inside"),
    "from below": ("sub/../file", "inside"),
    "absolute within": ("{root}/file", "inside"),
    "absolute into the other root": ("{second}/file", "second"),
    "relative outside": ("../secret", None),
    "absolute outside": ("{top}/secret", None),
    "absolute, then back in": ("{top}/root/../root/file", "inside"),
    "out and back": ("../root/file", None),
    "magic": ("/proc/self/cwd/file", None),
    "itself": ("link", None),
    "nowhere": ("nothing", FileNotFoundError),
}


@pytest.mark.parametrize("name", LINKS)
def test_links(roots: Roots, place: Path, name: str) -> None:
    target, expected = LINKS[name]
    root = place / "root"
    (root / "link").symlink_to(target.format(root=root, second=place / "second", top=place))
    if isinstance(expected, str):
        assert read(roots, root / "link") == expected
    elif expected is None:
        with pytest.raises((OpError, OSError)) as refused:
            read(roots, root / "link")
        assert not isinstance(refused.value, FileNotFoundError)
    else:
        with pytest.raises(expected):
            read(roots, root / "link")


def test_folders_that_are_links(roots: Roots, place: Path) -> None:
    root = place / "root"
    (root / "in").symlink_to("sub")
    (root / "sub/deep").write_text("deep")
    (root / "out").symlink_to("..")
    (root / "away").symlink_to(place)
    assert read(roots, root / "in/deep") == "deep"
    for name in ("out/secret", "away/secret", "out/root/file"):
        with pytest.raises((OpError, OSError)):
            read(roots, root / name)
    # An absolute link out, through which the path comes back into a root: its text says outside.
    with pytest.raises(OpError):
        read(roots, root / "away/second/file")


@pytest.mark.parametrize(
    "path", ["secret", "/etc/passwd", "", "root", "\0", "{top}/secret", "{root}/../secret", "{root}x"]
)
def test_paths_outside(roots: Roots, place: Path, path: str) -> None:
    with pytest.raises(OpError) as refused:
        roots.open(path.format(top=place, root=place / "root"), os.O_RDONLY)
    assert refused.value.code == "denied"


def test_spellings_of_a_path_within(roots: Roots, place: Path) -> None:
    root = place / "root"
    for path in (f"{root}/./file", f"{root}//file", f"{root}/sub/../file", f"{root}/none/../file", f"/{root}/file"):
        assert read(roots, path) == "inside"


def test_a_root_replaced_by_a_link_is_denied(roots: Roots, place: Path) -> None:
    (place / "root").rename(place / "moved")
    (place / "root").symlink_to(place)
    with pytest.raises(OpError) as refused:
        read(roots, place / "root/secret")
    assert refused.value.code == "denied"


def test_new_files_and_folders(roots: Roots, place: Path) -> None:
    path = place / "root/a/b/new"
    roots.make_folders(str(path.parent))
    os.close(roots.open(str(path), os.O_WRONLY | os.O_CREAT))
    assert path.exists()
    roots.make_folders(str(path.parent))


def test_no_folder_is_made_outside(roots: Roots, place: Path) -> None:
    (place / "root/out").symlink_to(place)
    (place / "root/dangling").symlink_to(place / "made")
    for path in (place / "root/out/made", place / "root/dangling", place / "made", place / "root/dangling/made"):
        with pytest.raises((OpError, OSError)):
            roots.make_folders(str(path))
    assert not (place / "made").exists()


def test_a_dangling_link_within_is_created_through_and_one_outside_is_not(roots: Roots, place: Path) -> None:
    root = place / "root"
    (root / "in").symlink_to("made")
    (root / "out").symlink_to("../made")
    os.close(roots.open(str(root / "in"), os.O_WRONLY | os.O_CREAT))
    assert (root / "made").exists()
    with pytest.raises((OpError, OSError)):
        roots.open(str(root / "out"), os.O_WRONLY | os.O_CREAT)
    assert not (place / "made").exists()


#: Puts one thing after another in the place of `swap`, as fast as it can be done, in a process of its own.
SWAP = """
import os, sys
os.chdir(sys.argv[1])
print("up", flush=True)
while True:
    for target in sys.argv[2:]:
        if target == "a file":
            os.link("file", "next")
        else:
            os.symlink(target, "next")
        os.rename("next", "swap")
"""


@contextlib.contextmanager
def swapping(root: Path, *targets: str) -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", SWAP, str(root), *targets], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            yield
        finally:
            child.kill()


def read_often(roots: Roots, path: Path) -> set[str]:
    seen = set()
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        try:
            seen.add(read(roots, path))
        except (OpError, OSError):
            seen.add("refused")
    return seen


def test_no_race_over_a_folder_leads_outside(roots: Roots, place: Path) -> None:
    (place / "root/real").mkdir()
    (place / "root/real/secret").write_text("inside")
    with swapping(place / "root", "real", str(place), "..", "real"):
        assert read_often(roots, place / "root/swap/secret") <= {"inside", "refused"}


def test_no_race_over_a_file_leads_outside(roots: Roots, place: Path) -> None:
    with swapping(place / "root", "a file", str(place / "secret"), "a file", "../secret"):
        assert read_often(roots, place / "root/swap") <= {"inside", "refused"}


def test_no_descriptor_is_left(roots: Roots, place: Path) -> None:
    (place / "root/link").symlink_to(place / "second/file")
    before = len(os.listdir("/proc/self/fd"))
    for path in ("file", "link", "none", "sub/none", "../secret"):
        try:
            os.close(roots.open(f"{place}/root/{path}", os.O_RDONLY))
        except (OpError, OSError):
            continue
    assert len(os.listdir("/proc/self/fd")) == before


def test_relative_roots_are_refused() -> None:
    with pytest.raises(OpError):
        Roots(["root"])


def test_the_whole_file_system_can_be_a_root(place: Path, kernel: bool) -> None:
    assert read(Roots(["/"], kernel=kernel), place / "secret") == "secret"


def test_the_probe_says_what_the_kernel_does() -> None:
    assert system.has_openat2() == confine.HAS_OPENAT2
