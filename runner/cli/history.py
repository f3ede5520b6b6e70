"""`acpbench history`: nightly medians of a metric, as a table and a line of bars, or as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli.output import err, out, out_as_is, table
from runner.cli.state import catalog
from runner.config.base import MAX_COUNT
from runner.errors import UsageError
from runner.records.store import SweepDir
from runner.text.visible import one_line

if TYPE_CHECKING:
    from runner.analysis.history import Series

#: Longest name of an arm.
_ARM = 220
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
    from runner.analysis import history as data

    place = folder or catalog(context).root / FOLDER
    for directory in add or []:
        written = data.append(place, SweepDir.read(directory), lambda problem: err(f"left out: {problem}"))
        err(f"{written}" if written is not None else f"{directory}: in the history already")
    if metric is None:
        if not add:
            raise UsageError("which metric? For example: acpbench history to_result_ms")
        return 0
    found = data.query(place, metric, adapter=adapter, arm=arm)
    for one in found:
        out(f"{one_line(one.arm, _ARM)}  {data.sparkline(one.medians)}")
        _print(one, metric, last)
    if plot is not None:
        data.plot(found, metric, plot)
        out_as_is(str(plot))
    return 0


def _print(one: Series, metric: str, last: int) -> None:
    from runner.analysis import history as data

    steps = {step.index: step for step in data.steps(one.medians)}
    whole = all(value == int(value) for night in one.nights for value in night.found.values)
    digits = 0 if whole or max(one.medians) >= 20 else 2
    rows = []
    first = max(0, len(one.nights) - last)
    for index, night in enumerate(one.nights[first:], start=first):
        figures = night.found
        range_ = f"{figures.median:.{digits}f} [{figures.min:.{digits}f}-{figures.max:.{digits}f}]"
        step = steps.get(index)
        moved = night.machine != one.nights[index - 1].machine if index else False
        notes = [f"step? x {step.ratio:.2f}" if step else "", "another machine" if moved else ""]
        rows.append((night.started_at.strftime("%Y-%m-%d %H:%M"), figures.n, range_, ", ".join(filter(None, notes))))
    out(table(["night (UTC)", "n", f"{metric}, median [min-max]", ""], rows))
    if first:
        early = [
            f"{one.nights[index].started_at:%Y-%m-%d} x {step.ratio:.2f}"
            for index, step in steps.items()
            if index < first
        ]
        stepped = f", step? {', '.join(early)}" if early else ""
        out(f"({first} earlier nights are not listed{stepped}; --last {len(one.nights)} shows all)")
    out("")
