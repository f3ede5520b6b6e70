from __future__ import annotations

from typing import Any

from runner.analysis.aggregate import build
from runner.analysis.report import Arm, Report
from runner.evidence import cost, metrics
from runner.records.schema import Finding, FoundAtStart, Record
from tests.unit.report.sample_reports import ADAPTER, LOCK, SWEEP, cell, cells, exact, run, runs


def report(records: list[Record] | None = None, lock: dict[str, Any] = LOCK) -> Report:
    planned = cells()
    return build(SWEEP, lock, planned, runs(planned) if records is None else records)


def arm(found: Report, surface: str) -> Arm:
    (one,) = [each for each in found.arms if each.surface == surface]
    return one


def ids(one: Arm) -> list[str]:
    return [warning.id for warning in one.warnings]


def test_a_sweep_as_it_should_be() -> None:
    found = report()
    assert [each.surface for each in found.arms] == ["acp", "acp-nocaps", "cli"]
    assert (found.schema_version, found.sweep, found.lock, found.as_expected) == (1, SWEEP, LOCK, True)
    acp = arm(found, "acp")
    assert (acp.n, acp.planned, acp.outcomes, acp.unexpected) == (3, 3, {"passed": 3}, 0)
    assert acp.exact["tool_calls"].values == [9, 9, 9]
    assert acp.value("tool_calls") == 9
    handshake = acp.sampled["handshake_ms"]
    assert (handshake.n, handshake.median, handshake.coverage) == (3, 820.0, 0.75)
    assert handshake.values == [738.0, 820.0, 902.0000000000001]
    assert ids(acp) == ["insufficient"]


def test_not_applicable_is_null() -> None:
    cli = arm(report(), "cli")
    assert cli.exact["permission_requests"].values == [None, None, None]
    assert cli.value("permission_requests") is None
    assert (cli.sampled["handshake_ms"].n, cli.sampled["handshake_ms"].median) == (0, None)
    assert "updates.tool_call" not in cli.exact


def test_every_contract_name_is_there_even_if_nothing_ran() -> None:
    for found in (report(), report([])):
        for each in found.arms:
            assert set(metrics.NAMES) <= set(each.exact)
            assert set(cost.NAMES) <= set(each.sampled)


def test_warm_ups_are_in_no_figure() -> None:
    planned = cells()
    records = runs(planned)
    records[0] = run(planned[0], exact=exact("acp") | {"tool_calls": 77}, sampled={"handshake_ms": 9e9})
    acp = arm(report(records), "acp")
    assert acp.value("tool_calls") == 9
    assert acp.sampled["handshake_ms"].max == 902.0000000000001


def test_a_warm_up_that_went_wrong_is_said() -> None:
    planned = cells()
    records = runs(planned)
    records[0] = run(planned[0], outcome="task-failed")
    found = report(records)
    assert "unexpected-warm-up" in ids(arm(found, "acp"))
    assert found.as_expected


def test_a_missing_cell_is_an_outcome_and_unexpected() -> None:
    planned = cells()
    records = [run(each) for each in planned if each.name != cell("cli", 2).name]
    found = report(records)
    cli = arm(found, "cli")
    assert (cli.n, cli.planned, cli.outcomes, cli.unexpected) == (2, 3, {"missing": 1, "passed": 2}, 1)
    assert "missing-cell" in ids(cli)
    assert not found.as_expected


def test_the_last_attempt_counts_whatever_the_order() -> None:
    planned = cells()
    again = cell("acp", 1)
    first = run(again, attempt=1, outcome="infra", reason="the gateway died", exact={}, sampled={})
    others = [each for each in runs(planned) if each.cell != again.name]
    for records in ([first, *others, run(again, attempt=2)], [run(again, attempt=2), *others, first]):
        acp = arm(report(records), "acp")
        assert (acp.n, acp.outcomes, acp.unexpected) == (3, {"passed": 3}, 0)
        (warning,) = [each for each in acp.warnings if each.id == "earlier-attempt"]
        assert warning.message.endswith("attempt 1 ended infra (the gateway died); attempt 2 counts")
        assert warning.cell == again.name


def test_a_last_attempt_that_failed_counts_too() -> None:
    again = cell("acp", 1)
    acp = arm(report([*runs(cells()), run(again, attempt=2, outcome="timeout:turn")]), "acp")
    assert (acp.outcomes, acp.unexpected) == ({"passed": 2, "timeout:turn": 1}, 1)


def test_infra_and_aborted_runs_are_not_measured() -> None:
    planned = cells()
    bad = {cell("acp", 1).name: "infra", cell("acp", 3).name: "aborted"}
    acp = arm(report([run(each, outcome=bad.get(each.name, "passed")) for each in planned]), "acp")
    assert (acp.n, acp.unexpected) == (1, 2)
    assert acp.sampled["handshake_ms"].values == [820.0]
    assert ids(acp).count("unexpected-outcome") == 2


def test_other_unexpected_runs_stay_in_the_figures() -> None:
    """Nothing is dropped because it is inconvenient."""
    planned = cells()
    acp = arm(report([run(each, outcome="task-failed", reason="1 test failed") for each in planned]), "acp")
    assert (acp.n, acp.unexpected, acp.sampled["turn_ms"].n) == (3, 3, 3)
    assert all("1 test failed" in each.message for each in acp.warnings if each.id == "unexpected-outcome")


def test_expected_is_what_the_cell_says() -> None:
    planned = [cell("acp", 1, expect="task-failed")]
    (veto,) = build(SWEEP, {}, planned, [run(planned[0], outcome="task-failed")]).arms
    assert veto.unexpected == 0
    (passed,) = build(SWEEP, {}, planned, [run(planned[0])]).arms
    assert passed.unexpected == 1


