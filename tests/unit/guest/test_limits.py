from __future__ import annotations

import threading
from pathlib import Path

import pytest

from runner.guest import limits
from runner.guest.cgroup import Cgroup
from runner.guest.limits import LimitWatch
from tests.unit.guest.test_cgroup import version_1, version_2


def counters(root: Path, version: int, oom: int, pids: int) -> None:
    memory, processes = (
        ("memory.events", "pids.events") if version == 2 else ("memory/memory.oom_control", "pids/pids.events")
    )
    (root / memory).write_text(f"under_oom 0\noom_kill {oom}\n")
    (root / processes).write_text(f"max {pids}\n")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("oom", "pids", "reached"), [(2, 7, []), (3, 7, ["memory"]), (2, 8, ["pids"]), (4, 9, ["memory", "pids"])]
)
def test_what_was_counted_before_is_not_the_tests(
    tmp_path: Path, version: int, oom: int, pids: int, reached: list[str]
) -> None:
    (version_1 if version == 1 else version_2)(tmp_path)
    counters(tmp_path, version, 2, 7)
    with LimitWatch(None, lambda: None, Cgroup(str(tmp_path))) as watch:
        counters(tmp_path, version, oom, pids)
    assert watch.reached() == reached


def test_a_machine_that_does_not_count_says_nothing(tmp_path: Path) -> None:
    with LimitWatch(None, lambda: None, Cgroup(str(tmp_path))) as watch:
        pass
    assert watch.reached() == []


def test_a_full_disk_stops_the_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_EVERY_S", 0.01)
    (tmp_path / "before").write_bytes(b"x" * 500_000)
    stopped = threading.Event()
    with LimitWatch(100_000, stopped.set, Cgroup(str(tmp_path)), (str(tmp_path),)) as watch:
        (tmp_path / "small").write_bytes(b"x" * 50_000)
        assert not stopped.wait(0.6)
        (tmp_path / "large").write_bytes(b"x" * 90_000)
        assert stopped.wait(20)
    assert watch.reached() == ["disk"]
