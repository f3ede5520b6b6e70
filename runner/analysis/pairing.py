"""Which arm is held against which: globs over arm names -> pairs that differ in as little as possible. Pure."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runner.analysis.comparability import DIMENSIONS, Likeness, across, differing, within
from runner.analysis.comparison import Pair
from runner.analysis.report import Arm, Report, Warning
from runner.config.nearest import suggest
from runner.errors import UsageError

_Judge = Callable[[Arm, Arm], Likeness]


@dataclass(frozen=True)
class Paired:
    """Pairs in the order of the new arms. `missing`: arms of the base without a partner, each with a warning."""

    pairs: list[Pair]
    missing: int
    warnings: list[Warning]


def pair_within(report: Report, base: str, new: str) -> Paired:
    """Arms of one sweep, by two globs.

    Raises UsageError for a glob that fits nothing, an arm that both fit, and an arm that could be held against several.
    """
    sides = _fitting(report.arms, "--base", base), _fitting(report.arms, "--new", new)
    both = [arm.name for arm in sides[0] if arm in sides[1]]
    if both:
        raise UsageError(f"--base '{base}' and --new '{new}' both fit {both[0]}; an arm is not held against itself")
    alone = len(sides[0]) == len(sides[1]) == 1
    return _paired(*sides, lambda one, other: within(report.lock, one, other), len(DIMENSIONS) if alone else 1)


def pair_across(base: Report, new: Report, base_glob: str = "*", new_glob: str = "*") -> Paired:
    """Arms of two sweeps: of the same name, or else those that differ in one dimension. Raises as `pair_within`."""
    sides = _fitting(base.arms, "--base", base_glob), _fitting(new.arms, "--new", new_glob)
    return _paired(*sides, lambda one, other: across(base.lock, one, new.lock, other), 1)


def _fitting(arms: Sequence[Arm], option: str, glob: str) -> list[Arm]:
    found = [arm for arm in arms if fnmatch.fnmatchcase(arm.name, glob)]
    if not found:
        raise UsageError(f"{option} '{glob}' fits no arm{suggest(glob, [arm.name for arm in arms])}")
    return found


def _paired(bases: Sequence[Arm], news: Sequence[Arm], judge: _Judge, limit: int) -> Paired:
    pairs: list[Pair] = []
    warnings: list[Warning] = []
    for new in news:
        nearest = min(_distance(base, new) for base in bases)
        if nearest > limit:
            warnings.append(Warning(id="unpaired", message=f"{new.name}: has no counterpart in the base"))
            continue
        found = [base for base in bases if _distance(base, new) == nearest]
        if len(found) > 1:
            names = ", ".join(base.name for base in found)
            raise UsageError(f"{new.name} could be held against {names}; give narrower globs")
        pairs.append(Pair(found[0], new, judge(found[0], new)))
    held = {pair.base.name for pair in pairs}
    missing = [base for base in bases if base.name not in held]
    warnings += [Warning(id="missing-arm", message=f"{base.name}: nothing is held against it") for base in missing]
    if not pairs:
        raise UsageError("nothing can be compared: no two arms are the same or differ in one thing alone")
    return Paired(pairs, len(missing), warnings)


def _distance(base: Arm, new: Arm) -> int:
    return len(differing(base, new))
