from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.stats import range_coverage, summarise


@pytest.mark.parametrize(("n", "coverage"), [(1, 0.0), (2, 0.5), (3, 0.75), (6, 0.96875)])
def test_range_coverage(n: int, coverage: float) -> None:
    assert range_coverage(n) == coverage


@pytest.mark.parametrize("n", range(1, 9))
def test_range_coverage_by_enumeration(n: int) -> None:
    """Each value is below or above the true median with probability 1/2: the range misses it if all agree."""
    sides = list(itertools.product((False, True), repeat=n))
    held = sum(any(side) and not all(side) for side in sides)
    assert math.isclose(range_coverage(n), held / len(sides))


def test_range_coverage_of_nothing() -> None:
    with pytest.raises(ValueError, match="at least one"):
        range_coverage(0)


def test_summarise() -> None:
    found = summarise([3, 1.5, 2])
    assert found is not None
    assert (found.n, found.median, found.min, found.max, found.coverage) == (3, 2.0, 1.5, 3.0, 0.75)
    assert found.values == (3.0, 1.5, 2.0)
    even = summarise([1, 2, 4, 9])
    assert even is not None
    assert even.median == 3.0


def test_summarise_of_nothing_is_null_not_zero() -> None:
    assert summarise([]) is None


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_summarise_refuses_what_is_no_measurement(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        summarise([1.0, value])


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=30))
def test_summarise_properties(values: list[float]) -> None:
    found = summarise(values)
    assert found is not None
    assert found.min <= found.median <= found.max
    assert sum(value < found.median for value in values) <= len(values) / 2
    assert sum(value > found.median for value in values) <= len(values) / 2
    reversed_ = summarise(values[::-1])
    assert reversed_ is not None
    assert reversed_.median == found.median
