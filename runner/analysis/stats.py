"""Small-sample statistics: pure functions, nothing dropped, nothing resampled below the exact tests' reach.

Where SciPy has it, SciPy does it; it takes a second to import, so it is imported where it is used.

Sources: H. A. David and H. N. Nagaraja, *Order Statistics*, 3rd ed., Wiley 2003, section 7.1 (distribution-free
confidence intervals for quantiles). M. Hollander, D. A. Wolfe and E. Chicken, *Nonparametric Statistical Methods*,
3rd ed., Wiley 2014, sections 4.1-4.3 (the rank-sum test, its estimator and its interval). S. Holm, "A simple
sequentially rejective multiple test procedure", *Scand. J. Statist.* 6, 1979, 65-70. C. Clopper and E. S. Pearson,
"The use of confidence or fiducial limits", *Biometrika* 26, 1934, 404-413.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

#: Values of both sides together up to which the rank test is exact (10 v 10 by far; 40 v 40 takes tenths of a second).
EXACT_LIMIT = 80
#: Random arrangements where it is not.
RESAMPLES = 99_999


@dataclass(frozen=True)
class Summary:
    """Of one sampled metric in one arm; the unit is the metric's own. `values` as measured, in the order given."""

    n: int
    median: float
    min: float
    max: float
    #: Confidence (0 to 1) with which [min, max] holds the true median.
    coverage: float
    values: tuple[float, ...]


@dataclass(frozen=True)
class MedianInterval:
    """An interval of the true median. `ranks`: of its ends among the sorted values, from 1."""

    low: float
    high: float
    #: What the interval really has: at least what was asked for.
    confidence: float
    ranks: tuple[int, int]


@dataclass(frozen=True)
class RatioEstimate:
    """new / base: the Hodges-Lehmann estimate and its interval."""

    ratio: float
    low: float
    high: float
    #: What the interval really has: at least what was asked for, or all that so few values can give.
    confidence: float


@dataclass(frozen=True)
class RankTest:
    """A two-sided rank test. `error`: the standard error of `p`, 0 where it is exact."""

    p: float
    method: Literal["exact", "monte-carlo"]
    error: float = 0.0


def range_coverage(n: int) -> float:
    """Confidence with which the range of n independent values of one continuous distribution holds its median.

    The range misses the median only if all n values lie on the same side of it: 2 * (1/2)^n. So 1 - 2^(1-n):
    0 at n=1, 0.75 at n=3, 0.96875 at n=6 (David and Nagaraja, 7.1, with r=1 and s=n). Raises ValueError for n < 1.
    """
    if n < 1:
        raise ValueError("coverage needs at least one value")
    return 1.0 - 2.0 ** (1 - n)


def summarise(values: Sequence[float]) -> Summary | None:
    """n, median (the mean of the two middle values where n is even), range and its coverage; None for no values.

    Raises ValueError for a value that is not finite.
    """
    if not values:
        return None
    numbers = _finite(values)
    return Summary(
        n=len(numbers),
        median=statistics.median(numbers),
        min=min(numbers),
        max=max(numbers),
        coverage=range_coverage(len(numbers)),
        values=numbers,
    )


def median_interval(values: Sequence[float], confidence: float = 0.95) -> MedianInterval | None:
    """The narrowest symmetric interval between order statistics that holds the true median with that confidence.

    [x(r), x(n+1-r)] misses it with probability 2 P(B < r), B binomial(n, 1/2) (David and Nagaraja, 7.1). None where
    even the range has less: below n=6 at 95 %. Raises ValueError for a value that is not finite.
    """
    ordered = sorted(_finite(values))
    n = len(ordered)
    rank, held, tail = 0, 0.0, 0
    while 2 * (rank + 1) <= n:
        tail += math.comb(n, rank)
        found = 1.0 - 2 * tail / 2**n
        if found < confidence:
            break
        rank, held = rank + 1, found
    if rank == 0:
        return None
    return MedianInterval(ordered[rank - 1], ordered[n - rank], held, (rank, n + 1 - rank))


def hodges_lehmann(base: Sequence[float], new: Sequence[float]) -> float:
    """The shift from `base` to `new`: the median of all pairwise differences (Hollander, Wolfe and Chicken, 4.2).

    Raises ValueError for an empty side or a value that is not finite.
    """
    return statistics.median(_differences(_finite(base), _finite(new)))


