"""`acpbench compare` and `acpbench baseline`: what changed, and does it fail a build?"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from runner.cli.options import Directory, Output
from runner.cli.output import out_as_is, out_or_file
from runner.cli.report import report_of
from runner.cli.state import catalog
from runner.config.base import on_disk
from runner.config.gate import Comparison, Gate
from runner.errors import UsageError
from runner.records.store import SweepDir


class Format(StrEnum):
    TABLE = "table"
    MARKDOWN = "markdown"
    JSON = "json"
    JUNIT = "junit"
    CSV = "csv"
    ANNOTATIONS = "annotations"


def compare(
    context: typer.Context,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A sweep's directory, or a baseline's file.")],
    other: Annotated[
        Path | None, typer.Argument(metavar="[DIR2]", help="Another one, held against DIR: exact metrics only.")
    ] = None,
    base: Annotated[
        str | None, typer.Option(metavar="ARM", help="Glob over arm names; default the sweep's own.")
    ] = None,
    new: Annotated[
        str | None, typer.Option(metavar="ARM", help="Glob over arm names; default the sweep's own.")
    ] = None,
    gate: Annotated[
        str | None, typer.Option(metavar="GATE", help="A file, or an id of configs/gates; default the sweep's own.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Too few runs to tell fails, too.")] = False,
    form: Annotated[Format, typer.Option("--format", help="How it is written.")] = Format.TABLE,
    file: Output = None,
) -> int:
    """Hold arms against each other.

    Exit codes: 0 nothing gated moved, 1 a cell missing or not as expected, 2 a gated metric regressed, changed or is
    not deterministic, 64 usage error or not comparable.
    """
    from runner.analysis import gating
    from runner.report import github, junit, to_csv, verdicts

    if other is not None:
        found = gating.across(
            directory, other, _gate(context, gate, None), base_glob=base or "*", new_glob=new or "*", strict=strict
        )
    else:
        sweep = SweepDir.read(directory)
        asked = gating.asked_of(directory) if base is None or new is None or gate is None else None
        if (base is None or new is None) and asked is None:
            raise UsageError(f"{directory}: its configuration compares nothing: say what with --base ARM --new ARM")
        chosen = Comparison(base=base or (asked.base if asked else ""), new=new or (asked.new if asked else ""))
        found = gating.within(report_of(sweep.path), chosen, _gate(context, gate, asked), strict=strict)
    renderers = {
        Format.TABLE: verdicts.render,
        Format.MARKDOWN: verdicts.markdown,
        Format.JSON: verdicts.to_json,
        Format.JUNIT: lambda one: junit.render(verdicts.headline(one), junit.verdicts(one)),
        Format.CSV: to_csv.of_comparison,
        Format.ANNOTATIONS: github.of_comparison,
    }
    out_or_file(renderers[form](found), file)
    return found.exit


def _gate(context: typer.Context, given: str | None, asked: Comparison | None) -> Gate:
    from runner.analysis import gating

    needs_root = (given is not None and not Path(given).is_file()) or (asked is not None and asked.gate is not None)
    return gating.gate_of(given, asked, catalog(context) if needs_root else None)


def baseline(
    context: typer.Context,
    directory: Directory,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Written to results/baselines/NAME.json.")],
) -> int:
    """Freeze a sweep's report as a baseline, with its date, pins and machine, to be checked in."""
    from runner.analysis.baseline import freeze, render

    sweep = SweepDir.read(directory)
    started = min((record.started_at for record in sweep.records()), default=None)
    if started is None:
        raise UsageError(f"{directory}: holds no finished run")
    text = render(freeze(name, report_of(directory), datetime.fromisoformat(started)))
    path = catalog(context).root / "results" / "baselines" / f"{on_disk(name)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    out_or_file(text, path)
    out_as_is(str(path))
    return 0
