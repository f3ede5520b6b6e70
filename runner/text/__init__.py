"""Text and files from outside: read within bounds (`files`), written by one rule (`encoding`), shown (`visible`).

Imports no other room.
"""

#: Modules that other rooms import; all others are this room's own.
__all__ = ["encoding", "files", "visible"]
