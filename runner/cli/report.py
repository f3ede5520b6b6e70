"""`acpbench report`: a sweep's records as a table, Markdown or JSON."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from runner.cli.output import out_or_file
from runner.records.store import SweepDir
from runner.report.build import build
from runner.report.model import Report


class Format(StrEnum):
    TABLE = "table"
    MARKDOWN = "markdown"
    JSON = "json"


def report_of(directory: Path) -> Report:
    """The report of a sweep's directory. Raises UsageError for what cannot be read, naming the file."""
    sweep = SweepDir.read(directory)
    lock = sweep.lock
    return build(str(lock.get("sweep", directory.name)), lock, sweep.cells, sweep.records())


def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A sweep's directory.")],
    form: Annotated[Format, typer.Option("--format", help="How it is written.")] = Format.TABLE,
    file: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write here, not to stdout.")
    ] = None,
) -> int:
    """Print what a sweep measured."""
    from runner.report import markdown, table, to_json

    renderers = {Format.TABLE: table.render, Format.MARKDOWN: markdown.render, Format.JSON: to_json.render}
    out_or_file(renderers[form](report_of(directory)), file)
    return 0
