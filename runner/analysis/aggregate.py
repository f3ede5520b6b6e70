"""Records + plan + lock -> `Report`. Pure; every judgement that a renderer prints is made here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from runner.analysis import flaky
from runner.analysis.report import TIMES_LEFT_OUT, Arm, Exact, Report, Sampled, Warning, same
from runner.analysis.samples import MIN_RUNS, summary
from runner.config.outcome import UNMEASURED
from runner.config.plan import FRESH, Cell
from runner.evidence import cost, metrics
from runner.evidence.work import UNTIMED
from runner.records.outcome import MISSING
from runner.records.schema import Record
from runner.records.store import SweepDir
from runner.wire.numbers import measure

#: A record is a file that anybody may have written: no machine is busier.
_MOST_LOAD = 1e6
#: Models under which counts are exact; under any other they vary of themselves and are sampled.
_REPEATABLE = ("scripted/", "replay/")


def build(sweep: str, lock: Mapping[str, Any], cells: Sequence[Cell], records: Iterable[Record]) -> Report:
    """The report of a sweep.

    The last attempt at a cell counts; earlier ones are named in warnings. A planned cell without a record has the
    outcome `missing`. Warm-ups are in no figure; one that went wrong is a warning. Records of cells that are not
    planned are left out.
    """
    attempts: dict[str, list[Record]] = {}
    for record in records:
        attempts.setdefault(record.cell, []).append(record)
    for tries in attempts.values():
        tries.sort(key=lambda record: record.attempt)
    arms: dict[str, list[Cell]] = {}
    for cell in sorted(cells, key=lambda cell: cell.replicate):
        arms.setdefault(cell.arm, []).append(cell)
    order = _order(cells)
    last = [attempts[cell.name][-1] for cell in cells if cell.name in attempts]
    unsteady = flaky.flaky(last)
    return Report(
        sweep=sweep,
        lock=dict(lock),
        arms=[_arm(arms[name], attempts, lock, unsteady) for name in order],
        load=_load(last),
    )


def of_directory(sweep: SweepDir) -> Report:
    """The report of a sweep's directory. Raises UsageError for what cannot be read, naming the file."""
    lock = sweep.lock
    return build(str(lock.get("sweep", sweep.path.name)), lock, sweep.cells, sweep.records())


def _load(runs: Iterable[Record]) -> Sampled | None:
    """Load of the machine when the runs began; None where no record says."""
    loads = [min(max(run.load, 0.0), _MOST_LOAD) for run in runs if run.load is not None]
    return summary(loads) if loads else None


def _order(cells: Sequence[Cell]) -> list[str]:
    """Arm names, one line a surface: grouped by everything else, in the order of the names."""
    first = {cell.arm: cell for cell in cells if not cell.warmup}
    return sorted(
        first, key=lambda name: (first[name].adapter, first[name].fixture, first[name].policy, first[name].model, name)
    )


def _arm(
    cells: Sequence[Cell],
    attempts: Mapping[str, list[Record]],
    lock: Mapping[str, Any],
    unsteady: Sequence[flaky.Flaky],
) -> Arm:
    planned = [cell for cell in cells if not cell.warmup]
    ended = {cell.name: attempts[cell.name][-1] for cell in planned if cell.name in attempts}
    measured = [
        ended[cell.name] for cell in planned if cell.name in ended and ended[cell.name].outcome not in UNMEASURED
    ]
    outcomes = {cell.name: ended[cell.name].outcome if cell.name in ended else MISSING for cell in planned}
    exact = _exact(measured)
    sampled = {name: summary([run.sampled.get(name) for run in measured]) for name in _sampled_names(measured)}
    head = planned[0]
    if not head.model.startswith(_REPEATABLE):
        for name in [name for name, found in exact.items() if _is_numeric(found)]:
            sampled[name] = summary([measure(value) for value in exact.pop(name).values])
    arm = Arm(
        name=head.arm,
        adapter=head.adapter,
        surface=head.surface,
        fixture=head.fixture,
        policy=head.policy,
        model=head.model,
        reset=head.reset,
        expect=head.expect,
        twin=head.twin,
        n=len(measured),
        outcomes=dict(sorted(Counter(outcomes.values()).items())),
        unexpected=sum(outcomes[cell.name] != cell.expect for cell in planned),
        exact=exact,
        sampled=sampled,
        warnings=[
            *_cell_warnings(cells, attempts),
            # Where the container is kept, the runs of an arm are meant to differ: each starts where the last one ended.
            *(_varying(exact) if head.model.startswith(_REPEATABLE) and head.reset == FRESH else []),
            *_few(len(measured)),
            *_parallel(lock),
            *_flaky(cells, unsteady),
        ],
        workspaces=flaky.tally(ended.values()),
    )
    arm.warnings += _builds(arm, lock)
    return arm


