"""`acpbench script check`: does every script compile for every adapter it is meant for?"""

from __future__ import annotations

from typing import Annotated

import typer

from runner.cli.output import out, table
from runner.cli.state import catalog
from runner.config.catalog import Catalog
from runner.errors import UsageError

app = typer.Typer(no_args_is_help=True, help="Scripted models.")


@app.callback()
def _group() -> None:
    """Scripted models."""


@app.command()
def check(
    context: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(metavar="[SCRIPT]...", help="Default: all.")] = None,
    adapter: Annotated[str | None, typer.Option(metavar="ID", help="For this adapter alone.")] = None,
) -> int:
    """Compile scripts for adapters; exit 64 if one cannot be."""
    rows, faults = _checked(catalog(context), names, adapter)
    out(table(["script", "adapter", "dialect", "steps", "calls", "result"], rows))
    return UsageError.exit_code if faults else 0


def _checked(found: Catalog, names: list[str] | None, only: str | None) -> tuple[list[tuple[object, ...]], int]:
    from runner.gateway.compile import compile_program

    scripts = [found.script(name) for name in names] if names else [one.value for one in found.scripts()]
    adapters = [found.adapter(only)] if only else [one.value for one in found.adapters()]
    rows: list[tuple[object, ...]] = []
    faults = 0
    for script in scripts:
        for adapter in adapters:
            head = (script.id, adapter.id, adapter.dialect)
            if script.dialects is not None and adapter.dialect not in script.dialects and only is None:
                rows.append((*head, None, None, "not meant for this dialect"))
                continue
            try:
                steps = compile_program(script, adapter, "/workspace/check")["steps"]
            except UsageError as error:
                faults += 1
                rows.append((*head, None, None, str(error)))
            else:
                rows.append((*head, len(steps), sum(len(step["calls"]) for step in steps), "ok"))
    return rows, faults
