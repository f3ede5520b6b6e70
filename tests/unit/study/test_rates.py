"""Rates are said with the bound that they have."""

from __future__ import annotations

import pytest

from runner.study.model import ClaimFinding, Measured
from runner.study.rates import rate, said
from runner.study.verdicts import few, plural, with_its_bound


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


@pytest.mark.parametrize(
    ("k", "n", "verdict"),
    [
        (2, 2, "holds-so-far"),
        (13, 13, "holds-so-far"),
        (14, 14, "holds"),
        (0, 13, "holds-so-far"),
        (0, 14, "holds"),
        # Neither always nor never: the rule that judged it had its reasons.
        (5, 9, "holds"),
    ],
)
def test_what_holds_carries_its_bound(k: int, n: int, verdict: str) -> None:
    """14 of 14 is at least 80.7 %, 13 of 13 at least 79.4 % (one-sided, 95 %)."""
    measured = Measured(text="x", bound=rate(k, n))
    claim = ClaimFinding(id="veto", adapter="a@1", claim="x", measured=measured, verdict="holds")
    assert with_its_bound(claim).verdict == verdict
    assert with_its_bound(claim.model_copy(update={"verdict": "does-not-hold"})).verdict == "does-not-hold"
