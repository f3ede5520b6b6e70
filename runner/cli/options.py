"""Arguments and options that several verbs have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

#: Of an option that says how wide lines are.
MAX_WIDTH = 10_000

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="A sweep's directory.")]
Output = Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write here, not to stdout.")]
