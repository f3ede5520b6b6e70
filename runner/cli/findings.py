"""`acpbench findings`: every figure of the published study, measured in a sweep's runs, with its evidence."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from runner.cli.options import Directory, Output
from runner.cli.output import out_or_file


class Format(StrEnum):
    TABLE = "table"
    MARKDOWN = "markdown"
    JSON = "json"


def findings(
    directory: Directory,
    form: Annotated[Format, typer.Option("--format", help="How it is written.")] = Format.TABLE,
    file: Output = None,
) -> int:
    """Print claim, published figure, measured figure, verdict and evidence."""
    from runner.report import study as render
    from runner.study.build import build

    renderers = {Format.TABLE: render.table, Format.MARKDOWN: render.markdown, Format.JSON: render.to_json}
    out_or_file(renderers[form](build(directory)), file)
    return 0
