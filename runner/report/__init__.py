"""Renderers alone: a report, a comparison, findings or a history as table, Markdown, HTML, JUnit, CSV, annotations.

Imports `analysis`, `config`, `evidence`, `gateway`, `records`, `study`, `text`, `wire`.
"""

#: Modules that other rooms import; all others are this room's own.
__all__ = [
    "frames",
    "github",
    "history",
    "html",
    "junit",
    "markdown",
    "permissions",
    "program",
    "render",
    "study",
    "table",
    "text",
    "timeline",
    "to_csv",
    "verdicts",
]
