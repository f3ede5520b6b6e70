"""A sweep that is judged: confirmation by fresh runs, and all that a nightly job leaves behind.

A regression is a suspicion until it shows again: the arms concerned are run once more, in blocks of their own, and the
fresh half alone is judged, over the suspected metrics only. That half is a sweep like any other, in `confirm-1` below
the first one's directory. What is exact needs no second look: one differing value is a fact.
"""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runner.analysis import gating, history
from runner.analysis.compare import compare, confirmed, suspects
from runner.analysis.comparison import Compared
from runner.analysis.pairing import pair_within
from runner.config.base import on_disk
from runner.config.catalog import Catalog
from runner.config.gate import Comparison, Gate
from runner.config.loaded_sweep import LoadedSweep
from runner.config.nearest import suggest
from runner.config.plan import Cell, plan
from runner.errors import AcpbenchError, ConfigError, UsageError
from runner.records.store import SweepDir
from runner.report import github, html, junit, to_csv, verdicts
from runner.report import markdown as report_markdown
from runner.report.text import escaped
from runner.sweep.progress import SweepProgress
from runner.sweep.sweep import Options, SweepResult, run_sweep

#: What outranks what when several exit codes are due.
_PRECEDENCE = (64, 1, 2, 0)
Say = Callable[[str], None]


@dataclass(frozen=True)
class Judged:
    """A sweep and its verdicts; `against`: the baseline's, where the sweep names one.

    `problem`: why it could not be held against that; the runs are made then, and all else is told and kept.
    """

    result: SweepResult
    compared: Compared
    against: Compared | None = None
    problem: str | None = None

    @property
    def all(self) -> list[Compared]:
        return [self.compared, *([self.against] if self.against is not None else [])]

    @property
    def exit_code(self) -> int:
        codes = {self.result.exit_code, *(found.exit for found in self.all)}
        if self.problem is not None:
            codes.add(UsageError.exit_code)
        return next(code for code in _PRECEDENCE if code in codes)


def comparison_of(loaded: LoadedSweep) -> Comparison:
    """What a sweep is to be compared by. Raises ConfigError where it does not say."""
    if loaded.sweep.compare is None:
        raise ConfigError(loaded.path, None, "says nothing of what to compare; add 'compare: {base: ..., new: ...}'")
    return loaded.sweep.compare


def run_and_judge(
    loaded: LoadedSweep,
    cells: list[Cell],
    options: Options,
    progress: SweepProgress,
    *,
    repeat: int | None = None,
    strict: bool = False,
) -> Judged:
    """Run a sweep, judge it by its own comparison and confirm what it suspects.

    repeat: replicates of the fresh half, in place of the configuration's. Raises as `run_sweep`, UsageError for a
    comparison that fits no arms or a model that is captured (before any run), ConfigError for a sweep that has none.
    """
    asked = comparison_of(loaded)
    if captured := sorted({cell.model for cell in cells if cell.model.startswith("capture/")}):
        name = captured[0].partition("/")[2]
        raise UsageError(
            f"{captured[0]} writes its cassette once, and fresh runs would have to write it again: capture it by a "
            f"plain sweep, then judge with replay/... or live/{name}"
        )
    catalog = Catalog(loaded.root)
    gate = gating.gate_of(None, asked, catalog)
    against = None if asked.baseline is None else baseline_path(loaded.root, asked.baseline)
    if against is not None:
        gating.check_baseline(against, gate)
    _check_arms(asked, cells)
    result = run_sweep(loaded, cells, options, progress)
    found = gating.within(result.report, asked, gate, strict=strict)
    if suspects(found):
        found = _confirm(loaded, asked, gate, found, result, options, progress, repeat)
    if against is None:
        return Judged(result, found)
    try:
        return Judged(result, found, gating.across(against, result.directory, gate, new_glob=asked.base, strict=strict))
    except UsageError as error:
        return Judged(result, found, problem=f"baseline {asked.baseline}: {error}")


