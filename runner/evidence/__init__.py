"""One run's logs -> metrics and findings about it.

Pure: it reads frames, the model's journal and the record's facts.

Imports `acp`, `gateway`, `records`, `surfaces`, `text`, `wire`.
"""

#: Modules that other rooms import; all others are this room's own.
__all__ = [
    "callbacks",
    "conversation",
    "cost",
    "handshake",
    "intervals",
    "messages",
    "metrics",
    "permissions",
    "results",
    "tally",
    "tokens",
    "toolcalls",
    "validate",
    "work",
]
