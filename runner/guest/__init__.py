"""The guest: the small supervisor that runs inside every container. Python standard library only.

One package, two names. On the host it is `runner.guest` (tests, mypy). In a container the folder stands at
`/acpbench/guest` and is the top-level package `guest`: `main.py` appends the folder's parent to `sys.path` and imports
the rest from there. Modules here therefore import one another relatively, and nothing of `runner` outside this folder.

Imports no other room.
"""

#: Modules that other rooms import; all others are this room's own.
__all__ = ["channel", "fixture", "gitobj"]
