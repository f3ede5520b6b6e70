"""The ways to drive an agent.

`driver` is the loop that they share, `pipe` the agent's streams; `acp` and `cli` stand on it.

Imports `acp`, `config`, `guest`, `records`, `sandbox`, `wire`.
"""

#: Modules that other rooms import; all others are this room's own.
__all__ = ["driver", "phases", "pipe"]