def _check_arms(asked: Comparison, cells: Sequence[Cell]) -> None:
    names = list(dict.fromkeys(cell.arm for cell in cells if not cell.warmup))
    for side, glob in (("base", asked.base), ("new", asked.new)):
        if not fnmatch.filter(names, glob):
            raise UsageError(f"compare.{side} '{glob}' fits no arm{suggest(glob, names)}")


def baseline_path(root: Path, name: str) -> Path:
    """The file of a baseline."""
    return root / "results" / "baselines" / f"{on_disk(name)}.json"


def _confirm(
    loaded: LoadedSweep,
    asked: Comparison,
    gate: Gate,
    first: Compared,
    result: SweepResult,
    options: Options,
    progress: SweepProgress,
    repeat: int | None,
) -> Compared:
    keys = suspects(first)
    names = {name for base, new, _ in keys for name in (base, new)}
    progress.note(f"suspected: {', '.join(f'{metric} of {new}' for _, new, metric in keys)}; running both arms again")
    out = next(path for n in itertools.count(1) if not (path := result.directory / f"confirm-{n}").exists())
    cells = plan(loaded, repeat=repeat, names=names)
    try:
        fresh = run_sweep(loaded, cells, replace(options, out=out, resume=False), progress)
    except AcpbenchError:
        progress.note(f"not confirmed; the first runs are whole, `acpbench compare {result.directory}` judges them")
        raise
    paired = pair_within(fresh.report, asked.base, asked.new)
    sweeps = (fresh.report.sweep, fresh.report.sweep)
    second = compare(sweeps, paired.pairs, gate, strict=first.strict, warnings=paired.warnings, family=keys)
    return confirmed(first, second, _unexpected(result) + _unexpected(fresh))


def _unexpected(result: SweepResult) -> int:
    return sum(arm.unexpected for arm in result.report.arms)


def leave(judged: Judged, history_folder: Path, say: Say) -> None:
    """Write the sweep's reports beside its records, then append the sweep to the history.

    The history comes last: its disk or cache may be damaged, and then the reports are there all the same.

    verdicts.json, verdicts.csv, runs.csv, junit.xml, summary.md, report.html. Raises InfraError where the disk refuses.
    """
    directory = SweepDir.read(judged.result.directory)
    latest = directory.latest(lambda problem: say(f"left out: {problem}"))
    texts = {
        "verdicts.json": verdicts.to_json(judged.compared),
        "verdicts.csv": to_csv.of_comparison(judged.compared),
        "runs.csv": to_csv.of_sweep(directory.path.name, directory.cells, latest),
        "junit.xml": junit.render(
            directory.path.name,
            [
                *junit.cells(directory.cells, latest),
                *(case for found in judged.all for case in junit.verdicts(found)),
            ],
        ),
        "summary.md": summary(judged),
        "report.html": html.render(judged.result.report, judged.all),
    }
    if judged.against is not None:
        texts["baseline.json"] = verdicts.to_json(judged.against)
    for name, text in texts.items():
        directory.write_text(name, text)
    written = history.append(history_folder, directory, lambda problem: say(f"left out: {problem}"))
    say(f"history: {written}" if written is not None else "history: has this sweep already")


def summary(judged: Judged) -> str:
    """Markdown for a job's page: the verdicts first, then what was measured."""
    parts = [*(verdicts.markdown(found) for found in judged.all), report_markdown.render(judged.result.report)]
    if judged.problem is not None:
        parts.insert(0, f"**Not comparable:** {escaped(judged.problem)}\n")
    return "\n".join(parts)


def workflow_commands(judged: Judged) -> str:
    """GitHub's workflow commands for all that went wrong."""
    said = [github.of_report(judged.result.report), *(github.of_comparison(found) for found in judged.all)]
    return "".join([*said, github.problem(judged.problem) if judged.problem is not None else ""])
