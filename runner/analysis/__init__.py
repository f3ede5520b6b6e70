"""Records of many runs -> figures: medians and ranges, comparisons, gates, baselines, the history.

Pure but for files that it reads and the history that it writes. Renderers stand in `report`.

Imports `config`, `evidence`, `records`, `text`, `wire`.
"""

#: Modules that other rooms import; all others are this room's own.
__all__ = [
    "aggregate",
    "baseline",
    "compare",
    "comparison",
    "flaky",
    "gating",
    "history",
    "pairing",
    "report",
    "stats",
    "steps",
]
