"""Comparisons for tests of what prints them."""

from __future__ import annotations

from runner.analysis.comparability import Likeness
from runner.analysis.compare import compare
from runner.analysis.comparison import Compared, Pair
from runner.config.gate import Gate
from tests.unit.arms import arm

FIVE = [600.0, 602.0, 604.0, 606.0, 608.0]


def moved() -> Compared:
    """Counts and times of a new version: one call less, a handshake 150 ms longer, more of what only informs."""
    base = arm(
        {"tool_calls": [10], "permission_requests": [5]},
        {
            "handshake_ms": FIVE,
            "to_result_ms": [1200.0, 1210, 1220, 1230, 1240],
            "cpu_s": [1.0, 1.01, 1.02, 1.03, 1.04],
        },
    )
    new = arm(
        {"tool_calls": [9], "permission_requests": [5]},
        {
            "handshake_ms": [value + 150 for value in FIVE],
            "to_result_ms": [1205.0, 1215, 1225, 1235, 1900],
            "cpu_s": [2.0, 2.01, 2.02, 2.03, 2.04],
        },
        adapter="an-adapter@1.3.0",
    )
    return compare(("a-sweep", "a-sweep"), [Pair(base, new)], Gate())


def still() -> Compared:
    """Two sweeps with equal counts, on two machines."""
    likeness = Likeness(untimed=["two sweeps: times are compared within one sweep only"], noted=["another machine"])
    one = arm({"tool_calls": [10]}, {"handshake_ms": FIVE})
    return compare(("monday", "tuesday"), [Pair(one, one, likeness)], Gate())


def unlike() -> Compared:
    """Arms that may not be compared."""
    likeness = Likeness(["knobs.deadlines.turn: 600.0 -> 60.0", "seed: 1 -> 2"])
    one = arm({"tool_calls": [10]}, {"handshake_ms": FIVE})
    return compare(("monday", "tuesday"), [Pair(one, one, likeness)], Gate())
