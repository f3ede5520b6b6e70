from __future__ import annotations

import itertools
import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.analysis.stats import (
    EXACT_LIMIT,
    clopper_pearson_lower,
    clopper_pearson_upper,
    fisher,
    hodges_lehmann,
    hodges_lehmann_ratio,
    holm,
    median_interval,
    range_coverage,
    rank_test,
    required_n,
    smallest_p,
    summarise,
)


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


@pytest.mark.parametrize(
    ("n", "ranks"), [(6, (1, 6)), (8, (1, 8)), (9, (2, 8)), (10, (2, 9)), (12, (3, 10)), (15, (4, 12)), (30, (10, 21))]
)
def test_ranks_of_the_interval_of_the_median(n: int, ranks: tuple[int, int]) -> None:
    """The published ranks of 95 %."""
    found = median_interval(range(101, 101 + n))
    assert found is not None
    assert (found.ranks, found.low, found.high) == (ranks, 100 + ranks[0], 100 + ranks[1])
    # The same by the binomial distribution's own tail.
    tail = sum(math.comb(n, below) for below in range(ranks[0])) / 2**n
    assert math.isclose(found.confidence, 1 - 2 * tail)
    assert found.confidence >= 0.95


@pytest.mark.parametrize("n", range(6))
def test_too_few_for_an_interval_of_the_median(n: int) -> None:
    assert median_interval(range(n)) is None
    assert n < 3 or median_interval(range(n), 0.75) is not None


def test_hodges_lehmann_by_hand() -> None:
    # Differences: 9 10 11, 8 9 10, 7 8 9.
    assert hodges_lehmann([1, 2, 3], [10, 11, 12]) == 9
    found = hodges_lehmann_ratio([100, 110, 120], [220, 200, 240])
    # 220/110 = 200/100 = 240/120 = 2 are the middle three of nine ratios; 200/120 and 240/100 are the ends.
    assert math.isclose(found.ratio, 2.0)
    assert math.isclose(found.low, 200 / 120)
    assert math.isclose(found.high, 2.4)
    # Three against three cannot give 95 %.
    assert math.isclose(found.confidence, 0.9)


@pytest.mark.parametrize(
    ("n", "k", "percent"), [(4, 1, 97.1), (5, 3, 96.8), (6, 6, 95.9), (8, 14, 95.0), (10, 24, 95.7)]
)
def test_rank_of_the_ratio_s_interval(n: int, k: int, percent: float) -> None:
    """The published k-th smallest of n*n pairwise differences, and what the interval then has."""
    base = [2.0**index for index in range(n)]
    new = [3.0 * value**1.7 for value in base]
    ratios = sorted(b / a for a in base for b in new)
    found = hodges_lehmann_ratio(base, new)
    assert math.isclose(found.low, ratios[k - 1])
    assert math.isclose(found.high, ratios[-k])
    assert round(100 * found.confidence, 1) == percent


@pytest.mark.parametrize(("n", "k"), [(20, 128), (30, 318)])
def test_rank_of_the_ratio_s_interval_of_many(n: int, k: int) -> None:
    random = Random(n)
    base = [random.uniform(1, 2) for _ in range(n)]
    new = [random.uniform(1, 2) for _ in range(n)]
    ratios = sorted(b / a for a in base for b in new)
    found = hodges_lehmann_ratio(base, new)
    assert (found.low, found.high) == pytest.approx((ratios[k - 1], ratios[-k]))


def test_a_ratio_needs_positive_values() -> None:
    with pytest.raises(ValueError, match="positive"):
        hodges_lehmann_ratio([1, 0], [1, 2])
    with pytest.raises(ValueError, match="both sides"):
        hodges_lehmann_ratio([], [1, 2])


@pytest.mark.parametrize(
    ("n", "m", "p"),
    [(3, 3, 0.1), (3, 4, 0.057), (4, 4, 0.029), (5, 5, 0.0079), (6, 6, 0.0022), (3, 10, 0.007), (1, 1, 1)],
)
def test_smallest_p_is_what_disjoint_sides_get(n: int, m: int, p: float) -> None:
    found = rank_test(range(n), range(100, 100 + m))
    assert found.p == pytest.approx(smallest_p(n, m))
    assert found.p == pytest.approx(p, abs=0.0005)
    assert (found.method, found.error) == ("exact", 0.0)


@pytest.mark.parametrize(("k", "n"), [(1, 4), (5, 5), (10, 6), (20, 6), (50, 7), (100, 8), (500, 9), (1000, 9)])
def test_required_n(k: int, n: int) -> None:
    assert required_n(k=k) == n
    assert smallest_p(n, n) < 0.05 / k <= smallest_p(n - 1, n - 1)


def enumerated(base: Sequence[float], new: Sequence[float]) -> float:
    """The rank test by its definition: every arrangement in turn."""
    values = [*base, *new]
    ranks = [sum(other < value for other in values) + (values.count(value) + 1) / 2 for value in values]
    mean = len(base) * sum(ranks) / len(values)
    seen = abs(sum(ranks[: len(base)]) - mean)
    sums = [sum(chosen) for chosen in itertools.combinations(ranks, len(base))]
    return sum(abs(value - mean) >= seen - 1e-9 for value in sums) / len(sums)


