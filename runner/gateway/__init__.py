"""The model gateway seen from outside its container: its program, its journal, cassettes, and how it reaches a live
model.

Imports `config`, `records`, `redaction`, `sandbox`, `text`, `wire`.
"""

#: Modules that other rooms import; all others are this room's own.
__all__ = ["capture", "cassette", "compile", "container", "journal", "limits", "program", "upstream_access"]
