"""A baseline: a sweep's report, frozen with its date, pins and machine, to be checked in.

Its exact metrics can be held against a later sweep (its times cannot: they are of another minute, if not of another
machine). One that is too old is refused, so that nobody compares with a past that no longer matters.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, TypeAdapter, ValidationError

from runner.analysis.report import SCHEMA_VERSION as REPORT_VERSION
from runner.analysis.report import Report, ReportPart
from runner.config.base import Id
from runner.errors import UsageError
from runner.records.lock import check_lock
from runner.text.encoding import repaired, validated
from runner.text.files import read_regular, unreadable

SCHEMA_VERSION = 1
#: Parts of a lock that say where a sweep ran.
_MACHINE = ("engine", "kernel")


def _instant(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("a date without its offset from UTC")
    return text


class Baseline(ReportPart):
    """One file under results/baselines. The pins are the report's own lock."""

    schema_version: int = SCHEMA_VERSION
    name: str
    #: When the sweep began, UTC, ISO 8601.
    date: Annotated[str, AfterValidator(_instant)]
    machine: dict[str, Any]
    report: Report


def freeze(name: str, report: Report, date: datetime) -> Baseline:
    """Raises UsageError where a cell did not end as expected, since nothing is measured against a failure, and for a
    name that no sweep could ask for.
    """
    try:
        TypeAdapter(Id).validate_python(name)
    except ValidationError:
        problem = "letters, digits and . _ + @ - only, a letter or digit first"
        raise UsageError(f"'{name}' is no name for a baseline: {problem}") from None
    if not report.as_expected:
        raise UsageError(f"{report.sweep}: not every cell ended as expected; a baseline is made of a whole sweep")
    machine = {part: report.lock.get(part) for part in _MACHINE}
    return Baseline(name=name, date=date.astimezone(UTC).isoformat(timespec="seconds"), machine=machine, report=report)


def render(baseline: Baseline) -> str:
    """One JSON object; ends with a line feed."""
    value = repaired(baseline.model_dump())
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def load(path: Path) -> Baseline:
    """Raises UsageError, naming the file, for what is not a baseline."""
    try:
        baseline = validated(Baseline, read_regular(path, links=True))
    except FileNotFoundError:
        raise UsageError(f"{path}: no such baseline; `acpbench baseline DIR NAME` makes one") from None
    except OSError as error:
        raise unreadable(path, error) from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        told = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
        raise UsageError(f"{path}: not a baseline: {told}") from None
    for version, known in (
        (baseline.schema_version, SCHEMA_VERSION),
        (baseline.report.schema_version, REPORT_VERSION),
    ):
        if version != known:
            told = f"has schema version {version}; this acpbench reads {known}"
            raise UsageError(
                f"{path}: {told}: make it anew with `acpbench baseline`, or use the acpbench that wrote it"
            )
    check_lock(baseline.report.lock, path)
    return baseline


def check_fresh(baseline: Baseline, days: int, now: datetime) -> None:
    """Raises UsageError for a baseline older than `days`."""
    age = now - datetime.fromisoformat(baseline.date)
    if age > timedelta(days=days):
        raise UsageError(
            f"baseline {baseline.name}: {age.days} days old, the gate takes {days} at most; make a new one with "
            "`acpbench baseline`"
        )
