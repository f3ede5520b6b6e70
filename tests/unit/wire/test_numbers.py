"""Numbers from outside: what is one is read, what is none is a fault with the field's name, and nothing ever raises."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.records.schema import Turn
from runner.wire.numbers import MAX_NUMBER, Numbers, bounded, measure, out_of_range

HOSTILE: list[tuple[Any, str]] = [
    (float("inf"), "inf is out of range"),
    (float("-inf"), "-inf is out of range"),
    (float("nan"), "nan is out of range"),
    (1e300, "1e+300 is out of range"),
    (2**53, "9007199254740992 is out of range"),
    (2**63, "9223372036854775808 is out of range"),
    (10**4299, "1e4299 or so is out of range"),
    (-(10**4299), "-1e4299 or so is out of range"),
    (-1, "-1 is negative"),
    (-0.5, "-0.5 is negative"),
    (True, "a boolean in place of a number"),
    ("12", "the text '12' in place of a number"),
    ([12], "an array in place of a number"),
    ({"n": 12}, "an object in place of a number"),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.parametrize(("value", "words"), HOSTILE)
def test_what_is_no_number_is_a_fault_and_no_figure(value: Any, words: str) -> None:
    numbers = Numbers()
    assert numbers.count(value, "usage.inputTokens") is None
    assert numbers.amount(value, "duration_ms") is None
    assert numbers.faults == [f"usage.inputTokens: {words}", f"duration_ms: {words}"]


@pytest.mark.parametrize(("value", "whole"), [(0, 0), (12, 12), (12.0, 12), (1e3, 1000), (MAX_NUMBER, MAX_NUMBER)])
def test_json_has_one_number_type(value: Any, whole: int) -> None:
    numbers = Numbers()
    assert (numbers.count(value, "n"), type(numbers.count(value, "n"))) == (whole, int)
    assert (numbers.amount(value, "n"), type(numbers.amount(value, "n"))) == (float(whole), float)
    assert numbers.faults == []


def test_a_count_is_whole_and_an_amount_need_not_be() -> None:
    numbers = Numbers()
    assert (numbers.count(1.5, "n"), numbers.amount(1.5, "ms")) == (None, 1.5)
    assert numbers.faults == ["n: 1.5 is no whole number"]


def test_an_absent_number_is_no_fault() -> None:
    numbers = Numbers()
    assert (numbers.count(None, "n"), numbers.amount(None, "n"), numbers.total([None], "n")) == (None, None, None)
    assert numbers.faults == []


def test_a_sum_of_numbers_is_bounded_too() -> None:
    numbers = Numbers()
    assert numbers.total([MAX_NUMBER, None, 0], "usage") == MAX_NUMBER
    assert numbers.total([MAX_NUMBER, 1], "usage") is None
    assert numbers.faults == ["usage: the sum is out of range"]


def test_faults_are_bounded_in_number_and_length() -> None:
    numbers = Numbers()
    for _ in range(100_000):
        numbers.count("x" * 10_000, "y" * 10_000)
    assert len(numbers.faults) == 100
    assert max(map(len, numbers.faults)) < 300


def test_numbers_deep_in_a_value_are_told_by_their_place() -> None:
    value = {"a": [1, {"b": 1e999}], "_meta": {"c": 10**400}, "d": -5, "e": True}
    assert sorted(out_of_range(value, "usage")) == [
        "usage._meta.c: 1e400 or so is out of range",
        "usage.a.b: inf is out of range",
    ]


def test_measured_is_what_a_float_can_hold() -> None:
    assert [measure(value) for value in (3, -1.5, True, "3", None, 10**400)] == [3.0, -1.5, None, None, None, None]


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {"n": 1}
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("depth", [49, 51, 150, 250, 700])
def test_a_record_takes_what_an_agent_nests(depth: int) -> None:
    turn = Turn(sent_ns=1)
    turn.usage = {**nested(depth), "totalTokens": float("inf")}  # as the driver fills it in
    assert turn.usage["totalTokens"] == "inf"
    assert Turn.model_validate_json(turn.model_dump_json()) == turn


@given(JSON)
def test_what_is_bounded_reads_back_in_any_reader(value: Any) -> None:
    text = json.dumps(bounded(value), allow_nan=False)
    assert json.loads(text, parse_constant=pytest.fail) == bounded(value)
    assert list(out_of_range(bounded(value), "x")) == []
