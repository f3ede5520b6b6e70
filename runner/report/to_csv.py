"""Comma-separated values: a sweep as one row a run and metric, a comparison as one row a verdict."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from runner.compare import Compared
from runner.outcome import MISSING
from runner.plan import Cell
from runner.records.schema import Record

RUN_COLUMNS = (
    "sweep", "arm", "adapter", "surface", "fixture", "policy", "model", "reset", "replicate", "warmup", "attempt",
    "outcome", "expect", "started_at", "metric", "kind", "value",
)  # fmt: skip
VERDICT_COLUMNS = (
    "base_arm", "arm", "metric", "kind", "gated", "verdict", "base", "new", "n_base", "n_new", "ratio", "low", "high",
    "confidence", "shift", "p", "p_adjusted", "required_n", "flags",
)  # fmt: skip


def of_sweep(sweep: str, planned: Iterable[Cell], latest: Mapping[str, Record]) -> str:
    """Every metric of the last attempt at every cell, warm-ups too (they are marked); a missing cell has one row."""
    return _text(RUN_COLUMNS, (row for cell in planned for row in _run(sweep, cell, latest.get(cell.name))))


def of_comparison(found: Compared) -> str:
    """Every verdict."""
    rows = []
    for verdict in found.verdicts:
        row: dict[str, Any] = verdict.model_dump()
        low, high = verdict.interval or (None, None)
        row |= {
            "n_base": verdict.n[0],
            "n_new": verdict.n[1],
            "low": low,
            "high": high,
            "flags": " ".join(verdict.flags),
        }
        rows.append([_value(row[name]) for name in VERDICT_COLUMNS])
    return _text(VERDICT_COLUMNS, rows)


def _run(sweep: str, cell: Cell, record: Record | None) -> Iterator[Sequence[Any]]:
    head: dict[str, Any] = {**cell.model_dump(), "sweep": sweep, "outcome": MISSING}
    if record is not None:
        head |= {name: getattr(record, name) for name in ("attempt", "outcome", "started_at")}
    figures: list[tuple[str, str, Any]] = [("", "", None)]
    if record is not None:
        figures = [(name, "exact", value) for name, value in record.exact.items()]
        figures += [(name, "sampled", value) for name, value in record.sampled.items()]
    for metric, kind, value in figures:
        row = {**head, "metric": metric, "kind": kind, "value": value}
        yield [_value(row.get(name)) for name in RUN_COLUMNS]


def _value(value: Any) -> Any:
    """Null is an empty field; truth is `true`; a list is JSON."""
    if isinstance(value, bool | list | dict):
        return json.dumps(value)
    return value


def _text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return file.getvalue()
