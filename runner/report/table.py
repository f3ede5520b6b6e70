"""The report for a terminal. No line of a table is wider than `width` unless a single column cannot be cut further."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from tabulate import tabulate

from runner.analysis.report import Report
from runner.report.tables import Sheet, page
from runner.report.text import printable, wrapped
from runner.text.visible import SENTENCE, one_line

WIDTH = 120


def render(report: Report, width: int = WIDTH) -> str:
    """Plain text, tables first, then the notes; ends with a line feed.

    A table that is too wide is split by columns, rows keep their names.
    """
    content = page(report)
    head = f"{report.sweep}: {content.caption}" if content.caption else report.sweep
    parts = [textwrap.fill(one_line(head, 5 * SENTENCE), width, break_on_hyphens=False)]
    for sheet in content.sheets:
        parts += [f"{sheet.title}\n{text}" for text in _fitted(sheet, width)]
    parts.append("\n".join(wrapped(note, width) for note in content.notes))
    # Again at the end: wrapping puts words at the beginning of a line.
    return printable("\n\n".join(parts)) + "\n"


def _fitted(sheet: Sheet, width: int) -> Iterator[str]:
    """The sheet as one table, or as several with as many columns as fit, each starting with the name column."""
    start = 1
    while start < len(sheet.headers):
        end = len(sheet.headers)
        while end > start + 1 and _width(_table(sheet, start, end)) > width:
            end -= 1
        yield _table(sheet, start, end)
        start = end


def _table(sheet: Sheet, start: int, end: int) -> str:
    columns = [0, *range(start, end)]
    return tabulate(
        [[one_line(row[column]) for column in columns] for row in sheet.rows],
        headers=[one_line(sheet.headers[column]) for column in columns],
        tablefmt="simple",
        disable_numparse=True,
        colalign=["left", *["right"] * (len(columns) - 1)] if sheet.rows else None,
    )


def _width(text: str) -> int:
    return max(map(len, text.splitlines()))
