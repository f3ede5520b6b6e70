"""Equal workspaces with different verdicts: said wherever somebody could read it as the agent's doing."""

from __future__ import annotations

from typing import Any

from runner.analysis import flaky
from runner.analysis.aggregate import build
from runner.analysis.compare import compare
from runner.analysis.comparison import Pair
from runner.config.gate import Gate
from runner.config.plan import Cell
from runner.records.schema import Record, Verdict
from runner.report import junit, table
from runner.report.github import of_report
from tests.unit.arms import arm
from tests.unit.report.sample_reports import LOCK, SWEEP, cells, run

TREE, OTHER = "a" * 40, "b" * 40


def record(cell: Cell, passed: bool, workspace: str | None = TREE, **fields: Any) -> Record:
    verdict = Verdict(passed=passed, workspace=workspace, reason="" if passed else "2 of 3 tests pass")
    outcome: dict[str, Any] = {"outcome": "passed"} if passed else {"outcome": "task-failed", "reason": verdict.reason}
    return run(cell, verdict=verdict, **outcome, **fields)


def sweep(*failing: int, workspace: str = TREE) -> tuple[list[Cell], list[Record]]:
    planned = cells()
    return planned, [record(cell, number not in failing, workspace) for number, cell in enumerate(planned)]


def test_the_same_tree_with_two_verdicts() -> None:
    planned, records = sweep(4)
    (one,) = flaky.flaky(records)
    assert (one.fixture, one.workspace, one.failed) == ("semver", TREE, [planned[4].name])
    assert len(one.passed) == len(planned) - 1
    assert "fixture semver" in one.message
    assert f"tree {TREE[:12]}" in one.message
    assert planned[4].name in one.message


def test_other_trees_other_fixtures_and_old_records_prove_nothing() -> None:
    planned = cells()
    assert flaky.flaky([record(planned[0], True), record(planned[1], False, OTHER)]) == []
    assert flaky.flaky([record(planned[0], True), record(planned[1], False, fixture="other")]) == []
    assert flaky.flaky([record(planned[0], True, None), record(planned[1], False, None)]) == []
    assert flaky.flaky([run(planned[0])]) == []


def test_every_arm_with_a_part_in_it_is_warned_and_the_table_says_it_once() -> None:
    planned, records = sweep(4)
    report = build(SWEEP, LOCK, planned, records)
    warned = [[warning.id for warning in arm.warnings].count(flaky.ID) for arm in report.arms]
    assert warned == [1, 1, 1]
    assert table.render(report, width=4000).count("verifier-flaky: the verifier of fixture semver is flaky") == 1
    assert "title=verifier-flaky::" in of_report(report)
    assert sum(arm.workspaces[TREE].get("failed", 0) for arm in report.arms) == 1


def test_a_steady_verifier_is_not_mentioned() -> None:
    planned, records = sweep()
    report = build(SWEEP, LOCK, planned, records)
    assert not [warning for arm in report.arms for warning in arm.warnings if warning.id == flaky.ID]
    assert "workspaces" in report.model_dump()["arms"][0]
    plain = build(SWEEP, LOCK, planned, [run(cell) for cell in planned])
    assert "workspaces" not in plain.model_dump()["arms"][0]


def test_in_junit_it_is_no_failure_of_the_agent() -> None:
    planned, records = sweep(4)
    found = {case.suite + case.name: case for case in junit.cells(planned, {one.cell: one for one in records})}
    failed = found[planned[4].arm + f"r{planned[4].replicate}"]
    assert failed.problem is not None
    assert failed.problem[:2] == ("error", "verifier-flaky")
    assert "2 of 3 tests pass" in failed.problem[2]
    assert "verifier-flaky" in found[planned[1].arm + f"r{planned[1].replicate}"].said


def test_across_two_sweeps_the_difference_is_the_verifier_s() -> None:
    base = arm(workspaces={TREE: {"passed": 3}, OTHER: {"passed": 1}})
    new = arm(workspaces={TREE: {"failed": 3}, "c" * 40: {"failed": 1}})
    found = compare(("a", "b"), [Pair(base, new)], Gate())
    (warning,) = [one for one in found.warnings if one.id == flaky.ID]
    assert f"tree {TREE[:12]}" in warning.message
    assert "not what is compared" in warning.message
    same = compare(("a", "b"), [Pair(base, base)], Gate())
    assert not [one for one in same.warnings if one.id == flaky.ID]
