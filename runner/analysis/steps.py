"""Steps in nightly medians: where their level changed. A hint for whoever looks, never a gate."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from runner.analysis import stats

#: Nights a side that a step needs, and the level at which it is worth a hint.
STEP_NIGHTS = 4


STEP_ALPHA = 0.05


#: Newest nights that are searched: as far back as the exact test reaches at once.
STEP_WINDOW = 60


@dataclass(frozen=True)
class LevelStep:
    """A change of level between two nights. `index`: the first night after it; `ratio`: after to before, by medians."""

    index: int
    ratio: float
    #: Times the number of places that were tried.
    p: float


def steps(medians: Sequence[float]) -> list[LevelStep]:
    """Where the level of nightly medians changed, by binary segmentation: the place whose two sides the exact rank
    test tells apart best, if it still does so after Bonferroni over all places tried; then the same on either side.

    Only the newest STEP_WINDOW nights are searched.
    """
    start = max(0, len(medians) - STEP_WINDOW)
    return sorted(_steps(medians[start:], start), key=lambda step: step.index)


def _steps(medians: Sequence[float], offset: int) -> list[LevelStep]:
    places = range(STEP_NIGHTS, len(medians) - STEP_NIGHTS + 1)
    best: tuple[float, float, int] | None = None
    for place in places:
        before, after = medians[:place], medians[place:]
        p = stats.rank_test(before, after).p
        # Among places that the ranks cannot tell apart, the one with the larger jump.
        jump = abs(statistics.median(after) - statistics.median(before))
        best = min(best, (p, -jump, place)) if best is not None else (p, -jump, place)
    if best is None or best[0] * len(places) >= STEP_ALPHA:
        return []
    place = best[2]
    low, high = statistics.median(medians[:place]), statistics.median(medians[place:])
    step = LevelStep(offset + place, high / low if low else float("inf"), best[0] * len(places))
    return [*_steps(medians[:place], offset), step, *_steps(medians[place:], offset + place)]
