"""The files of a sweep: its lock, a run's record with its schema, how a run ended, and how they are written and read.

Imports `acp`, `config`, `text`, `wire`.
"""

#: Modules that other rooms import; all others are this room's own.
__all__ = ["bounds", "disk", "finding_texts", "findings", "lock", "outcome", "schema", "store"]
