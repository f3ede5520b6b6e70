"""From directories to verdicts: what `compare`, `sweep --confirm` and `nightly` share."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from runner.analysis import baseline
from runner.analysis.aggregate import of_directory
from runner.analysis.compare import compare
from runner.analysis.comparison import Compared
from runner.analysis.pairing import pair_across, pair_within
from runner.analysis.report import Report
from runner.config.catalog import Catalog
from runner.config.gate import Comparison, Gate
from runner.config.loader import LoadedFile, load
from runner.config.nearest import suggest
from runner.config.sweep import Sweep
from runner.errors import UsageError
from runner.evidence import cost, metrics
from runner.records.store import SweepDir


def gate_of(given: str | None, asked: Comparison | None, catalog: Catalog | None) -> Gate:
    """The gate to judge by: an id of configs/gates or a file, else what the sweep asks for, else the built-in one.

    Raises ConfigError for a file that is no gate or gates a time that nothing measures, UsageError for an unknown id.
    """
    name = given or (asked.gate if asked is not None else None)
    if name is None:
        return Gate()
    if given is not None and (Path(given).is_file() or given.endswith((".yaml", ".yml"))):
        return _measurable(load(Path(given), Gate))
    if catalog is None:
        raise UsageError(f"gate '{name}': there is no configs/gates here; change into a checkout or give its file")
    return _measurable(catalog.loaded_gate(name))


def _measurable(loaded: LoadedFile[Gate]) -> Gate:
    """A metric that is misspelt would gate nothing, and every night would be green."""
    for index, rule in enumerate(loaded.value.sampled):
        if not metrics.may_be_sampled(rule.metric):
            problem = f"no run has a metric '{rule.metric}'{suggest(rule.metric, cost.ALL)}"
            raise loaded.error(("sampled", index, "metric"), problem)
    return loaded.value


def asked_of(directory: Path) -> Comparison | None:
    """What the sweep of a directory is to be compared by, as its own configuration said. Raises ConfigError."""
    return load(directory / "sweep.yaml", Sweep).value.compare


def within(report: Report, asked: Comparison, gate: Gate, *, strict: bool = False) -> Compared:
    """Arms of one sweep. Raises UsageError where the globs fit no pairs."""
    paired = pair_within(report, asked.base, asked.new)
    return compare(
        (report.sweep, report.sweep),
        paired.pairs,
        gate,
        strict=strict,
        warnings=paired.warnings,
        missing=paired.missing,
    )


def across(
    base: Path, new: Path, gate: Gate, *, base_glob: str = "*", new_glob: str = "*", strict: bool = False
) -> Compared:
    """Two directories, or a baseline's file and a directory: exact metrics only.

    Raises UsageError for what cannot be read or paired, and for a baseline that is older than the gate takes.
    """
    paired = pair_across(_report(base, gate), _report(new, gate), base_glob, new_glob)
    return compare(
        (base.stem if base.is_file() else base.name, new.name),
        paired.pairs,
        gate,
        strict=strict,
        warnings=paired.warnings,
        missing=paired.missing,
    )


def check_baseline(path: Path, gate: Gate) -> Report:
    """The report in a baseline. Raises UsageError for what is none, and for one older than the gate takes."""
    found = baseline.load(path)
    baseline.check_fresh(found, gate.baseline_days, datetime.now(UTC))
    return found.report


def _report(path: Path, gate: Gate) -> Report:
    return check_baseline(path, gate) if path.is_file() else of_directory(SweepDir.read(path))
