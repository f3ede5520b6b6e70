"""`acpbench sweep`: plan, run, report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli.output import err, out, out_as_is, table
from runner.cli.state import catalog
from runner.config.loaded_sweep import LoadedSweep, load_sweep
from runner.config.plan import Cell, check_planned, plan
from runner.config.sweep import MAX_JOBS, MAX_REPEAT
from runner.errors import UsageError
from runner.records.store import SweepDir, default_directory

if TYPE_CHECKING:
    from runner.sweep.sweep import Options


def sweep(
    context: typer.Context,
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The sweep's YAML file.")],
    directory: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Where records go; default results/<sweep>-<UTC time>-<random>."),
    ] = None,
    adapter: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Run this adapter in place of the config's; may be given several times."),
    ] = None,
    repeat: Annotated[
        int | None, typer.Option(min=1, max=MAX_REPEAT, help="Replicates of every arm, in place of the config's.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, max=MAX_JOBS, help="Runs at a time, in place of the config's.")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(metavar="GLOB", help="Only cells, arms or parts of an arm (cli, claude-*) of that name."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the sweep in --out.")] = False,
    confirm: Annotated[
        bool,
        typer.Option("--confirm", help="Judge by the config's 'compare'; run again the arms that seem to regress."),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print the plan and run nothing; pins, scripts and tapes are checked."),
    ] = False,
) -> int:
    """Run a sweep; the last line printed is the path of its directory.

    Exit codes: 0 every cell as expected, 1 one was not, 2 (--confirm) a gated metric regressed or changed, 64 usage or
    config error, 69 no engine, 130 interrupted.
    """
    found = catalog(context)
    loaded = load_sweep(config, found, adapter or ())
    cells = _planned(loaded, directory, repeat, only) if resume else plan(loaded, repeat=repeat, only=only)
    if dry_run:
        from runner.sweep.preflight import preflight

        preflight(loaded, cells)
        _print_plan(cells, loaded)
        _print_limits(loaded)
        return 0

    from runner.report import table as report_table
    from runner.sweep.progress import progress_for
    from runner.sweep.sweep import Options, run_sweep

    target = directory or default_directory(results_of(found.root), loaded.sweep.id)
    options = Options(out=target, jobs=jobs or loaded.sweep.jobs, resume=resume)
    if confirm:
        return _judged(loaded, cells, options, repeat)
    result = run_sweep(loaded, cells, options, progress_for())
    out(report_table.render(result.report))
    out_as_is(str(result.directory))
    return result.exit_code


def _judged(loaded: LoadedSweep, cells: list[Cell], options: Options, repeat: int | None) -> int:
    from runner.report import table as report_table
    from runner.report import verdicts
    from runner.sweep.nightly import run_and_judge
    from runner.sweep.progress import progress_for

    judged = run_and_judge(loaded, cells, options, progress_for(), repeat=repeat)
    out(report_table.render(judged.result.report))
    for found in judged.all:
        out(verdicts.render(found))
    if judged.problem is not None:
        err(judged.problem)
    out_as_is(str(judged.result.directory))
    return judged.exit_code


def _planned(loaded: LoadedSweep, directory: Path | None, repeat: int | None, only: str | None) -> list[Cell]:
    """The plan of the sweep that is resumed: its own, whatever the options were then."""
    if directory is None:
        raise UsageError("--resume goes on with a sweep that was begun: say which with --out DIR")
    if repeat is not None or only is not None:
        raise UsageError("--resume goes on with the plan of --out DIR: leave out --repeat and --only")
    cells = list(SweepDir.read(directory).cells)
    check_planned(loaded, cells, directory / "plan.jsonl")
    return cells


def results_of(root: Path) -> Path:
    """results/ of the checkout we are in; run from elsewhere, of the current directory."""
    here = Path.cwd()
    if here == root or not here.is_relative_to(root):
        return Path("results")
    return root / "results"


def _print_plan(cells: list[Cell], loaded: LoadedSweep) -> None:
    rows = [(cell.order, "warm-up" if cell.warmup else cell.block, cell.name, cell.expect) for cell in cells]
    out(table(["order", "block", "cell", "expect"], rows))
    arms = {cell.arm for cell in cells if not cell.warmup}
    warmups = sum(cell.warmup for cell in cells)
    out(f"\n{len(cells) - warmups} runs in {len(arms)} arms, after {warmups} warm-up(s)")
    for reasons in loaded.left_out().values():
        out("\n".join(f"left out of the plan: {why}" for why in reasons))


def _print_limits(loaded: LoadedSweep) -> None:
    """What runs may use: an agent what its adapter says, its verifier what the fixture says."""
    rows: list[tuple[object, ...]] = []
    for name, adapter in loaded.adapters.items():
        own = adapter.limits
        rows.append((f"agent {name}", own.memory_mb, own.cpus, own.pids, own.disk_mb, None))
    for name, fixture in loaded.fixtures.items():
        limits, seconds = fixture.verify.limits, f"{fixture.verify.timeout_s:g}"
        rows.append((f"verifier of {name}", limits.memory_mb, limits.cpus, limits.pids, limits.disk_mb, seconds))
    out("\n" + table(["limits", "memory MB", "cpus", "processes", "disk MB", "seconds"], rows))
