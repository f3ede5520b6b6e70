"""The typer app: verbs and their groups, put together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runner import __version__
from runner.cli import (
    adapters,
    bisect,
    compare,
    findings,
    fixture,
    frames,
    history,
    images,
    machine,
    nightly,
    permissions,
    report,
    schema,
    script,
    sweep,
)
from runner.cli.output import out
from runner.cli.state import CliState

app = typer.Typer(
    name="acpbench",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Benchmark coding agents over several surfaces, each run in a fresh container, the model held constant.",
)


def _version(asked: bool) -> None:
    if asked:
        out(f"acpbench {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    root: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder that holds configs/, fixtures/ and images/. [env: ACPBENCH_ROOT]"),
    ] = None,
    version: Annotated[bool, typer.Option("--version", is_eager=True, callback=_version, help="Print it.")] = False,
) -> None:
    """Benchmark coding agents over several surfaces, each run in a fresh container, the model held constant."""
    context.obj = CliState(root)


app.command()(sweep.sweep)
app.command()(report.report)
app.command()(findings.findings)
app.command()(permissions.permissions)
app.command()(compare.compare)
app.command()(compare.baseline)
app.command()(history.history)
app.command()(nightly.nightly)
app.command()(frames.frames)
app.add_typer(images.app, name="images")
app.add_typer(adapters.app, name="adapters")
app.add_typer(fixture.app, name="fixture")
app.add_typer(script.app, name="script")
app.command()(bisect.bisect)
app.command()(machine.doctor)
app.command()(machine.clean)
app.command()(schema.schema)
