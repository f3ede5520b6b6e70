"""The command line: one module a verb, options in, exit code out.

No logic: what a verb does stands in the room it calls.

Imports `analysis`, `config`, `fixtures`, `gateway`, `packages`, `records`, `redaction`, `report`, `sandbox`, `study`,
`sweep`, `text`, `wire`.
"""
