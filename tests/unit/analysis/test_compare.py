"""The golden table: every verdict, every boundary from both sides, from numbers worked out by hand."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from runner.analysis.comparability import Likeness
from runner.analysis.compare import compare, confirmed, noisy, suspects
from runner.analysis.comparison import Compared, MetricVerdict, Pair, Word
from runner.analysis.report import Arm, Warning
from runner.config.gate import Gate, SampledRule
from tests.unit.arms import arm

#: Four runs 0.1 % apart: whatever moves by 1 % or more is disjoint from them, and 4 v 4 disjoint is p = 2/70 = 0.0286.
FOUR = [100.0, 100.1, 100.2, 100.3]
FIVE = [*FOUR, 100.4]
#: 3 v 3 disjoint: 2/20 = 0.1. 3 v 5: 2/56 = 0.0357.
THREE = FOUR[:3]


def times(values: list[float], factor: float) -> list[float]:
    """Every pairwise ratio to `values` has its mirror image around the factor, which is thus the estimate itself."""
    return [value * factor for value in values]


def gate(*metrics: str, **fields: Any) -> Gate:
    return Gate(sampled=[SampledRule(metric=name) for name in metrics or ("to_result_ms",)], **fields)


def judge(base: Arm, new: Arm, by: Gate | None = None, **fields: Any) -> Compared:
    likeness = fields.pop("likeness", Likeness())
    return compare(("a", "a"), [Pair(base, new, likeness)], by or gate(), **fields)


def only(found: Compared, metric: str) -> MetricVerdict:
    (one,) = [verdict for verdict in found.verdicts if verdict.metric == metric]
    return one


ONE_SWAP = [100.0, 100.1, 100.2, 110.0], [100.3, 111.0, 112.0, 113.0]

SAMPLED: list[tuple[str, list[float], list[float], tuple[str, ...], str]] = [
    # What is asked, base, new, gated metrics, the verdict.
    ("nothing moved", FOUR, FOUR, ("to_result_ms",), "no-difference-detected"),
    ("10 % more, disjoint: p = 2/70", FOUR, times(FOUR, 1.1), ("to_result_ms",), "regressed"),
    ("10 % less", FOUR, times(FOUR, 0.9), ("to_result_ms",), "improved"),
    # One pair in the wrong order: p = 4/70 = 0.057.
    ("disjoint but for one pair", *ONE_SWAP, ("to_result_ms",), "no-difference-detected"),
    ("exactly the threshold", FOUR, times(FOUR, 1.05), ("to_result_ms",), "within-threshold"),
    ("just above it", FOUR, times(FOUR, 1.0501), ("to_result_ms",), "regressed"),
    ("exactly the threshold, down", FOUR, times(FOUR, 1 / 1.05), ("to_result_ms",), "within-threshold"),
    ("just below it", FOUR, times(FOUR, 1 / 1.0501), ("to_result_ms",), "improved"),
    ("3 v 3 cannot", THREE, times(THREE, 9), ("to_result_ms",), "insufficient"),
    ("3 v 5 can", THREE, times(FIVE, 1.1), ("to_result_ms",), "regressed"),
    # Two gated metrics: alpha / k = 0.025 < 2/70, but > 2/252 = 0.0079.
    ("4 v 4 cannot for two", FOUR, times(FOUR, 9), ("to_result_ms", "handshake_ms"), "insufficient"),
    ("5 v 5 can for two", FIVE, times(FIVE, 1.1), ("to_result_ms", "handshake_ms"), "regressed"),
    ("nobody measured the new arm", FOUR, [], ("to_result_ms",), "insufficient"),
]


@pytest.mark.parametrize(
    ("base", "new", "metrics", "word"), [row[1:] for row in SAMPLED], ids=[row[0] for row in SAMPLED]
)
def test_sampled(base: list[float], new: list[float], metrics: tuple[str, ...], word: str) -> None:
    other = {"handshake_ms": FIVE[: len(base)]} if "handshake_ms" in metrics else {}
    found = judge(
        arm(sampled={"to_result_ms": base, **other}, n=max(len(base), 1)),
        arm(sampled={"to_result_ms": new, **other}, n=max(len(new), 1), policy="other"),
        gate(*metrics),
    )
    assert only(found, "to_result_ms").verdict == word
    assert found.exit == (2 if word == "regressed" else 0)


EXACT: list[tuple[str, list[Any], list[Any], str]] = [
    ("equal", [9, 9, 9], [9, 9, 9], "same-exact"),
    ("one run is enough", [9], [9], "same-exact"),
    ("one less", [9, 9], [8, 8], "changed-exact"),
    ("a word", ["end_turn"], ["refusal"], "changed-exact"),
    ("a number is no truth", [1], [True], "changed-exact"),
    ("from nothing to 0", [None], [0], "changed-exact"),
    ("the new arm varies", [9, 9], [9, 8], "nondeterministic"),
    ("the base varies", [9, 8], [9, 9], "nondeterministic"),
    ("both vary alike", [9, 8], [9, 8], "nondeterministic"),
    ("a run lacks it", [9, None], [9, 9], "nondeterministic"),
]


@pytest.mark.parametrize(("base", "new", "word"), [row[1:] for row in EXACT], ids=[row[0] for row in EXACT])
def test_exact(base: list[Any], new: list[Any], word: str) -> None:
    found = judge(arm({"tool_calls": base}), arm({"tool_calls": new}, policy="other"))
    assert only(found, "tool_calls").verdict == word
    assert found.exit == (0 if word == "same-exact" else 2)


def test_every_verdict_is_reached() -> None:
    unlike = judge(arm({"tool_calls": [1]}), arm({"tool_calls": [1]}), likeness=Likeness(["seed: 1 -> 2"]))
    reached = {row[-1] for row in (*SAMPLED, *EXACT)} | {only(unlike, "tool_calls").verdict}
    assert reached == set(get_args(Word))


def test_a_key_that_a_map_lacks_is_0() -> None:
    base = arm({"permission_requests": [2], "permission_requests_by_kind.edit": [2]})
    found = judge(base, arm({"permission_requests": [0]}, policy="other"))
    asks = only(found, "permission_requests_by_kind.edit")
    assert (asks.base, asks.new, asks.verdict) == (2, 0, "changed-exact")


def test_names_came_and_went_each_by_itself() -> None:
    base = arm({"tools_offered": [2], "tools_offered.Read": [True], "tools_offered.Glob": [True]})
    new = arm({"tools_offered": [2], "tools_offered.Read": [True], "tools_offered.Task": [True]})
    found = {one.metric: (one.verdict, one.base, one.new) for one in judge(base, new).verdicts if one.kind == "exact"}
    assert found == {
        "permission_requests": ("same-exact", 0, 0),
        "tools_offered": ("same-exact", 2, 2),
        "tools_offered.Glob": ("changed-exact", True, False),
        "tools_offered.Read": ("same-exact", True, True),
        "tools_offered.Task": ("changed-exact", False, True),
    }


def test_what_one_side_is_too_old_to_have_did_not_change() -> None:
    older = arm({"tool_calls": [3]})
    newer = arm({"tool_calls": [3], "tools_offered": [1], "modes.plan": [True], "findings.not-json": [1]})
    for base, new in ((older, newer), (newer, older)):
        found = judge(base, new)
        assert {one.metric for one in found.verdicts} == {"permission_requests", "tool_calls"}
        assert [warning.message for warning in found.warnings if warning.id == "not-measured"] == [
            "not compared, one side is older than them: modes.*, tools_offered"
        ]
    assert not [warning for warning in judge(newer, newer).warnings if warning.id == "not-measured"]


def test_what_a_transport_does_not_have_did_not_change() -> None:
    acp = arm({"permission_requests": [2], "tool_calls": [9]}, {"handshake_ms": FOUR, "to_result_ms": FOUR})
    cli = arm({"permission_requests": [None], "tool_calls": [9]}, {"to_result_ms": FOUR}, surface="cli")
    found = judge(acp, cli)
    assert {verdict.metric for verdict in found.verdicts} == {"tool_calls", "to_result_ms"}


def test_information_is_not_compared() -> None:
    found = judge(arm({"frames": [80, 81], "updates.x": [1]}), arm({"frames": [99], "updates.x": [1]}, policy="other"))
    assert {verdict.metric for verdict in found.verdicts} == {"permission_requests", "updates.x"}


def test_figures_of_a_verdict() -> None:
    base, new = [100.0, 110.0, 120.0, 130.0], [210.0, 220.0, 230.0, 240.0]
    one = only(
        judge(arm(sampled={"to_result_ms": base}), arm(sampled={"to_result_ms": new}, policy="x")), "to_result_ms"
    )
    # Medians 115 and 225; the 16 differences run from 80 to 140, their median is 110.
    assert (one.base, one.new, one.shift, one.n) == (115.0, 225.0, 110.0, (4, 4))
    assert one.p == one.p_adjusted == pytest.approx(2 / 70)
    assert one.interval is not None
    assert list(one.interval) == pytest.approx([210 / 130, 240 / 100])
    assert one.confidence == pytest.approx(1 - 2 / 70)
    assert one.p_error == 0


def test_a_value_that_is_not_positive_has_no_ratio_but_a_verdict() -> None:
    found = judge(arm(sampled={"to_result_ms": [0.0, 1, 2, 3]}), arm(sampled={"to_result_ms": FOUR}, policy="x"))
    one = only(found, "to_result_ms")
    assert (one.ratio, one.interval, one.verdict) == (None, None, "regressed")


def test_lower_may_be_the_worse() -> None:
    by = Gate(sampled=[SampledRule(metric="to_result_ms", worse="lower")])
    sides = arm(sampled={"to_result_ms": FOUR}), arm(sampled={"to_result_ms": times(FOUR, 0.5)}, policy="x")
    assert only(judge(*sides, by), "to_result_ms").verdict == "regressed"


def test_insufficient_says_which_n_would_do_and_fails_only_when_strict() -> None:
    sides = arm(sampled={"to_result_ms": THREE}), arm(sampled={"to_result_ms": times(THREE, 2)}, policy="x")
    found = judge(*sides)
    assert (found.exit, only(found, "to_result_ms").required_n) == (0, 4)
    (warning,) = found.warnings
    assert "3 v 3 runs cannot tell (to_result_ms): 4 a side could" in warning.message
    assert judge(*sides, strict=True).exit == 2
    ten = gate(*(f"m{index}" for index in range(9)), "to_result_ms")
    more = {f"m{index}": THREE for index in range(9)}
    many = judge(
        arm(sampled={"to_result_ms": THREE, **more}), arm(sampled={"to_result_ms": THREE, **more}, policy="x"), ten
    )
    assert only(many, "to_result_ms").required_n == 6


def test_a_gate_says_what_it_asks_for_and_nobody_has() -> None:
    sides = arm({"tool_calls": [9]}), arm({"tool_calls": [9]}, policy="other")
    found = judge(*sides, gate(exact=["tool_calls*", "toool_calls"]))
    (said,) = [warning for warning in found.warnings if warning.id == "gates-nothing"]
    assert "exact 'toool_calls' fits no metric" in said.message
    assert not [warning for warning in judge(*sides).warnings if warning.id == "gates-nothing"]


def test_what_is_not_gated_informs() -> None:
    sides = arm({"tool_calls": [9]}, {"cpu_s": FOUR}), arm({"tool_calls": [8]}, {"cpu_s": times(FOUR, 2)}, policy="x")
    found = judge(*sides, gate(exact=["*"], exact_except=["tool_*"]))
    assert (only(found, "cpu_s").verdict, only(found, "cpu_s").gated) == ("regressed", False)
    assert (only(found, "tool_calls").verdict, only(found, "tool_calls").gated) == ("changed-exact", False)
    assert found.exit == 0


def test_holm_runs_over_the_gated_metrics_of_all_pairs_alone() -> None:
    base = arm(sampled={"to_result_ms": FIVE, "cpu_s": FIVE})
    pairs = [
        Pair(base, arm(sampled={"to_result_ms": times(FIVE, factor), "cpu_s": FIVE}, policy=f"p{factor}"))
        for factor in (1.1, 1.0, 1.0)
    ]
    found = compare(("a", "a"), pairs, gate())
    assert found.family == 3
    first = found.verdicts[1]
    assert first.metric == "to_result_ms"
    assert first.p == pytest.approx(2 / 252)
    assert first.p_adjusted == pytest.approx(3 * 2 / 252)


def test_exit_codes_and_what_outranks_what() -> None:
    good, slow = arm({"tool_calls": [9]}, {"to_result_ms": FOUR}), {"to_result_ms": times(FOUR, 2)}
    broken = arm({"tool_calls": [9]}, slow, policy="x", unexpected=1, outcomes={"passed": 3, "missing": 1})
    assert judge(good, arm({"tool_calls": [9]}, slow, policy="x")).exit == 2
    found = judge(good, broken)
    assert found.exit == 1
    assert "1 of 4 planned runs did not end as expected (3 passed, 1 missing)" in found.warnings[0].message
    assert judge(good, good, missing=1).exit == 1
    refused = judge(good, broken, likeness=Likeness(["knobs: 1 -> 2"]))
    assert refused.exit == 64
    assert {verdict.verdict for verdict in refused.verdicts} == {"unlike"}
    assert refused.warnings[0].message == "not comparable: knobs: 1 -> 2"


def test_times_alone_may_be_unlike() -> None:
    sides = (
        arm({"tool_calls": [9]}, {"to_result_ms": FOUR}),
        arm({"tool_calls": [9]}, {"to_result_ms": FOUR}, policy="x"),
    )
    found = judge(*sides, likeness=Likeness(untimed=["jobs: 4 runs shared the machine at a time"]))
    assert (only(found, "tool_calls").verdict, only(found, "to_result_ms").verdict) == ("same-exact", "unlike")
    assert found.exit == 0


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([85.0, 100, 115], False),  # range 30 % of the median
        ([85.0, 100, 115.1], True),
        # Deviations from the median 100: x-100, 1, 0, 1, 0; their median is 1, so 3 MADs are 4.448.
        ([104.44, 99.0, 100, 101, 100], False),
        ([104.45, 99.0, 100, 101, 100], True),
        ([99.0, 104.45, 100, 101, 100], False),  # a later run is no warm-up
        ([110.0, 100, 100, 100, 100], False),  # MAD 0: everything would be far out
        ([0.0, 0, 0], False),
        ([5.0], False),
    ],
)
def test_noisy(values: list[float], expected: bool) -> None:
    assert noisy(values) is expected


def test_noisy_is_a_flag_beside_the_verdict() -> None:
    sides = arm(sampled={"to_result_ms": [80.0, 100, 120, 90]}), arm(sampled={"to_result_ms": FOUR}, policy="x")
    one = only(judge(*sides), "to_result_ms")
    assert (one.verdict, one.flags) == ("no-difference-detected", ["noisy"])


# a second, fresh half


def halves(factor: float, again: list[float]) -> tuple[Compared, Compared]:
    base = arm({"tool_calls": [9]}, {"to_result_ms": FIVE, "handshake_ms": FIVE})

    def new(values: list[float]) -> Arm:
        return arm({"tool_calls": [9]}, {"to_result_ms": values, "handshake_ms": FIVE}, policy="x")

    by = gate("to_result_ms", "handshake_ms")
    first = judge(base, new(times(FIVE, factor)), by)
    return first, judge(base, new(again), by, family=suspects(first))


def test_a_confirmed_regression_stands() -> None:
    first, fresh = halves(1.2, times(FIVE, 1.15))
    assert [key[2] for key in suspects(first)] == ["to_result_ms"]
    assert (fresh.family, [verdict.metric for verdict in fresh.verdicts]) == (1, ["to_result_ms"])
    found = confirmed(first, fresh, unexpected=0)
    one = only(found, "to_result_ms")
    assert (found.exit, one.verdict, one.flags) == (2, "regressed", ["confirmed"])
    assert one.ratio == pytest.approx(1.15)
    assert only(found, "tool_calls").verdict == "same-exact"


def test_one_that_does_not_show_again_is_cleared_and_said() -> None:
    first, fresh = halves(1.2, FIVE)
    found = confirmed(first, fresh, unexpected=0)
    one = only(found, "to_result_ms")
    assert (found.exit, one.verdict, one.flags) == (0, "no-difference-detected", ["not-confirmed"])
    assert "regressed at first; the fresh runs alone say no-difference-detected" in found.warnings[-1].message


def test_a_fresh_half_that_cannot_tell_clears_nothing() -> None:
    first, fresh = halves(1.2, FIVE[:1])
    assert only(fresh, "to_result_ms").verdict == "insufficient"
    found = confirmed(first, fresh, unexpected=0)
    assert (found.exit, only(found, "to_result_ms").verdict) == (2, "regressed")
    assert confirmed(first, fresh, unexpected=1).exit == 1


def test_what_was_missing_at_first_is_missing_after_the_fresh_half() -> None:
    for again in (FIVE, times(FIVE, 1.15)):
        first, fresh = halves(1.2, again)
        assert confirmed(first.model_copy(update={"exit": 1}), fresh, unexpected=0).exit == 1


def test_what_improved_needs_no_confirmation() -> None:
    first, _ = halves(0.8, FIVE)
    assert suspects(first) == []


def test_a_run_whose_times_are_left_out_is_said_here_too() -> None:
    warning = Warning(id="times-left-out", message="x--r1: its times are left out: works-after-answer", cell="x--r1")
    few = Warning(id="insufficient", message="no winner")
    base, new = arm(sampled={"to_result_ms": FOUR}), arm(sampled={"to_result_ms": []}, n=4, warnings=[few, warning])
    found = judge(base, new)
    assert only(found, "to_result_ms").verdict == "insufficient"
    assert [one for one in found.warnings if one.id == "times-left-out"] == [warning]


@pytest.mark.parametrize(
    "name", ["permission_options.allow:allow_once", r"updates.caf\udce9", "updates.", "updates. $x$"]
)
def test_a_live_models_counts_by_name_inform_whatever_an_agent_calls_them(name: str) -> None:
    one = arm({}, {name: [1.0, 2.0, 1.0]})
    (found,) = [verdict for verdict in judge(one, one).verdicts if verdict.kind == "sampled"]
    assert (found.metric, found.gated) == (name, False)