def hodges_lehmann_ratio(base: Sequence[float], new: Sequence[float], confidence: float = 0.95) -> RatioEstimate:
    """new / base as the Hodges-Lehmann shift of the logarithms, with the interval of the exact rank-sum distribution.

    The interval runs from the k-th smallest to the k-th largest of the pairwise ratios, k as large as
    1 - 2 P(U < k) >= confidence allows, U being the Mann-Whitney statistic without ties; with ties the closed
    interval holds at least as much (Hollander, Wolfe and Chicken, 4.3). Where even k=1 has less (3 v 3: 90 %) it is
    given with what it has. Raises ValueError for an empty side or a value that is not finite and positive.
    """
    sides = _finite(base), _finite(new)
    if any(value <= 0 for side in sides for value in side):
        raise ValueError("a ratio needs positive values")
    ratios = _differences(*([math.log(value) for value in side] for side in sides))
    k, held = _interval_rank(len(sides[0]), len(sides[1]), confidence)
    return RatioEstimate(
        ratio=math.exp(statistics.median(ratios)),
        low=math.exp(ratios[k - 1]),
        high=math.exp(ratios[-k]),
        confidence=held,
    )


def rank_test(base: Sequence[float], new: Sequence[float], seed: int = 0) -> RankTest:
    """The two-sided rank-sum test of Wilcoxon, Mann and Whitney over the mid-ranks that the values really have.

    p = the share of all arrangements of the values on two sides of these sizes whose rank sum is at least as far from
    its expectation (Hollander, Wolfe and Chicken, 4.1). SciPy's exact distribution knows no ties, so the arrangements
    are counted here; beyond EXACT_LIMIT values a seeded sample of them is drawn by SciPy. Raises ValueError for an
    empty side or a value that is not finite.
    """
    first, second = _finite(base), _finite(new)
    if not first or not second:
        raise ValueError("a test needs values on both sides")
    ranks = _doubled_midranks(first + second)
    if len(ranks) <= EXACT_LIMIT:
        return RankTest(_exact_p(tuple(sorted(ranks)), len(first), sum(ranks[: len(first)])), "exact")
    return _monte_carlo(ranks, len(first), seed)


def smallest_p(n: int, m: int) -> float:
    """The smallest two-sided p that the rank test can reach with n v m values, no ties: 2 / C(n+m, n), at most 1."""
    return min(1.0, 2 / math.comb(n + m, n))


def required_n(alpha: float = 0.05, k: int = 1) -> int:
    """Smallest n a side at which the rank test can reach p < alpha / k: 4 at 5 % for one test, 6 for ten."""
    n = 1
    while smallest_p(n, n) >= alpha / k:
        n += 1
    return n


def holm(ps: Sequence[float]) -> list[float]:
    """Adjusted p values (Holm 1979), in the order given: below alpha where the step-down procedure rejects."""
    order = sorted(range(len(ps)), key=lambda index: ps[index])
    adjusted = [0.0] * len(ps)
    reached = 0.0
    for step, index in enumerate(order):
        reached = max(reached, min(1.0, (len(ps) - step) * ps[index]))
        adjusted[index] = reached
    return adjusted


def fisher(base: tuple[int, int], new: tuple[int, int]) -> float:
    """Two-sided p of Fisher's exact test for two rates, each as (successes, trials); SciPy's.

    Raises ValueError for what is no rate.
    """
    for hits, trials in (base, new):
        _check_rate(hits, trials)
    table = [[hits, trials - hits] for hits, trials in (base, new)]
    return float(_scipy_stats().fisher_exact(table).pvalue)


def clopper_pearson_upper(k: int, n: int, confidence: float = 0.95) -> float:
    """One-sided upper bound of a rate of which k of n were seen: 0 of 22 is at most 12.7 % (Clopper and Pearson 1934).

    Raises ValueError for what is no rate.
    """
    _check_rate(k, n)
    return 1.0 if k == n else float(_scipy_special().betaincinv(k + 1, n - k, confidence))


def clopper_pearson_lower(k: int, n: int, confidence: float = 0.95) -> float:
    """One-sided lower bound; see `clopper_pearson_upper`."""
    _check_rate(k, n)
    return 0.0 if k == 0 else float(_scipy_special().betaincinv(k, n - k + 1, 1.0 - confidence))


