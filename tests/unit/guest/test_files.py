from __future__ import annotations

import fcntl
import os
import signal
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from runner.guest import files
from runner.guest.channel import OpError
from runner.guest.gitobj import blob_name
from tests.unit.guest.recorder import Recorder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def read(root: Path, name: str) -> dict[str, Any]:
    recorder = Recorder()
    files.read(recorder.request(path=f"{root}/{name}", roots=[str(root)]))
    (reply,) = recorder.sent
    return {name: value for name, value in reply.items() if name not in ("id", "ok")}


def write(root: Path, name: str, content: str) -> dict[str, Any]:
    return files.write(Recorder().request(path=f"{root}/{name}", roots=[str(root)], content=content))


def code_of(do: Any, *args: Any) -> str:
    with pytest.raises(OpError) as refused:
        do(*args)
    return refused.value.code


def test_read(root: Path) -> None:
    (root / "a").write_bytes("ä\r\nb\0".encode())
    assert read(root, "a") == {"content": "ä\r\nb\0", "size": 6}


def test_reading_errors(root: Path) -> None:
    (root / "folder").mkdir()
    (root / "file").write_bytes(b"\xff")
    (root / "out").symlink_to("/etc/passwd")
    os.mkfifo(root / "pipe")
    with (root / "large").open("wb") as stream:
        stream.truncate(33 << 20)
    codes = {name: code_of(read, root, name) for name in ("none", "file/x", "folder", "pipe", "file", "out", "large")}
    assert codes == {
        "none": "not_found",
        "file/x": "not_found",
        "folder": "not_a_file",
        "pipe": "not_a_file",
        "file": "not_text",
        "out": "denied",
        "large": "too_large",
    }


def test_a_file_under_another_s_lease_is_refused_at_once(root: Path) -> None:
    """A lease makes an opener wait up to 45 s; that would be the agent's way to stop the client."""
    (root / "leased").write_text("x")
    handler = signal.signal(signal.SIGIO, signal.SIG_IGN)
    with (root / "leased").open("r+") as stream:
        fcntl.fcntl(stream, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        assert code_of(read, root, "leased") == "denied"
        fcntl.fcntl(stream, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    signal.signal(signal.SIGIO, handler)


def test_write_tells_the_hashes_before_and_after(root: Path) -> None:
    assert write(root, "a", "one\n") == {"before": None, "after": blob_name(b"one\n")}
    assert write(root, "a", "two, longer\n") == {"before": blob_name(b"one\n"), "after": blob_name(b"two, longer\n")}
    assert write(root, "a", "")["after"] == blob_name(b"")
    assert (root / "a").read_bytes() == b""
    theirs = subprocess.run(["git", "hash-object", root / "a"], capture_output=True, check=True).stdout.decode().strip()
    assert blob_name(b"") == theirs


def test_write_keeps_mode_inode_and_links(root: Path) -> None:
    path = root / "a"
    path.write_text("x" * 100)
    path.chmod(0o750)
    (root / "link").symlink_to("a")
    before = path.stat().st_ino
    write(root, "link", "short")
    assert (root / "link").is_symlink()
    assert path.read_text() == "short"
    assert (path.stat().st_ino, stat.S_IMODE(path.stat().st_mode)) == (before, 0o750)


def test_write_makes_folders_within(root: Path) -> None:
    write(root, "new/er/file", "x")
    assert (root / "new/er/file").read_text() == "x"


def test_writing_errors(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (root / "folder").mkdir()
    (root / "file").write_text("kept")
    (root / "out").symlink_to(outside)
    (root / "new").symlink_to(outside / "new")
    os.mkfifo(root / "pipe")
    names = ("folder", "pipe", "file/below", "out/new", "new", "../beside")
    codes = {name: code_of(write, root, name, "x") for name in names}
    assert codes == {
        "folder": "not_a_file",
        "pipe": "not_a_file",
        "file/below": "not_found",
        "out/new": "denied",
        "new": "denied",
        "../beside": "denied",
    }
    assert list(outside.iterdir()) == []
    assert (root / "file").read_text() == "kept"


def test_half_a_surrogate_pair_is_written_as_javascript_would(root: Path) -> None:
    write(root, "a", "x\ud83dy\ud83d\ude00")
    assert (root / "a").read_text() == "x\ufffdy😀"
