from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runner.analysis.baseline import check_fresh, freeze, load, render
from runner.errors import UsageError
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
    check_fresh(made, 30, DATE + timedelta(days=30))
    with pytest.raises(UsageError, match="baseline one: 30 days old, the gate takes 30 at most; make a new one"):
        check_fresh(made, 30, DATE + timedelta(days=30, seconds=1))


def test_what_is_no_baseline(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such baseline"):
        load(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text('{"name": 1}')
    with pytest.raises(UsageError, match=r"bad.json: not a baseline: name"):
        load(tmp_path / "bad.json")


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema_version": 2}, "has schema version 2; this acpbench reads 1"),
        ({"report.schema_version": 9}, "has schema version 9; this acpbench reads 1"),
        ({"report.lock.lock_version": 2}, "has lock version 2; this acpbench reads 1"),
        ({"report.lock.adapters": 7}, "not a lock: adapters"),
        ({"report.arms": None}, "not a baseline: report.arms"),
        ({"date": "2026"}, "not a baseline: date"),
    ],
    ids=str,
)
def test_one_of_the_future_or_of_another_shape(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    value = json.loads(render(freeze("frozen", REPORT, DATE)))
    for place, new in change.items():
        *parents, last = place.split(".")
        where = value
        for name in parents:
            where = where[name]
        where[last] = new
    path = tmp_path / "frozen.json"
    path.write_text(json.dumps(value))
    with pytest.raises(UsageError) as raised:
        load(path)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.timeout(60)
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "frozen.json")
    with pytest.raises(UsageError, match="it is a pipe where a file is expected"):
        load(tmp_path / "frozen.json")
