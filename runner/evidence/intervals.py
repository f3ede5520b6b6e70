"""Sets of time intervals: union, clipping, length.

An interval is `(start_ns, end_ns)`; one that ends before it starts is empty.
"""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[int, int]

_NS_PER_MS = 1_000_000


def union(spans: Iterable[Span]) -> list[Span]:
    """The same instants as disjoint intervals in order. Empty intervals vanish, touching ones are joined."""
    joined: list[Span] = []
    for start, end in sorted(span for span in spans if span[1] > span[0]):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def clip(spans: Iterable[Span], windows: Iterable[Span]) -> list[Span]:
    """The part of `spans` that lies inside `windows`, as a union."""
    frames = union(windows)
    return [
        (max(start, opens), min(end, closes))
        for start, end in union(spans)
        for opens, closes in frames
        if max(start, opens) < min(end, closes)
    ]


def length_ms(spans: Iterable[Span]) -> float:
    """Length of the union, milliseconds."""
    return sum(end - start for start, end in union(spans)) / _NS_PER_MS


def ms(start_ns: int, end_ns: int) -> float:
    """From one instant to another, milliseconds (negative where the second is earlier)."""
    return (end_ns - start_ns) / _NS_PER_MS
