"""`acpbench script check`: does every script compile for every adapter it is meant for, and what does it become?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from runner.cli.options import MAX_WIDTH
from runner.cli.output import out, table
from runner.cli.state import catalog
from runner.config.adapter import Adapter
from runner.config.catalog import Catalog
from runner.config.loaded_sweep import beyond
from runner.config.loader import LoadedFile, raise_all
from runner.config.script import Script
from runner.errors import ConfigError, UsageError

app = typer.Typer(no_args_is_help=True, help="Scripted models.")

#: Where a script is compiled that runs nowhere.
_WORKSPACE = "/workspace/check"


@app.callback()
def _group() -> None:
    """Scripted models."""


@app.command()
def check(
    context: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[SCRIPT]...", help="Ids, or files (with a / or .yaml). Default: all.")
    ] = None,
    adapter: Annotated[str | None, typer.Option(metavar="ID", help="For this adapter alone, step by step.")] = None,
    width: Annotated[
        int, typer.Option(min=40, max=MAX_WIDTH, help="Columns of a step's text; what is longer is cut.")
    ] = 100,
) -> int:
    """Compile scripts for adapters; exit 64 if one cannot be. With --adapter each step is shown as it becomes there."""
    found = catalog(context)
    scripts = [_script(found, name) for name in names] if names else found.scripts()
    if adapter is None:
        rows, faults = _checked(scripts, [adapter.value for adapter in found.adapters()])
        out(table(["script", "adapter", "dialect", "steps", "calls", "result"], rows))
        return UsageError.exit_code if faults else 0
    one = found.adapter(adapter)
    errors: list[ConfigError] = []
    for script in scripts:
        if not names and beyond(script.value, one):
            continue
        try:
            out(_shown(script, one, width))
        except ConfigError as error:
            errors.append(error)
    raise_all(errors)
    return 0


def _script(found: Catalog, name: str) -> LoadedFile[Script]:
    if "/" in name or name.endswith(".yaml"):
        return found.script_file(Path(name))
    return found.loaded_script(name)


def _checked(scripts: list[LoadedFile[Script]], adapters: list[Adapter]) -> tuple[list[tuple[object, ...]], int]:
    rows: list[tuple[object, ...]] = []
    faults = 0
    for script in scripts:
        for adapter in adapters:
            head = (script.value.id, adapter.id, adapter.dialect)
            if lacks := beyond(script.value, adapter):
                rows.append((*head, None, None, f"not meant for it: no {', '.join(lacks)}"))
                continue
            try:
                steps = _compiled(script, adapter)["steps"]
            except UsageError as error:
                faults += 1
                rows.append((*head, None, None, str(error)))
            else:
                rows.append((*head, len(steps), sum(len(step["calls"]) for step in steps), "ok"))
    return rows, faults


def _compiled(script: LoadedFile[Script], adapter: Adapter) -> dict[str, Any]:
    """The program. Raises ConfigError at the step's line where a step cannot be compiled, UsageError else."""
    from runner.gateway.compile import StepError, compile_program

    try:
        return compile_program(script.value, adapter, _WORKSPACE)
    except StepError as error:
        raise script.error(error.place, error.problem) from None


def _shown(script: LoadedFile[Script], adapter: Adapter, width: int) -> str:
    from runner.report.program import rows

    program = _compiled(script, adapter)
    head = f"{script.value.id} for {adapter.id} ({adapter.dialect}); calls: the first one whose tool is offered"
    return (
        f"{head}\n\n"
        + table(["step", "when", "becomes", "tokens in/out", "ends", "faults"], rows(program, width))
        + "\n"
    )
