from __future__ import annotations

import math

import pytest

from runner.analysis.samples import MIN_RUNS, summary
from runner.analysis.stats import required_n


def test_a_summary_leaves_out_what_is_null() -> None:
    found = summary([3.0, None, 1.0, 8.0])
    assert (found.n, found.median, found.min, found.max, found.coverage) == (3, 3.0, 1.0, 8.0, 0.75)
    assert found.values == [3.0, 1.0, 8.0]


@pytest.mark.parametrize("values", [[], [None, None]])
def test_nothing_measured_is_null_and_not_0(values: list[float | None]) -> None:
    found = summary(values)
    assert (found.n, found.median, found.min, found.max, found.coverage, found.values) == (
        0,
        None,
        None,
        None,
        None,
        [],
    )


def test_0_is_a_value() -> None:
    assert summary([0.0]).median == 0.0


def test_how_many_runs_name_a_winner() -> None:
    assert MIN_RUNS == 4
    for alpha in (0.05, 0.01, 0.001):
        n = required_n(alpha)
        assert 2 / math.comb(2 * n, n) < alpha <= 2 / math.comb(2 * n - 2, n - 1)
