"""One cell -> one record: inputs, the agent's container, driving, collecting, the verdict, the record, who is to blame.

Imports `config`, `evidence`, `gateway`, `records`, `redaction`, `sandbox`, `surfaces`, `text`, `wire`.
"""

#: Modules that other rooms import; all others are this room's own.
__all__ = ["context", "run", "verifier"]
