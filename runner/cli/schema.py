"""`acpbench schema`: the JSON Schema of a kind of configuration file."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from runner.cli.output import out
from runner.config.schema_export import KINDS, json_schema


def schema(
    kind: Annotated[str | None, typer.Argument(metavar="[KIND]", help=f"One of {', '.join(KINDS)}.")] = None,
) -> int:
    """Print the JSON Schema of a kind of configuration file, or the kinds there are."""
    out("\n".join(KINDS) if kind is None else json.dumps(json_schema(kind), indent=2))
    return 0
