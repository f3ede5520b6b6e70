from __future__ import annotations

import hashlib
import io
import os
import socket
import tarfile
from pathlib import Path
from typing import Any

import pytest

from runner.guest import collect, fixture, tree
from runner.guest.fixture import Layout, Pins, Prepared
from tests.unit.guest.recorder import Recorder, files_tar

ODD = [b"new\nline", b"caf\xe9", b"\xff", b"y" * 255, b"-rf", b"*", b" ", b"\x1b[31m", b"..."]


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    for name in ("workspace", "home"):
        (tmp_path / name).mkdir()
    layout = Layout(str(tmp_path / "workspace"), str(tmp_path / "home"))
    return fixture.prepare(layout, "fx", files_tar({"a.js": "a\n", "sub/b.js": "b\n"}), Pins(), {})


def run(prepared: Prepared, *writable: Path, cap: int = 1 << 20) -> dict[str, Any]:
    recorder = Recorder()
    request = recorder.request(workspace=prepared.workspace, cap_bytes=cap, writable=[str(place) for place in writable])
    collect.collect(request, prepared)
    (reply,) = recorder.sent
    return reply


def unpacked(reply: dict[str, Any]) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(reply["tar"]), encoding="utf-8", errors="surrogateescape") as archive:
        return {member.name: member for member in archive}


def test_what_was_prepared_comes_back_without_its_repository(prepared: Prepared, tmp_path: Path) -> None:
    reply = run(prepared)
    assert set(unpacked(reply)) == {"a.js", "sub", "sub/b.js"}
    assert (reply["cut"], reply["files"], reply["bytes"], reply["skipped"]) == (False, 2, 4, [])
    assert (reply["git_changed"], reply["git_changes"]) == (False, [])
    again = tmp_path / "again"
    again.mkdir()
    extraction = tree.Extraction(str(again), strict=True, cap_bytes=1 << 20)
    extraction.run(reply["tar"])
    assert extraction.manifest == prepared.manifest


def test_odd_names_survive(prepared: Prepared) -> None:
    root = os.fsencode(prepared.workspace)
    os.mkdir(root + b"/caf\xe9s")
    for name in ODD:
        with open(root + b"/caf\xe9s/" + name, "wb") as stream:
            stream.write(name)
    os.symlink(b"nowhere\n\xff", root + b"/link")
    members = unpacked(run(prepared))
    assert {os.fsencode(name) for name in members} >= {b"caf\xe9s/" + name for name in ODD}
    assert os.fsencode(members["link"].linkname) == b"nowhere\n\xff"


def test_nothing_is_followed_and_specials_are_named(prepared: Prepared, tmp_path: Path) -> None:
    root = Path(prepared.workspace)
    (tmp_path / "secret").write_text("secret")
    (root / "out").symlink_to(tmp_path)
    (root / "hard").hardlink_to(root / "a.js")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "socket"))
    reply = run(prepared)
    members = unpacked(reply)
    assert members["out"].issym()
    assert members["hard"].isreg()
    assert members["hard"].size == 2
    assert not any("secret" in name for name in members)
    assert reply["skipped"] == [{"path": "pipe", "reason": "pipe"}, {"path": "socket", "reason": "socket"}]


def test_a_nested_repository_comes_along(prepared: Prepared) -> None:
    nested = Path(prepared.workspace) / "sub/.git"
    nested.mkdir()
    (nested / "config").write_text("[core]\n")
    assert "sub/.git/config" in unpacked(run(prepared))


def test_the_cap_cuts_and_says_so(prepared: Prepared) -> None:
    root = Path(prepared.workspace)
    with (root / "huge").open("wb") as stream:
        stream.truncate(1 << 40)
    for number in range(100):
        (root / f"n{number:02}").write_text("")
    reply = run(prepared, cap=20_000)
    assert reply["cut"]
    assert "huge" not in unpacked(reply)
    assert {"path": "huge", "reason": "over the size limit"} in reply["skipped"]
    assert 5 < len(unpacked(reply)) < 20


def test_files_outside(prepared: Prepared, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "deep/er").mkdir(parents=True)
    (home / "deep/er/x").write_bytes(b"data")
    (home / "deep/er/x").chmod(0o640)
    (home / "link").symlink_to("/etc/passwd")
    os.mkfifo(home / "pipe")
    reply = run(prepared, home, tmp_path / "none", home / "deep", tmp_path / "workspace")
    assert reply["outside"] == [
        {"path": f"{home}/link", "kind": "link", "size": 11, "mode": 0o777, "sha256": None, "target": "/etc/passwd"},
        {"path": f"{home}/pipe", "kind": "pipe", "size": 0, "mode": 0o644, "sha256": None, "target": None},
        {
            "path": f"{home}/deep/er/x",
            "kind": "file",
            "size": 4,
            "mode": 0o640,
            "sha256": hashlib.sha256(b"data").hexdigest(),
            "target": None,
        },
    ]
    assert not reply["outside_cut"]


def test_the_list_outside_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "_MAX_OUTSIDE", 3)
    monkeypatch.setattr(collect, "_HASH_BYTES", 5)
    for name in "abcd":
        (tmp_path / name).write_text("four")
    found, cut = collect.list_outside([str(tmp_path)], "/workspace/fx")
    assert cut
    assert [item["sha256"] is None for item in found] == [False, True, True]


def test_a_changed_repository_is_told_by_name(prepared: Prepared) -> None:
    folder = Path(prepared.workspace) / ".git"
    (folder / "config").write_text("[core]\n\tfsmonitor = /tmp/evil\n")
    (folder / "HEAD").unlink()
    os.mkfifo(folder / "HEAD")
    (folder / "hooks").mkdir()
    (folder / "hooks/post-checkout").write_text("")
    reply = run(prepared)
    assert reply["git_changed"]
    assert reply["git_changes"] == ["HEAD", "config", "hooks/post-checkout"]


def test_a_workspace_that_is_none_any_more_is_empty(prepared: Prepared) -> None:
    root = Path(prepared.workspace)
    root.rename(f"{root}.gone")
    root.symlink_to("/etc")
    reply = run(prepared)
    assert (reply["files"], reply["cut"]) == (0, False)
    assert reply["skipped"] == [{"path": ".", "reason": "no folder any more"}]


def test_what_lies_too_deep_is_named(prepared: Prepared) -> None:
    here = os.open(prepared.workspace, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=here)
        deeper = os.open("d" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    (skipped,) = run(prepared)["skipped"]
    assert skipped["path"].endswith("d/...")
    assert skipped["reason"] == "deeper than a path can say"
