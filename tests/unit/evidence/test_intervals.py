from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.evidence.intervals import clip, length_ms, ms, union

spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=8)


def instants(intervals: list[tuple[int, int]]) -> set[int]:
    """Every whole instant inside: the slow definition that the fast one must equal."""
    return {t for start, end in intervals for t in range(start, end)}


@given(spans)
def test_union_holds_the_same_instants_in_disjoint_order(given_spans: list[tuple[int, int]]) -> None:
    joined = union(given_spans)
    assert instants(joined) == instants(given_spans)
    assert all(start < end for start, end in joined)
    assert all(before[1] < after[0] for before, after in pairwise(joined))


@given(spans, spans)
def test_clip_is_the_intersection(given_spans: list[tuple[int, int]], windows: list[tuple[int, int]]) -> None:
    assert instants(clip(given_spans, windows)) == instants(given_spans) & instants(windows)


def test_overlap_counts_once() -> None:
    assert length_ms([(0, 3_000_000), (2_000_000, 5_000_000), (9_000_000, 10_000_000)]) == 6.0
    assert length_ms([]) == 0.0


@pytest.mark.parametrize(("start", "end", "expected"), [(0, 1_500_000, 1.5), (1_500_000, 0, -1.5), (7, 7, 0.0)])
def test_ms(start: int, end: int, expected: float) -> None:
    assert ms(start, end) == expected
