"""What changed since the start, by the kernel's stamps: forged times, moves and replaced folders included."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from runner.guest import change_times
from runner.guest.change_times import ChangeTimes
from tests.unit.guest.recorder import Recorder

#: Longer than a tick of the clock that stamps are taken from.
TICK_S = 0.02


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for name in ("a", "src/b", "src/c", ".git/index", ".state/x"):
        path = tmp_path / "w" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")
    return tmp_path / "w"


@pytest.fixture
def marked(workspace: Path) -> ChangeTimes:
    time.sleep(TICK_S)
    made = ChangeTimes()
    made.mark(str(workspace))
    return made


def told(made: ChangeTimes, workspace: Path) -> dict[str, Any]:
    return made.list(Recorder().request(workspace=str(workspace), skip=[".git", ".state"], within_s=5))


def names(made: ChangeTimes, workspace: Path) -> set[tuple[str, str]]:
    return {(one["path"], one["kind"]) for one in told(made, workspace)["changes"]}


def test_nothing_has_changed(marked: ChangeTimes, workspace: Path) -> None:
    (workspace / ".git/index").write_text("2")
    (workspace / ".state/y").write_text("2")
    assert told(marked, workspace) == {"changes": [], "more": False, "steady": True}


def test_times_are_monotonic_and_cannot_be_set(marked: ChangeTimes, workspace: Path) -> None:
    before = time.monotonic_ns()
    (workspace / "a").write_text("2")
    os.utime(workspace / "a", (0, 0))
    after = time.monotonic_ns()
    (change,) = told(marked, workspace)["changes"]
    assert (change["path"], change["kind"]) == ("a", "file")
    assert before - TICK_S * 1e9 <= change["t_ns"] <= after


def test_what_is_prepared_and_moved_in_is_a_change(marked: ChangeTimes, workspace: Path) -> None:
    (workspace / ".git/b").write_text("2")
    os.rename(workspace / ".git/b", workspace / "src/b")
    assert names(marked, workspace) == {("src/b", "file"), ("src", "folder")}


def test_a_moved_folder_and_a_deleted_file(marked: ChangeTimes, workspace: Path) -> None:
    os.rename(workspace / "src", workspace / "lib")
    assert names(marked, workspace) == {("", "folder"), ("lib", "folder")}
    (workspace / "lib/b").unlink()
    assert names(marked, workspace) == {("", "folder"), ("lib", "folder")}


def test_another_folder_in_the_workspace_s_place(marked: ChangeTimes, workspace: Path) -> None:
    os.rename(workspace, workspace.parent / "old")
    workspace.mkdir()
    assert names(marked, workspace) == {("", "replaced")}


def test_the_newest_are_told_of_too_many(marked: ChangeTimes, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_times, "_MAX", 2)
    for name in ("1", "2", "3"):
        (workspace / name).write_text("")
        time.sleep(TICK_S)
    found = told(marked, workspace)
    assert found["more"]
    assert {one["path"] for one in found["changes"]} == {"", "3"}


def test_a_wall_clock_that_was_set_makes_the_times_unknown(
    marked: ChangeTimes, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + 3_600_000_000_000)
    assert not told(marked, workspace)["steady"]


def test_no_workspace_any_more(marked: ChangeTimes, workspace: Path) -> None:
    os.rename(workspace, workspace.parent / "away")
    assert names(marked, workspace) == {("", "replaced")}


def test_a_look_has_its_time(marked: ChangeTimes, workspace: Path) -> None:
    (workspace / "a").write_text("2")
    found = marked.list(Recorder().request(workspace=str(workspace), skip=[], within_s=0))
    assert (found["changes"], found["more"]) == ([], True)