few_values = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=6)


@given(few_values, few_values)
def test_rank_test_is_the_enumeration(base: list[float], new: list[float]) -> None:
    assert rank_test(base, new).p == pytest.approx(enumerated(base, new), abs=1e-12)


def test_rank_test_of_ten_against_ten_is_the_enumeration() -> None:
    random = Random(7)
    base = [float(random.randrange(12)) for _ in range(10)]
    new = [float(random.randrange(4, 16)) for _ in range(10)]
    assert rank_test(base, new).p == pytest.approx(enumerated(base, new), abs=1e-12)


@given(st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=30, unique=True), st.integers(1, 3))
@settings(deadline=None)
def test_rank_test_without_ties_is_scipy_s(values: list[float], size: int) -> None:
    import scipy.stats

    base, new = values[:size], values[size:]
    expected = scipy.stats.mannwhitneyu(base, new, method="exact").pvalue
    assert rank_test(base, new).p == pytest.approx(float(expected), rel=1e-9)


def test_rank_test_is_symmetric_in_its_sides() -> None:
    base, new = [1.0, 2, 2, 5], [2.0, 6, 7]
    assert rank_test(base, new) == rank_test(new, base)
    assert rank_test([3.0] * 5, [3.0] * 5).p == 1.0


def test_beyond_the_exact_limit_a_seeded_sample_says_how_sure_it_is() -> None:
    random = Random(3)
    base = [random.gauss(100, 10) for _ in range(EXACT_LIMIT // 2)]
    new = [random.gauss(104, 10) for _ in range(EXACT_LIMIT // 2 + 1)]
    found = rank_test(base, new, seed=5)
    assert found.method == "monte-carlo"
    assert found == rank_test(base, new, seed=5)
    exact = rank_test(base, new[:-1])
    assert exact.method == "exact"
    import scipy.stats

    expected = float(scipy.stats.mannwhitneyu(base, new, method="exact").pvalue)
    assert 0 < found.error < 0.002
    assert abs(found.p - expected) < 4 * found.error


def test_holm_by_hand() -> None:
    # In order: 4 x 0.01, then 3 x 0.013 (below 0.04, so 0.04), 2 x 0.03, and 0.04 (below 0.06, so 0.06).
    assert holm([0.04, 0.01, 0.03, 0.013]) == pytest.approx([0.06, 0.04, 0.06, 0.04])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize(
    ("base", "new", "p"),
    [
        ((4, 4), (0, 4), 0.029),
        ((5, 5), (1, 5), 0.048),
        ((8, 8), (3, 8), 0.026),
        ((3, 3), (0, 3), 0.1),
        ((2, 2), (9, 9), 1),
    ],
)
def test_fisher(base: tuple[int, int], new: tuple[int, int], p: float) -> None:
    assert fisher(base, new) == pytest.approx(p, abs=0.0005)


@pytest.mark.parametrize(("n", "percent"), [(3, 63.2), (5, 45.1), (10, 25.9), (22, 12.7), (30, 9.5)])
def test_none_of_n_is_at_most(n: int, percent: float) -> None:
    assert round(100 * clopper_pearson_upper(0, n), 1) == percent
    assert clopper_pearson_upper(0, n) == pytest.approx(1 - 0.05 ** (1 / n))
    assert clopper_pearson_lower(n, n) == pytest.approx(0.05 ** (1 / n))
    assert (clopper_pearson_upper(n, n), clopper_pearson_lower(0, n)) == (1.0, 0.0)


@pytest.mark.parametrize(("k", "n", "confidence"), [(1, 9, 0.95), (7, 22, 0.9), (49, 50, 0.99)])
def test_clopper_pearson_is_scipy_s(k: int, n: int, confidence: float) -> None:
    import scipy.stats

    below = scipy.stats.binomtest(k, n, alternative="less").proportion_ci(confidence, method="exact")
    above = scipy.stats.binomtest(k, n, alternative="greater").proportion_ci(confidence, method="exact")
    assert clopper_pearson_upper(k, n, confidence) == pytest.approx(float(below.high))
    assert clopper_pearson_lower(k, n, confidence) == pytest.approx(float(above.low))


@pytest.mark.parametrize("bound", [clopper_pearson_upper, clopper_pearson_lower])
@pytest.mark.parametrize(("k", "n"), [(0, 0), (3, 2), (-1, 2)])
def test_no_rate(bound: Callable[[int, int], float], k: int, n: int) -> None:
    with pytest.raises(ValueError, match="is no rate"):
        bound(k, n)
    with pytest.raises(ValueError, match="is no rate"):
        fisher((1, 2), (k, n))


@pytest.mark.parametrize("compare", [rank_test, hodges_lehmann])
def test_what_is_not_finite_or_empty_is_refused(compare: Callable[[list[float], list[float]], object]) -> None:
    with pytest.raises(ValueError, match="finite"):
        compare([math.inf], [1.0])
    with pytest.raises(ValueError, match="both sides"):
        compare([], [1.0])


def test_scipy_is_not_imported_before_it_is_needed() -> None:
    code = "import sys, runner.cli.app, runner.analysis.stats, runner.analysis.aggregate; print('scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
