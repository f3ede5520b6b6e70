from __future__ import annotations

from typing import Any

import pytest

from runner.analysis.aggregate import build
from runner.analysis.report import Exact, Report, Sampled, Warning
from runner.records.finding_texts import DESCRIPTIONS
from runner.report.tables import exact_text, notes, page, sampled_text
from tests.unit.report.sample_reports import ADAPTER, LOCK, SWEEP, cell, cells, exact, plain, run, runs, troubled


def two(model: str = "scripted/fix-semver", **changed: Any) -> Report:
    """acp and acp-nocaps, two runs each; the second surface's exact metrics are changed."""
    planned = [cell(surface, number, model=model) for surface in ("acp", "acp-nocaps") for number in (1, 2)]
    records = [run(each, exact=exact("acp") | (changed if each.surface == "acp-nocaps" else {})) for each in planned]
    return build(SWEEP, LOCK, planned, records)


def note(report: Report, start: str) -> str | None:
    found = [each for each in notes(report) if each.startswith(start)]
    assert len(found) <= 1
    return found[0] if found else None


@pytest.mark.parametrize(
    ("values", "text"),
    [([], "-"), ([820.4], "820"), ([820.4, 772.0, 922.6], "820 [772-923]"), ([0.0, 0.0], "0 [0-0]")],
)
def test_sampled_text(values: list[float], text: str) -> None:
    middle = sorted(values)[len(values) // 2] if values else None
    low, high = (min(values), max(values)) if values else (None, None)
    assert sampled_text(Sampled(n=len(values), median=middle, min=low, max=high, coverage=0, values=values)) == text


def test_sampled_text_of_nothing_and_with_digits() -> None:
    assert sampled_text(None) == "-"
    assert sampled_text(Sampled(n=1, median=1.456, min=1.456, max=1.456, coverage=0, values=[1.456]), 2) == "1.46"


@pytest.mark.parametrize(
    ("values", "value", "text"),
    [
        ([9, 9], 9, "9"),
        ([0, 0], 0, "0"),
        ([304_500], 304_500, "304,500"),
        ([None, None], None, "-"),
        ([], None, "-"),
        ([10, 9, 9], None, "9-10*"),
        ([9, None], None, "9*"),
        (["end_turn"], "end_turn", "end_turn"),
        (["end_turn", "cancelled", "end_turn"], None, "end_turn/cancelled*"),
    ],
)
def test_exact_text(values: list[Any], value: Any, text: str) -> None:
    assert exact_text(Exact(values=values, value=value)) == text


def test_rows_are_named_by_what_differs() -> None:
    content = page(plain())
    assert content.caption == f"{ADAPTER}, semver, allow_once, scripted/fix-semver, container"
    assert content.sheets[0].headers[0] == "surface"
    assert [row[0] for row in content.sheets[0].rows] == ["acp", "acp-nocaps", "cli"]
    planned = [*cells(1), cell("acp", 1, adapter="other@2")]
    mixed = page(build(SWEEP, LOCK, planned, runs(planned)))
    assert mixed.sheets[0].headers[0] == "surface/adapter"
    assert mixed.sheets[1].rows[-1][0] == "acp other@2"


def test_what_a_surface_lacks_is_a_dash_and_not_0() -> None:
    time, counts, whole = page(plain()).sheets
    cli = dict(zip(counts.headers, counts.rows[2], strict=True))
    assert (cli["asks"], cli["client fs/terminal"], cli["undeclared calls"], cli["tool calls"]) == ("-", "-", "-", "9")
    acp = dict(zip(counts.headers, counts.rows[0], strict=True))
    assert (acp["asks"], acp["client fs/terminal"], acp["undeclared calls"]) == ("4", "0/0", "0")
    assert dict(zip(time.headers, time.rows[2], strict=True))["handshake ms"] == "-"
    assert dict(zip(whole.headers, whole.rows[2], strict=True))["client ms"] == "-"


def test_a_pair_that_varies_is_marked_once() -> None:
    planned = [cell("acp", number) for number in (1, 2)]
    records = [run(each, exact=exact("acp") | {"client_fs_calls": each.replicate}) for each in planned]
    counts = page(build(SWEEP, LOCK, planned, records)).sheets[1]
    assert dict(zip(counts.headers, counts.rows[0], strict=True))["client fs/terminal"] == "1-2/0*"


def test_counts_of_a_live_model_are_shown_as_samples() -> None:
    counts = page(two(model="live/a-model")).sheets[1]
    assert dict(zip(counts.headers, counts.rows[0], strict=True))["tool calls"] == "9 [9-9]"


def test_what_ranges_are_worth() -> None:
    assert note(plain(), "[min-max]") == "[min-max] of n=3 is a 75 % confidence interval of the median."
    winner = note(plain(), "No winner can be named from n=3")
    assert winner is not None
    assert winner.endswith("reaches 5 % from n=4 each.")
    planned = cells(6)
    six = build(SWEEP, LOCK, planned, runs(planned))
    assert note(six, "[min-max]") == "[min-max] of n=6 is a 96.9 % confidence interval of the median."
    assert note(six, "No winner") is None
    planned = cells(1)
    assert note(build(SWEEP, LOCK, planned, runs(planned)), "[min-max]") is None


def test_outcomes() -> None:
    assert note(plain(), "All 9 planned runs ended as expected.") is not None
    assert note(troubled(), "2 of 9 planned runs") == (
        "2 of 9 planned runs did not end as expected (1 missing, 7 passed, 1 task-failed)."
    )


def test_equal_arms() -> None:
    assert note(two(), "Compared exactly") == (
        "Compared exactly over acp, acp-nocaps: the same tool calls on each (9: 2 edit, 5 execute, 2 read); "
        "all 26 exact metrics are equal."
    )


def test_arms_that_differ_elsewhere_than_in_tool_calls() -> None:
    assert note(two(terminal_content_items=21), "Compared exactly") == (
        "Compared exactly over acp, acp-nocaps: the same tool calls on each (9: 2 edit, 5 execute, 2 read); "
        "25 of 26 exact metrics are equal, not terminal_content_items (0 / 21)."
    )


@pytest.mark.parametrize(
    "changed", [{"tool_calls": 8}, {"tool_calls_by_kind.read": 3}, {"tool_calls_by_kind.fetch": 1}]
)
def test_arms_that_differ_in_tool_calls(changed: dict[str, Any]) -> None:
    found = note(two(**changed), "Compared exactly")
    assert found is not None
    assert "tool calls differ" in found
    assert all(name in found for name in changed)


def test_information_is_not_compared() -> None:
    found = note(two(frames=99, late_updates=3), "Compared exactly")
    assert found is not None
    assert found.endswith("all 26 exact metrics are equal.")


def test_what_varies_inside_an_arm_equals_nothing() -> None:
    planned = [cell(surface, number) for surface in ("acp", "acp-nocaps") for number in (1, 2)]
    records = [run(each, exact=exact("acp") | {"usage_updates": each.replicate}) for each in planned]
    found = note(build(SWEEP, LOCK, planned, records), "Compared exactly")
    assert found is not None
    assert "usage_updates (1-2* / 1-2*)" in found


def test_several_sets_of_arms_are_told_apart() -> None:
    planned = [cell(surface, 1, adapter=name) for name in ("one@1", "two@2") for surface in ("acp", "acp-nocaps")]
    said = notes(build(SWEEP, LOCK, planned, runs(planned)))
    heads = [line.partition(":")[0] for line in said if "compared exactly" in line]
    assert heads == [f"{name}, compared exactly over acp, acp-nocaps" for name in ("one@1", "two@2")]


def test_nothing_to_compare() -> None:
    planned = [cell("acp", 1), cell("cli", 1), cell("acp", 1, adapter="other@2")]
    assert note(build(SWEEP, LOCK, planned, runs(planned)), "Compared exactly") is None
    assert note(two(model="live/a-model"), "Compared exactly") is None


def test_the_two_kinds_of_turn_are_told_apart() -> None:
    assert note(plain(), "A turn is") is not None
    assert note(two(), "A turn is") is None


def test_every_warning_is_said() -> None:
    said = " ".join(notes(troubled()))
    for warning in ("earlier-attempt", "nondeterministic", "unexpected-outcome", "missing-cell", "different-builds"):
        assert f"{warning}: " in said
    assert "* differs between the runs of its row." in said
    assert "* differs" not in " ".join(notes(plain()))


def test_a_report_without_arms() -> None:
    content = page(Report(sweep="empty", lock={}, arms=[]))
    assert (content.caption, content.sheets[0].rows) == ("", ())


def test_host_names_have_a_table_where_somebody_listened() -> None:
    def tried(values: list[int | None], **names: list[bool]) -> list[tuple[str, ...]]:
        found = two()
        arm = found.arms[0]
        arm.exact["names_tried"] = Exact.of(list(values))
        arm.exact |= {f"names_tried.{name.replace('_', '.')}": Exact.of(list(each)) for name, each in names.items()}
        return [row for sheet in page(found).sheets if sheet.title == "Host names tried" for row in sheet.rows]

    assert tried([None]) == []
    assert tried([0]) == [("acp", "none"), ("acp-nocaps", "-")]
    assert tried([2, 1], a_example=[True, True], b_example=[True, False], c_example=[False, False]) == [
        ("acp", "a.example, b.example*"),
        ("acp-nocaps", "-"),
    ]


def test_findings_have_a_table_where_there_are_some() -> None:
    found = two()
    assert "Findings" not in [sheet.title for sheet in page(found).sheets]
    found.arms[0].exact |= {
        "findings.late-update": Exact.of([0, 2]),
        "findings.tool-call-without-kind": Exact.of([3, 3]),
        "findings.not-json": Exact.of([0, 0]),
    }
    (sheet,) = [sheet for sheet in page(found).sheets if sheet.title == "Findings"]
    assert sheet.rows == (
        ("acp", "late-update", "1/2", "2", DESCRIPTIONS["late-update"]),
        ("acp", "tool-call-without-kind", "2/2", "3", DESCRIPTIONS["tool-call-without-kind"]),
    )


def test_what_varies_in_an_arm_is_one_note_with_the_known_names_first() -> None:
    found = two()
    names = [f"tools_offered.t{number}" for number in range(40)] + ["stop_reason", "tool_calls"]
    for name in names:
        found.arms[0].exact[name] = Exact.of([1, 2])
        found.arms[0].warnings.append(Warning(id="nondeterministic", message="x", metric=name))
    (said,) = [line for line in notes(found) if line.startswith("nondeterministic")]
    start = f"nondeterministic: {found.arms[0].name}: 42 of {len(found.arms[0].exact)} counts differ between its runs: "
    assert said.startswith(f"{start}tool_calls (1, 2), stop_reason (1, 2), tools_offered.t0 (1, 2)")
    assert said.endswith("and 37 more.")


def test_cancelled_turns_have_a_table_of_their_own() -> None:
    assert "Cancelled" not in {sheet.title.partition(" ")[0] for sheet in page(plain()).sheets}
    planned = [cell("acp", number, policy="stop", expect="task-failed") for number in (1, 2)]
    stopped = {"cancel_during": "text", "cancel_stop": "cancelled", "cancel_asks": 0}
    records = [
        run(
            each,
            outcome="task-failed",
            exact=exact("acp") | stopped | {"cancel_updates_after": each.replicate},
            sampled={"cancel_to_stop_ms": 10.0 * each.replicate},
        )
        for each in planned
    ]
    other = cell("acp-nocaps", 1)
    report = build(SWEEP, LOCK, [*planned, other], [*records, run(other)])
    (sheet,) = (sheet for sheet in page(report).sheets if sheet.title.startswith("Cancelled turns"))
    assert sheet.headers[1:] == ("ended", "cancelled during", "asks cancelled", "stop", "to stop ms", "updates after")
    assert [row[1:] for row in sheet.rows] == [("task-failed", "text", "0", "cancelled", "15 [10-20]", "1-2*")]
    # How many updates still come is information, not a count that must be the same.
    assert note(report, "nondeterministic") is None
