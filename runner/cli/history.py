"""`acpbench history`: nightly medians of a metric, as a table and a line of bars, or as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runner.cli.output import err, out, out_as_is
from runner.cli.state import catalog
from runner.config.base import MAX_COUNT
from runner.errors import UsageError
from runner.records.store import SweepDir

#: Below the root.
FOLDER = Path("results") / "history"


def history(
    context: typer.Context,
    metric: Annotated[str | None, typer.Argument(metavar="[METRIC]", help="For example to_result_ms.")] = None,
    adapter: Annotated[str | None, typer.Option(metavar="GLOB", help="Only adapters of that id.")] = None,
    arm: Annotated[str, typer.Option(metavar="GLOB", help="Only arms of that name.")] = "*",
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="A picture: .png, .svg, .pdf.")] = None,
    add: Annotated[list[Path] | None, typer.Option(metavar="DIR", help="First add this sweep's runs.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--history", metavar="DIR", help="The data set; default results/history.")
    ] = None,
    last: Annotated[
        int, typer.Option(min=1, max=MAX_COUNT, metavar="N", help="Nights that are listed; all count for steps.")
    ] = 14,
) -> int:
    """Print nightly medians with their ranges, and where their level seems to have changed (a hint, never a gate)."""
    from runner.analysis.history import append, query
    from runner.report import history as report

    place = folder or catalog(context).root / FOLDER
    for directory in add or []:
        written = append(place, SweepDir.read(directory), lambda problem: err(f"left out: {problem}"))
        err(f"{written}" if written is not None else f"{directory}: in the history already")
    if metric is None:
        if not add:
            raise UsageError("which metric? For example: acpbench history to_result_ms")
        return 0
    series_of_arms = query(place, metric, adapter=adapter, arm=arm)
    for series in series_of_arms:
        out(report.nights(series, metric, last))
    if plot is not None:
        report.plot(series_of_arms, metric, plot)
        out_as_is(str(plot))
    return 0
