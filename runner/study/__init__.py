"""The published study, claim by claim, measured on a sweep's runs; `rules` holds one module a group of claims.

Imports `acp`, `analysis`, `config`, `evidence`, `gateway`, `records`, `text`, `wire`.
"""

#: Modules that other rooms import; all others are this room's own.
__all__ = ["build", "claims", "model", "permission_map", "references", "verdicts"]
