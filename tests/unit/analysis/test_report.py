from __future__ import annotations

import pytest
from pydantic import ValidationError

from runner.analysis.aggregate import build
from runner.analysis.report import Report
from tests.unit.report.sample_reports import LOCK, SWEEP, cell, cells, exact, run, runs


def report(model: str) -> Report:
    planned = [cell(surface, 1, model=model) for surface in ("acp", "cli")]
    return build(SWEEP, LOCK, planned, [run(each) for each in planned])


@pytest.mark.parametrize("model", ["scripted/fix-semver", "live/a-model"])
def test_an_arm_knows_whether_it_spoke_acp(model: str) -> None:
    assert {arm.surface: arm.acp for arm in report(model).arms} == {"acp": True, "cli": False}


def test_an_acp_arm_that_never_asked_is_one_too() -> None:
    planned = [cell("acp", 1)]
    (arm,) = build(SWEEP, LOCK, planned, [run(planned[0], exact=exact("acp") | {"permission_requests": 0})]).arms
    assert arm.acp


def test_an_arm_without_runs_spoke_nothing() -> None:
    (arm,) = build(SWEEP, LOCK, [cell("acp", 1)], []).arms
    assert not arm.acp


def test_value_of_a_metric_that_is_not_there() -> None:
    planned = cells(1)
    arm = build(SWEEP, LOCK, planned, runs(planned)).arms[0]
    assert (arm.value("tool_calls"), arm.value("no such thing")) == (9, None)


def test_unknown_keys_are_refused() -> None:
    with pytest.raises(ValidationError):
        Report.model_validate({"sweep": "s", "lock": {}, "arms": [], "extra": 1})
