from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from runner.compare import Compared
from runner.report.verdicts import headline, markdown, notes, render, to_json, value_text
from tests.unit.report.builders import golden
from tests.unit.report.comparisons import moved, still, unlike


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


def test_every_warning_is_said() -> None:
    for found in (moved(), still(), unlike()):
        assert all(any(warning.message in note for note in notes(found)) for warning in found.warnings)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (301406, "301,406"), (True, "True"), ("end_turn", "end_turn"), (12.34, "12"), ([9, 10, 9], "9/10"),
     ([f"word{n}" for n in range(20)], "word0/word1/word2/wor...")],
)  # fmt: skip
def test_values(value: object, text: str) -> None:
    assert value_text(value) == text
