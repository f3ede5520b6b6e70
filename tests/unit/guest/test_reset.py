"""A kept container between runs: what the usual resets leave, and that it is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.guest import fixture, proofs, reset
from runner.guest.channel import OpError
from runner.guest.fixture import Layout, Pins, Prepared
from tests.unit.guest.recorder import files_tar

ARCHIVE = files_tar({"src/a.js": "a\n", ".gitignore": "*.log\n", "gone": "x\n"})
STATE = [".agent", ".other"]


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    for name in ("workspace", "home"):
        (tmp_path / name).mkdir()
    return Layout(str(tmp_path / "workspace"), str(tmp_path / "home"))


@pytest.fixture
def workspace(layout: Layout) -> Path:
    """A prepared workspace after a run that changed, added and ignored things."""
    secret = {"path": f"{layout.home}/secret", "content": "s"}
    fixture.prepare(layout, "fx", ARCHIVE, Pins(), {"own": "old token"}, plant=[secret])
    folder = Path(layout.workspaces) / "fx"
    (folder / "src/a.js").write_text("changed\n")
    (folder / "gone").unlink()
    for name in ("new.txt", "out.log", ".agent/settings.json"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(name)
    ignore = Path(layout.home) / ".config/git/ignore"
    ignore.parent.mkdir(parents=True)
    ignore.write_text("**/.agent/settings.json\n")
    return folder


def again(layout: Layout, mode: str) -> Prepared:
    secret = {"path": f"{layout.home}/secret", "content": "s"}
    return reset.reset(layout, "fx", ARCHIVE, Pins(), {"own": "new token"}, [secret], mode)


def found(layout: Layout, prepared: Prepared) -> list[tuple[str, str]]:
    return [(one.kind, one.path) for one in reset.survey(layout, prepared, STATE)]


def test_a_fresh_workspace_has_nothing_to_find(layout: Layout) -> None:
    prepared = fixture.prepare(layout, "fx", ARCHIVE, Pins(), {".agent/settings.json": "{}"})
    assert reset.survey(layout, prepared, STATE) == []


def test_without_a_reset_everything_is_found(layout: Layout, workspace: Path) -> None:
    fresh = Layout(f"{layout.home}/tmp/w", f"{layout.home}/tmp/h")
    Path(fresh.workspaces).mkdir()
    Path(fresh.home).mkdir()
    made = fixture.prepare(fresh, "fx", ARCHIVE, Pins(), {})._replace(workspace=str(workspace))
    kinds = {path: kind for kind, path in found(layout, made)}
    assert {path: kinds[path] for path in ("new.txt", "out.log", ".agent/settings.json", "gone", "src/a.js")} == {
        "new.txt": "untracked",
        "out.log": "ignored",
        ".agent/settings.json": "ignored",
        "gone": "deleted",
        "src/a.js": "modified",
    }
    assert kinds[f"{workspace}/.agent"] == "state"


def test_clean_fd_keeps_what_is_ignored(layout: Layout, workspace: Path) -> None:
    prepared = again(layout, "git-clean-fd")
    assert (workspace / "src/a.js").read_text() == "a\n"
    assert (Path(layout.home) / "own").read_text() == "new token"
    assert found(layout, prepared) == [
        ("ignored", ".agent/settings.json"),
        ("ignored", "out.log"),
        ("state", f"{workspace}/.agent"),
        ("home", f"{layout.home}/.config/git/ignore"),
    ]
    assert proofs.clean_workspace(str(workspace), prepared) == [
        "on disk: .agent/settings.json is foreign",
        "on disk: out.log is foreign",
    ]


def test_clean_fdx_leaves_home_alone(layout: Layout, workspace: Path) -> None:
    prepared = again(layout, "git-clean-fdx")
    assert found(layout, prepared) == [("home", f"{layout.home}/.config/git/ignore")]
    assert proofs.clean_workspace(str(workspace), prepared) == []
    assert (prepared.tree, prepared.commit) == (
        fixture.commit_tree(str(workspace), prepared.commit),
        fixture.head_commit(str(workspace)),
    )


def test_what_cannot_be_reset(layout: Layout) -> None:
    with pytest.raises(OpError, match="no earlier run"):
        again(layout, "git-clean-fd")
    with pytest.raises(OpError, match="not 'rm'"):
        again(layout, "rm")
