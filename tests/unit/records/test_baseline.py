from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from runner.errors import UsageError
from runner.records.baseline import demand_fresh, freeze, load, render
from tests.unit.arms import arm, report

DATE = datetime(2026, 11, 1, 2, 3, 4, tzinfo=UTC)
REPORT = report(arm({"tool_calls": [9]}), kernel="6.1", engine={"cpus": 2})


def test_what_is_frozen_is_read_back(tmp_path: Path) -> None:
    made = freeze("one", REPORT, DATE)
    (tmp_path / "one.json").write_text(render(made))
    assert load(tmp_path / "one.json") == made
    assert (made.date, made.machine) == ("2026-11-01T02:03:04+00:00", {"kernel": "6.1", "engine": {"cpus": 2}})
    assert made.report.lock == REPORT.lock


def test_a_failure_is_no_baseline() -> None:
    with pytest.raises(UsageError, match="not every cell ended as expected"):
        freeze("one", report(arm(unexpected=1)), DATE)


def test_an_old_one_is_refused() -> None:
    made = freeze("one", REPORT, DATE)
    demand_fresh(made, 30, DATE + timedelta(days=30))
    with pytest.raises(UsageError, match="baseline one: 30 days old, the gate takes 30 at most; make a new one"):
        demand_fresh(made, 30, DATE + timedelta(days=30, seconds=1))


def test_what_is_no_baseline(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such baseline"):
        load(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text('{"name": 1}')
    with pytest.raises(UsageError, match=r"bad.json: not a baseline: name"):
        load(tmp_path / "bad.json")
