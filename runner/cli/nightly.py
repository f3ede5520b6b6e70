"""`acpbench nightly`: candidate and reference in one sweep, judged, confirmed, kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from runner.cli.history import FOLDER
from runner.cli.output import err, out, out_as_is
from runner.cli.state import catalog
from runner.cli.sweep import results_of
from runner.config.loaded_sweep import load_sweep
from runner.config.plan import plan
from runner.config.sweep import MAX_REPEAT
from runner.errors import UsageError
from runner.records.store import default_directory
from runner.redaction.redact import spoken


def nightly(
    context: typer.Context,
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="A sweep's YAML file that says what to compare.")],
    directory: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Where records go; default results/<sweep>-<UTC time>-<random>."),
    ] = None,
    repeat: Annotated[
        int | None, typer.Option(min=1, max=MAX_REPEAT, help="Replicates of every arm, in place of the config's.")
    ] = None,
    history: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The history to append to; default results/history.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Too few runs to tell fails, too.")] = False,
) -> int:
    """Run a sweep, judge it, confirm what it suspects by fresh runs, append the history, write the reports.

    Exit codes: 0 nothing gated moved, 1 a cell missing or not as expected, 2 a gated metric regressed (twice), changed
    or is not deterministic, 64 usage error or not comparable, 69 no engine, 130 interrupted.
    """
    found = catalog(context)
    loaded = load_sweep(config, found)

    from runner.report import verdicts
    from runner.sweep.nightly import leave, run_and_judge, summary, workflow_commands
    from runner.sweep.progress import progress_for
    from runner.sweep.sweep import Options

    target = directory or default_directory(results_of(found.root), loaded.sweep.id)
    options = Options(out=target, jobs=loaded.sweep.jobs)
    cells = plan(loaded, repeat=repeat)
    judged = run_and_judge(loaded, cells, options, progress_for(), repeat=repeat, strict=strict)
    for comparison in judged.all:
        out(verdicts.render(comparison))
    leave(judged, history or found.root / FOLDER, err)
    if os.environ.get("GITHUB_STEP_SUMMARY"):
        _append(Path(os.environ["GITHUB_STEP_SUMMARY"]), summary(judged))
    if os.environ.get("GITHUB_ACTIONS") == "true":
        out_as_is(workflow_commands(judged).removesuffix("\n"))
    if judged.problem is not None:
        err(judged.problem)
    out_as_is(str(judged.result.directory))
    return judged.exit_code


def _append(file: Path, text: str) -> None:
    try:
        with file.open("a", encoding="utf-8") as page:
            page.write(spoken(text))
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror}") from None
