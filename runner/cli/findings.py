"""`acpbench findings`: every figure of the published study, measured in a sweep's runs, with its evidence."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from runner.cli.options import Directory, Output
from runner.cli.output import out_or_file
from runner.cli.state import catalog
from runner.errors import UsageError


class Format(StrEnum):
    TABLE = "table"
    MARKDOWN = "markdown"
    JSON = "json"


def findings(
    context: typer.Context,
    directory: Directory,
    form: Annotated[Format, typer.Option("--format", help="How it is written.")] = Format.TABLE,
    file: Output = None,
) -> int:
    """Print claim, published figure, measured figure, verdict and evidence."""
    from runner.report import study as render
    from runner.study.build import build

    renderers = {Format.TABLE: render.table, Format.MARKDOWN: render.markdown, Format.JSON: render.to_json}
    out_or_file(renderers[form](build(directory, _shipped(context))), file)
    return 0


def _shipped(context: typer.Context) -> Path | None:
    """The study's own configuration, where this is a checkout."""
    try:
        return catalog(context).root / "configs/sweeps/study.yaml"
    except UsageError:
        return None
