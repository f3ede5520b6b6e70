"""Small-sample statistics: pure functions, nothing dropped, nothing resampled.

Sources: H. A. David and H. N. Nagaraja, *Order Statistics*, 3rd ed., Wiley 2003, section 7.1 (distribution-free
confidence intervals for quantiles).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


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
    if not all(math.isfinite(value) for value in values):
        raise ValueError("values must be finite")
    numbers = tuple(float(value) for value in values)
    return Summary(
        n=len(numbers),
        median=statistics.median(numbers),
        min=min(numbers),
        max=max(numbers),
        coverage=range_coverage(len(numbers)),
        values=numbers,
    )
