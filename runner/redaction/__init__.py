"""Keys struck out of what leaves a run: in every form that text takes on its way, in files as streams.

Imports `config`.
"""

#: Modules that other rooms import; all others are this room's own.
__all__ = ["forms", "redact"]
