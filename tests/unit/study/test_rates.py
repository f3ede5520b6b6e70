"""Rates are said with the bound that they have."""

from __future__ import annotations

import pytest

from runner.study.rates import rate, said
from runner.study.verdicts import few, plural


@pytest.mark.parametrize(
    ("k", "n", "words"),
    [
        (0, 22, "0 of 22 (at most 12.7 %)"),  # the design's own example
        (15, 15, "15 of 15 (at least 81.9 %)"),
        (0, 1, "0 of 1 (at most 95.0 %)"),
        (1, 1, "1 of 1 (at least 5.0 %)"),
        (3, 9, "3 of 9 (9.8 to 65.5 %)"),
    ],
)
def test_a_rate_is_said_with_its_bound(k: int, n: int, words: str) -> None:
    assert said(rate(k, n)) == words


def test_no_trials_are_no_rate() -> None:
    assert rate(0, 0) is None
    assert said(None) == "none"


@pytest.mark.parametrize("n", [1, 5, 22])
def test_bounds_solve_the_binomial_tail(n: int) -> None:
    """0 of n: (1 - p)^n = 5 %; n of n: p^n = 5 %."""
    none, all_of_them = rate(0, n), rate(n, n)
    assert none is not None
    assert none.at_most is not None
    assert (1 - none.at_most) ** n == pytest.approx(0.05)
    assert all_of_them is not None
    assert all_of_them.at_least is not None
    assert all_of_them.at_least**n == pytest.approx(0.05)


def test_lists_are_cut_and_counted() -> None:
    assert few(["a", "b", "a"]) == "a, b"
    assert few("abcdef", 4) == "a, b, c, d and 2 more"
    assert (plural(1, "run"), plural(2, "run")) == ("1 run", "2 runs")
