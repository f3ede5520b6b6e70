"""Many cells: what is checked before, resources, order, retries, interrupts, progress; nightly runs and bisecting.

Imports `analysis`, `config`, `gateway`, `packages`, `records`, `redaction`, `report`, `run`, `sandbox`, `surfaces`,
`text`.
"""

#: Modules that other rooms import; all others are this room's own.
__all__ = ["bisect", "nightly", "preflight", "progress", "sweep"]