def _exact(runs: Sequence[Record]) -> dict[str, Exact]:
    """Every exact metric, and every key of a flattened map that any run has.

    A key of a flattened map that a run lacks has its map's value for that, unless the run has no such map.
    """
    names = sorted({*metrics.NAMES, *(name for run in runs for name in run.exact)}, key=metrics.rank)
    found: dict[str, Exact] = {}
    for name in names:
        owner = metrics.owner(name)
        values = [
            run.exact.get(name, None if owner is None else metrics.absent(name, run.exact.get(owner))) for run in runs
        ]
        found[name] = Exact.of(values)
    return found


def _sampled_names(runs: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys([*cost.NAMES, *(name for run in runs for name in run.sampled)]))


def _is_numeric(exact: Exact) -> bool:
    return any(measure(value) is not None for value in exact.values)


#: Things found at a start that a warning names.
_NAMED = 2


def _cell_warnings(cells: Sequence[Cell], attempts: Mapping[str, list[Record]]) -> list[Warning]:
    """What happened to single cells: missing, unexpected, tried again, a warm-up that went wrong, cut evidence, times
    that say nothing, and a start that was not clean, whatever the reset."""
    warnings: list[Warning] = []
    for cell in cells:
        tries = attempts.get(cell.name, [])
        if not tries:
            if not cell.warmup:
                warnings.append(Warning(id="missing-cell", message=f"{cell.name}: never ran", cell=cell.name))
            continue
        last = tries[-1]
        warnings += [
            Warning(
                id="earlier-attempt",
                message=f"{cell.name}: attempt {run.attempt} ended {_ending(run)}; attempt {last.attempt} counts",
                cell=cell.name,
            )
            for run in tries[:-1]
        ]
        if last.outcome != cell.expect:
            what = "warm-up ended" if cell.warmup else "ended"
            warnings.append(
                Warning(
                    id="unexpected-warm-up" if cell.warmup else "unexpected-outcome",
                    message=f"{cell.name}: {what} {_ending(last)}, expected {cell.expect}",
                    cell=cell.name,
                )
            )
        cut = {name: amount for name, amount in last.cut.items() if amount}
        if cut and not cell.warmup:
            amounts = ", ".join(f"{amount} {name}" for name, amount in sorted(cut.items()))
            warnings.append(Warning(id="cut", message=f"{cell.name}: the log was cut: {amounts}", cell=cell.name))
        untimed = next((finding for finding in last.findings if finding.id in UNTIMED), None)
        if untimed is not None and not cell.warmup:
            message = f"{cell.name}: its times are left out: {untimed.id}, {untimed.message}"
            warnings.append(Warning(id=TIMES_LEFT_OUT, message=message, cell=cell.name))
        if last.pristine is False:
            left = [f"{thing.kind} {thing.path}" for thing in last.found_at_start]
            named = ", ".join(left[:_NAMED]) + (f" and {len(left) - _NAMED} more" if len(left) > _NAMED else "")
            message = f"{cell.name}: began with something of an earlier run: {named}"
            warnings.append(Warning(id="not-pristine", message=message, cell=cell.name))
    return warnings


def _ending(run: Record) -> str:
    return f"{run.outcome} ({run.reason})" if run.reason else run.outcome


def _varying(exact: Mapping[str, Exact]) -> list[Warning]:
    return [
        Warning(
            id="nondeterministic",
            message=f"{name} differs between the runs of this arm: {', '.join(str(value) for value in found.values)}",
            metric=name,
        )
        for name, found in exact.items()
        if not metrics.is_information(name) and any(not same(value, found.values[0]) for value in found.values)
    ]


def _flaky(cells: Sequence[Cell], unsteady: Sequence[flaky.Flaky]) -> list[Warning]:
    """Said on every arm that has a part in it: neither pass nor fail is the agent's there."""
    names = {cell.name for cell in cells}
    return [Warning(id=flaky.ID, message=workspace.message) for workspace in unsteady if workspace.cells & names]


def _few(n: int) -> list[Warning]:
    if n >= MIN_RUNS:
        return []
    return [
        Warning(
            id="insufficient",
            message=f"no winner can be named from n={n}: an exact two-sided rank test between two arms "
            f"reaches 5 % from n={MIN_RUNS} each",
        )
    ]


def _parallel(lock: Mapping[str, Any]) -> list[Warning]:
    jobs = lock.get("jobs", 1)
    if jobs == 1:
        return []
    return [Warning(id="parallel-runs", message=f"times were taken with {jobs} runs at a time on one machine")]


def _builds(arm: Arm, lock: Mapping[str, Any]) -> list[Warning]:
    """Said on the arms of a CLI: is it the build that ACP drives?"""
    binaries = lock.get("adapters", {}).get(arm.adapter, {}).get("binaries", {})
    acp, cli = (binaries.get(transport, {}).get("sha256") for transport in ("acp", "cli"))
    if arm.acp or arm.n == 0 or acp is None or cli is None or acp == cli:
        return []
    message = (
        f"{arm.adapter}: ACP and CLI are not the same build (sha256 {acp[:12]} behind ACP, {cli[:12]} behind the CLI)"
    )
    return [Warning(id="different-builds", message=message)]
