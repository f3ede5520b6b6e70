from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from runner.analysis.compare import compare
from runner.analysis.comparison import Compared, Pair
from runner.config.gate import Gate
from runner.report.verdicts import headline, markdown, notes, render, tables, to_json, value_text
from tests.unit.arms import arm
from tests.unit.report.comparisons import moved, still, unlike
from tests.unit.report.sample_reports import golden


@pytest.mark.parametrize(
    ("make", "name"), [(moved, "verdicts-moved"), (still, "verdicts-still"), (unlike, "verdicts-unlike")]
)
def test_golden(make: Callable[[], Compared], name: str) -> None:
    found = make()
    assert render(found) == golden(f"{name}.txt")
    assert markdown(found) == golden(f"{name}.md")
    assert max(map(len, render(found).splitlines())) <= 120


def test_the_names_that_scripts_rely_on() -> None:
    body = json.loads(to_json(moved()))
    assert body["exit"] == 2
    assert {"arm", "metric", "kind", "verdict", "base", "new", "ratio", "interval", "p", "n"} <= set(
        body["verdicts"][0]
    )
    (handshake,) = [one for one in body["verdicts"] if one["metric"] == "handshake_ms"]
    assert (handshake["verdict"], handshake["base"], handshake["new"], handshake["n"]) == (
        "regressed",
        604,
        754,
        [5, 5],
    )
    assert handshake["shift"] == 150
    assert Compared.model_validate(body) == moved()


def test_headlines() -> None:
    assert headline(moved()) == "a-sweep: changed-exact: tool_calls; regressed: handshake_ms"
    assert headline(still()) == "monday -> tuesday: nothing gated moved"
    assert headline(unlike()) == "monday -> tuesday: not comparable"
    # 1 outranks 2, so it is said first.
    found = moved().model_copy(update={"exit": 1})
    assert headline(found).startswith(
        "a-sweep: planned runs are missing or did not end as expected; changed-exact: tool_calls; regressed"
    )


def test_whose_figures_a_confirmed_verdict_has() -> None:
    fresh = "What is confirmed, or not, is of the fresh runs alone, all its figures too."
    assert fresh not in notes(moved())
    found = moved()
    next(verdict for verdict in found.verdicts if verdict.metric == "handshake_ms").flags.append("confirmed")
    assert fresh in notes(found)


def test_one_pair_of_runs_makes_no_interval() -> None:
    sides = arm(sampled={"handshake_ms": [600.0]}), arm(sampled={"handshake_ms": [660.0]}, policy="other")
    found = compare(("a-sweep", "a-sweep"), [Pair(*sides)], Gate())
    assert " 1.100 " in render(found)
    assert "interval" not in render(found)


def test_a_headline_folds_maps_and_the_table_names_each() -> None:
    base = arm({"tools_offered": [3], "tools_offered.Read": [True], "tools_offered.Glob": [True]})
    new = arm({"tools_offered": [1], "tools_offered.Task": [True]}, adapter="an-adapter@1.3.0")
    found = compare(("a-sweep", "a-sweep"), [Pair(base, new)], Gate())
    assert headline(found) == "a-sweep: changed-exact: tools_offered, tools_offered.* (3)"
    rows = {row[0]: row[2:4] for row in tables(found)[0][2][0][1]}
    assert rows["tools_offered.Glob*"] == ["yes", "no"]
    assert rows["tools_offered.Task*"] == ["no", "yes"]


def test_every_warning_is_said() -> None:
    for found in (moved(), still(), unlike()):
        assert all(any(warning.message in note for note in notes(found)) for warning in found.warnings)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (301406, "301,406"), (True, "yes"), (False, "no"), ("end_turn", "end_turn"), (12.34, "12"),
     ([9, 10, 9], "9/10"), ([f"word{n}" for n in range(20)], "word0/word1/word2/wor...")],
)  # fmt: skip
def test_values(value: object, text: str) -> None:
    assert value_text(value) == text
