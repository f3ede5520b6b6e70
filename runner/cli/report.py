"""`acpbench report`: a sweep's records, for people and for machines."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from runner.analysis.aggregate import of_directory
from runner.analysis.report import Report
from runner.cli.options import Directory, Output
from runner.cli.output import out_or_file
from runner.records.store import SweepDir


class Format(StrEnum):
    TABLE = "table"
    MARKDOWN = "markdown"
    JSON = "json"
    JUNIT = "junit"
    HTML = "html"
    CSV = "csv"
    ANNOTATIONS = "annotations"


def report_of(directory: Path) -> Report:
    """The report of a sweep's directory. Raises UsageError for what cannot be read, naming the file."""
    return of_directory(SweepDir.read(directory))


def report(
    directory: Directory,
    form: Annotated[Format, typer.Option("--format", help="How it is written.")] = Format.TABLE,
    file: Output = None,
) -> int:
    """Print what a sweep measured."""
    from runner.report.render import render

    out_or_file(render(SweepDir.read(directory), form.value), file)
    return 0
