"""What may stand where a file is expected; nothing is waited for, nothing is followed, nothing endless is read."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.errors import UsageError
from runner.text.files import NotRegular, check_folder, lines_of, open_below, open_regular, read_regular

pytestmark = pytest.mark.timeout(30)


def fifo(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def link(path: Path) -> None:
    (path.parent / "elsewhere").write_text("secret")
    path.symlink_to("elsewhere")


def bound_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


KINDS: list[tuple[Callable[[Path], None], str]] = [
    (fifo, "a pipe"),
    (folder, "a folder"),
    (link, "a symbolic link"),
    (bound_socket, "a socket"),
]


@pytest.mark.parametrize(("make", "name"), KINDS)
def test_what_is_no_file_is_refused_by_name(tmp_path: Path, make: Callable[[Path], None], name: str) -> None:
    path = tmp_path / "file"
    make(path)
    for read in (open_regular, read_regular, lambda file: list(lines_of(file))):
        with pytest.raises(NotRegular, match=f"it is {name} where a file is expected") as raised:
            read(path)
        assert raised.value.filename == str(path)


def test_a_link_that_a_user_gave_is_followed_to_a_file_alone(tmp_path: Path) -> None:
    link(tmp_path / "file")
    assert read_regular(tmp_path / "file", links=True) == b"secret"
    device(tmp_path / "zero")
    with pytest.raises(NotRegular, match="it is a device"):
        read_regular(tmp_path / "zero", links=True)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(10 * 10**9)
    with pytest.raises(NotRegular, match="it has 10000 MB; at most 268 MB are read of such a file"):
        read_regular(path)
    with pytest.raises(NotRegular, match="line, 1, of more than 16 MiB"):
        list(lines_of(path, 16 << 20))
    with pytest.raises(NotRegular):  # says that it is empty, and is not
        read_regular(Path("/proc/self/environ"), 3)


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../secret", "blobs/../../secret", "blobs/./1", "", "blobs//1", "a\0b", "..", "blobs/1/.."]
)
def test_no_name_climbs(tmp_path: Path, name: str) -> None:
    (tmp_path / "run/blobs").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    with pytest.raises(NotRegular, match="no file below its folder"):
        open_below(tmp_path / "run", name)


def test_no_part_below_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other/1.bin").write_text("secret")
    (tmp_path / "run/blobs").symlink_to("../other")
    with pytest.raises(NotRegular, match="it is a symbolic link where a folder is expected"):
        open_below(tmp_path / "run", "blobs/1.bin")
    (tmp_path / "given").symlink_to("run")  # how a user names the run's folder is the user's affair
    (tmp_path / "run/own").mkdir()
    (tmp_path / "run/own/1.bin").write_text("mine")
    with open_below(tmp_path / "given", "own/1.bin") as file:
        assert file.read() == b"mine"


def test_folders(tmp_path: Path) -> None:
    assert check_folder(tmp_path)
    assert not check_folder(tmp_path / "none")
    (tmp_path / "file").write_text("")
    assert not check_folder(tmp_path / "file/below")
    (tmp_path / "link").symlink_to(".")
    for name, what in (("file", "a file"), ("link", "a symbolic link")):
        with pytest.raises(UsageError, match=f"it is {what} where a folder is expected"):
            check_folder(tmp_path / name)