def _finite(values: Sequence[float]) -> tuple[float, ...]:
    if not all(math.isfinite(value) for value in values):
        raise ValueError("values must be finite")
    return tuple(float(value) for value in values)


def _check_rate(k: int, n: int) -> None:
    if n < 1 or not 0 <= k <= n:
        raise ValueError(f"{k} of {n} is no rate")


def _differences(base: Sequence[float], new: Sequence[float]) -> list[float]:
    """All of new - base, sorted."""
    if not base or not new:
        raise ValueError("a comparison needs values on both sides")
    return sorted(b - a for a in base for b in new)


def _doubled_midranks(values: Sequence[float]) -> list[int]:
    """Twice the rank of each value, ties sharing the mean of theirs: whole numbers."""
    ordered = sorted(values)
    first: dict[float, int] = {}
    last: dict[float, int] = {}
    for rank, value in enumerate(ordered, start=1):
        first.setdefault(value, rank)
        last[value] = rank
    return [first[value] + last[value] for value in values]


@functools.lru_cache(maxsize=4096)
def _exact_p(ranks: tuple[int, ...], size: int, seen: int) -> float:
    """Share of the subsets of `ranks` with `size` members whose sum is as far from the mean as `seen`, or farther."""
    counts = _sums(ranks, size)
    total = math.comb(len(ranks), size)
    # Deviations times the number of ranks, so that they are whole: the mean of the sum is size * sum(ranks) / len.
    mean = size * sum(ranks)
    limit = abs(seen * len(ranks) - mean)
    hits = sum(count for value, count in enumerate(counts) if abs(value * len(ranks) - mean) >= limit)
    return hits / total


@functools.lru_cache(maxsize=256)
def _sums(ranks: tuple[int, ...], size: int) -> list[int]:
    """How many subsets of `size` members have each sum; index = sum.

    The coefficients of prod (1 + y x^rank) at y^size. A polynomial in x is held as one big integer, a field of fixed
    width for each coefficient, so that multiplying by x^rank is a shift: the same counts as by enumeration, in time
    that grows with a power of n instead of C(2n, n).
    """
    width = math.comb(len(ranks), size).bit_length() + 1
    rows = [1] + [0] * size
    for rank in ranks:
        for members in range(size, 0, -1):
            rows[members] += rows[members - 1] << (rank * width)
    mask = (1 << width) - 1
    packed, counts = rows[size], []
    text = packed.to_bytes((packed.bit_length() + 7) // 8 + 1, "little")
    for index in range(sum(ranks) + 1):
        start = index * width
        piece = int.from_bytes(text[start // 8 : (start + width) // 8 + 1], "little")
        counts.append((piece >> (start % 8)) & mask)
    return counts


@functools.lru_cache(maxsize=256)
def _interval_rank(n: int, m: int, confidence: float) -> tuple[int, float]:
    """(k, its confidence): the largest k >= 1 with 1 - 2 P(U < k) >= confidence; k=1 where there is none."""
    # Without ties the sum of the doubled ranks of one side is 2 U + n (n + 1).
    counts = _sums(tuple(range(2, 2 * (n + m) + 1, 2)), n)[n * (n + 1) :: 2]
    total = math.comb(n + m, n)
    tail = counts[0]
    best = (1, max(0.0, 1.0 - 2 * tail / total))
    for k in range(2, n * m // 2 + 1):
        tail += counts[k - 1]
        held = 1.0 - 2 * tail / total
        if held < confidence:
            break
        best = (k, held)
    return best


def _monte_carlo(ranks: Sequence[int], size: int, seed: int) -> RankTest:
    mean = size * sum(ranks) / len(ranks)

    def distance(first: Any, second: Any, axis: int) -> Any:
        del second
        return abs(first.sum(axis=axis) - mean)

    found = _scipy_stats().permutation_test(
        (ranks[:size], ranks[size:]),
        distance,
        alternative="greater",
        vectorized=True,
        n_resamples=RESAMPLES,
        batch=1000,
        rng=seed,
    )
    p = float(found.pvalue)
    return RankTest(p, "monte-carlo", math.sqrt(p * (1 - p) / RESAMPLES))


def _scipy_stats() -> Any:
    import scipy.stats

    return scipy.stats


def _scipy_special() -> Any:
    import scipy.special

    return scipy.special
