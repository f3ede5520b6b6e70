"""A metric's values in one arm -> the report's figures, and how many runs it takes to name a winner."""

from __future__ import annotations

from collections.abc import Iterable

from runner.analysis import stats
from runner.analysis.report import Sampled

#: Runs an arm needs before any difference between two arms can be named at 5 %.
MIN_RUNS = stats.required_n()


def summary(values: Iterable[float | None]) -> Sampled:
    """The figures of one metric of one arm; runs that lack it are left out of `n`."""
    known = stats.summarise([value for value in values if value is not None])
    if known is None:
        return Sampled(n=0, median=None, min=None, max=None, coverage=None, values=[])
    return Sampled(
        n=known.n,
        median=known.median,
        min=known.min,
        max=known.max,
        coverage=known.coverage,
        values=list(known.values),
    )
