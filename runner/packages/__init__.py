"""Package registries and pins: what they say of an adapter's packages, and how a new version is pinned.

Imports `config`, `sandbox`, `wire`.
"""

#: Modules that other rooms import; all others are this room's own.
__all__ = ["answers", "check", "clients", "pin", "versions"]
