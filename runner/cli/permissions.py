"""`acpbench permissions`: who was asked for what, adapters and versions side by side."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from runner.cli.output import out_or_file


class Format(StrEnum):
    TABLE = "table"
    MARKDOWN = "markdown"
    JSON = "json"


def permissions(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A sweep's directory.")],
    arm: Annotated[str, typer.Option(metavar="ARM", help="Glob over arm names; one arm is shown in full.")] = "*",
    differing: Annotated[bool, typer.Option("--differing", help="Only the actions in which the arms differ.")] = False,
    form: Annotated[Format, typer.Option("--format", help="How it is written.")] = Format.TABLE,
    file: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write here, not to stdout.")
    ] = None,
) -> int:
    """Print for every labelled action whether somebody was asked, and whether it was done."""
    from runner.report import permissions as render
    from runner.study.permission_map import build

    renderers = {Format.TABLE: render.table, Format.MARKDOWN: render.markdown, Format.JSON: render.to_json}
    out_or_file(renderers[form](build(directory, arm), differing=differing), file)
    return 0