def varied(name: str, value: Any, model: str = "scripted/fix-semver") -> Arm:
    """An arm whose second run has another value of an exact metric."""
    planned = [cell("acp", number, model=model) for number in (1, 2, 3)]
    records = [run(each, exact=exact("acp") | ({name: value} if each.replicate == 2 else {})) for each in planned]
    (one,) = build(SWEEP, LOCK, planned, records).arms
    return one


def test_an_exact_metric_that_varies_is_a_finding() -> None:
    one = varied("tool_calls", 10)
    assert (one.exact["tool_calls"].values, one.value("tool_calls")) == ([9, 10, 9], None)
    (warning,) = [w for w in one.warnings if w.id == "nondeterministic"]
    assert (warning.metric, "9, 10, 9" in warning.message) == ("tool_calls", True)


def test_null_in_one_run_is_variation_too() -> None:
    assert [w.metric for w in varied("stop_reason", None).warnings if w.id == "nondeterministic"] == ["stop_reason"]
    assert [w.metric for w in varied("tool_calls", True).warnings if w.id == "nondeterministic"] == ["tool_calls"]


def test_information_may_vary() -> None:
    for name in ("frames", "late_updates", "update_chunks.agent_message_chunk"):
        assert "nondeterministic" not in ids(varied(name, 123))


def test_a_key_that_only_some_runs_have_is_0_in_the_others() -> None:
    one = varied("updates.plan", 2)
    assert one.exact["updates.plan"].values == [0, 2, 0]
    assert [w.metric for w in one.warnings if w.id == "nondeterministic"] == ["updates.plan"]


def test_counts_of_a_live_model_are_sampled() -> None:
    one = varied("tool_calls", 12, model="live/a-model")
    assert "tool_calls" not in one.exact
    assert (one.sampled["tool_calls"].median, one.sampled["tool_calls"].max) == (9.0, 12.0)
    assert one.exact["stop_reason"].value == "end_turn"
    assert "nondeterministic" not in ids(one)
    assert varied("tool_calls", 12, model="replay/a-cassette").exact["tool_calls"].values == [9, 12, 9]


def test_runs_that_shared_the_machine_are_named() -> None:
    alone, shared = (arm(report(lock={**LOCK, "jobs": jobs}), "acp") for jobs in (1, 2))
    assert "parallel-runs" not in ids(alone)
    assert "parallel-runs" in ids(shared)


def test_few_runs_name_no_winner() -> None:
    for n, few in ((1, True), (3, True), (4, False)):
        planned = cells(n)
        found = build(SWEEP, LOCK, planned, runs(planned))
        assert [("insufficient" in ids(each)) for each in found.arms] == [few] * 3


def test_another_build_behind_the_cli_is_said_on_its_arms() -> None:
    other = {"acp": {"path": "/a", "sha256": "a" * 64}, "cli": {"path": "/b", "sha256": "b" * 64}}
    found = report(lock={"adapters": {ADAPTER: {"binaries": other}}})
    assert "different-builds" in ids(arm(found, "cli"))
    assert "different-builds" not in ids(arm(found, "acp"))
    assert "different-builds" not in ids(arm(report(), "cli"))
    assert "different-builds" not in ids(arm(report(lock={}), "cli"))


def test_a_log_that_was_cut_is_said() -> None:
    planned = cells()
    records = [run(each, cut={"frames_bytes": 17, "stderr_bytes": 0}) for each in planned]
    (first, *_) = [w for w in arm(report(records), "acp").warnings if w.id == "cut"]
    assert first.message.endswith("17 frames_bytes")


def test_records_that_nobody_planned_are_left_out() -> None:
    found = report([*runs(cells()), run(cell("other", 1))])
    assert [each.surface for each in found.arms] == ["acp", "acp-nocaps", "cli"]


def test_values_stand_by_replicate() -> None:
    planned = cells()
    found = build(SWEEP, LOCK, list(reversed(planned)), list(reversed(runs(planned))))
    assert arm(found, "acp").sampled["handshake_ms"].values == sorted(arm(found, "acp").sampled["handshake_ms"].values)


def test_a_run_that_did_not_begin_pristine_is_marked() -> None:
    left = [FoundAtStart(kind="ignored", path=f"{name}.json") for name in "abc"]
    first, second, *_ = [each for each in cells() if each.surface == "acp" and not each.warmup]
    records = [run(first, pristine=True), run(second, pristine=False, found_at_start=left)]
    (found,) = [w for w in arm(report(records), "acp").warnings if w.id == "not-pristine"]
    assert found.cell == records[1].cell
    assert found.message.endswith("an earlier run: ignored a.json, ignored b.json and 1 more")


def test_a_run_that_worked_outside_its_turn_is_in_no_time_and_is_said() -> None:
    planned = cells()
    records = runs(planned)
    late = next(one for one in records if one.surface == "acp" and not one.warmup and one.replicate == 2)
    finding = Finding(id="works-after-answer", message="after it: 1 model request")
    sampled = dict.fromkeys(late.sampled) | {"cpu_s": 1.5}
    records[records.index(late)] = late.model_copy(update={"findings": [finding], "sampled": sampled})
    acp = arm(report(records), "acp")
    assert (acp.n, acp.sampled["to_result_ms"].n, acp.sampled["cpu_s"].n) == (3, 2, 3)
    (warning,) = [one for one in acp.warnings if one.id == "times-left-out"]
    assert warning.cell == late.cell
    assert warning.message == f"{late.cell}: its times are left out: works-after-answer, after it: 1 model request"
