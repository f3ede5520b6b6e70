"""Rates of distinct actions, and how they are said."""

from __future__ import annotations

from runner.analysis.stats import clopper_pearson_lower, clopper_pearson_upper
from runner.study.model import Rate


def rate(k: int, n: int) -> Rate | None:
    """None for no trials. Replicates of a script are no trials: count distinct actions."""
    if n == 0:
        return None
    return Rate(
        k=k,
        n=n,
        at_most=clopper_pearson_upper(k, n) if k < n else None,
        at_least=clopper_pearson_lower(k, n) if k else None,
    )


def said(found: Rate | None, unit: str = "") -> str:
    """`0 of 22 (at most 12.7 %)`, `15 of 15 calls (at least 81.9 %)`, `3 of 9 (9.8 to 65.5 %)`; `no calls` for none."""
    if found is None:
        return f"no {unit}" if unit else "none"
    head = f"{found.k} of {found.n}" + (f" {unit}" if unit else "")
    if found.at_least is None and found.at_most is not None:
        return f"{head} (at most {found.at_most:.1%})".replace("%", " %")
    if found.at_most is None and found.at_least is not None:
        return f"{head} (at least {found.at_least:.1%})".replace("%", " %")
    assert found.at_most is not None
    assert found.at_least is not None
    return f"{head} ({100 * found.at_least:.1f} to {100 * found.at_most:.1f} %)"
