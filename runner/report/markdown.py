"""The report as Markdown (tables in GitHub's form), for an issue, a wiki or a job's summary."""

from __future__ import annotations

from tabulate import tabulate

from runner.analysis.report import Report
from runner.report.tables import page
from runner.report.text import escaped, paragraph


def render(report: Report) -> str:
    """The same tables and notes as the terminal's; ends with a line feed."""
    content = page(report)
    parts = [f"## {escaped(report.sweep)}"]
    if content.caption:
        parts.append(paragraph(content.caption))
    for sheet in content.sheets:
        table = tabulate(
            [[escaped(text) for text in row] for row in sheet.rows],
            headers=[escaped(text) for text in sheet.headers],
            tablefmt="pipe",
            disable_numparse=True,
            colalign=["left", *["right"] * (len(sheet.headers) - 1)] if sheet.rows else None,
        )
        parts.append(f"**{escaped(sheet.title)}**\n\n{table}")
    parts.append("\n".join(f"- {escaped(note)}" for note in content.notes))
    return "\n\n".join(parts) + "\n"
