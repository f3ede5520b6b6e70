"""Things outside a workspace: where they may be, and that each change to them shows."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from runner.guest import fixture, planted, proofs
from runner.guest.channel import OpError
from runner.guest.fixture import Layout, Pins, Prepared
from tests.unit.guest.recorder import files_tar


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    for name in ("workspace", "home"):
        (tmp_path / name).mkdir()
    return Layout(str(tmp_path / "workspace"), str(tmp_path / "home"))


def prepare(layout: Layout, *items: dict[str, Any]) -> Prepared:
    return fixture.prepare(layout, "fx", files_tar({"a": "a\n"}), Pins(), {"own/x": "1"}, plant=list(items), fsck=False)


def test_files_and_links_are_planted_and_told(layout: Layout) -> None:
    made = prepare(
        layout,
        {"path": f"{layout.workspaces}/sibling/deep/secret", "content": "s\n"},
        {"path": f"{layout.home}/notes/secret", "content": "h\n"},
        {"path": f"{layout.home}/link", "link": "notes/secret"},
    )
    assert made.planted == [
        (f"{layout.workspaces}/sibling/deep/secret", "file", hashlib.sha256(b"s\n").hexdigest(), None),
        (f"{layout.home}/notes/secret", "file", hashlib.sha256(b"h\n").hexdigest(), None),
        (f"{layout.home}/link", "link", None, "notes/secret"),
    ]
    assert (Path(layout.home) / "link").read_text() == "h\n"
    assert proofs.home(layout, made.home) == []
    assert planted.differences(made.planted) == []
    assert [planted.meant({"path": one.path, "content": "s\n"}) for one in made.planted[:1]] == made.planted[:1]


def test_each_change_shows(layout: Layout) -> None:
    items = [{"path": f"{layout.workspaces}/s/{name}", "content": name} for name in "abc"]
    made = prepare(layout, *items)
    folder = Path(layout.workspaces) / "s"
    (folder / "a").write_text("other")
    (folder / "b").unlink()
    (folder / "c").unlink()
    (folder / "c").symlink_to("/etc/hostname")
    assert planted.differences(made.planted) == [f"{folder}/{name} differs" for name in "abc"]


@pytest.mark.parametrize(
    "place",
    ["{w}/fx/inside", "{w}/fx", "{w}", "/etc/x", "{w}/../x", "{h}/tmp/x", "{h}/tmp", "{h}", "relative", "{w}//x"],
)
def test_nowhere_else(layout: Layout, place: str) -> None:
    path = place.format(w=layout.workspaces, h=layout.home)
    with pytest.raises(OpError, match=r"neither|no plain"):
        prepare(layout, {"path": path, "content": ""})


def test_not_twice(layout: Layout) -> None:
    item = {"path": f"{layout.workspaces}/x", "content": ""}
    with pytest.raises(OpError, match="planted twice"):
        prepare(layout, item, item)
