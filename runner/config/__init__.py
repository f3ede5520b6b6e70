"""What a user writes: YAML with file and line for every complaint, catalogues of ids, the plan of a sweep.

Imports `text`.
"""

#: Modules that other rooms import; all others are this room's own.
__all__ = [
    "adapter",
    "base",
    "cassette",
    "catalog",
    "fixture",
    "gate",
    "keys",
    "knobs",
    "loaded_sweep",
    "loader",
    "nearest",
    "normaliser",
    "outcome",
    "plan",
    "policy",
    "schema_export",
    "script",
    "source",
    "surface",
    "sweep",
    "upstream",
]
