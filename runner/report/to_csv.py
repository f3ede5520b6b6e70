"""Comma-separated values: a sweep as one row a run and metric, a comparison as one row a verdict.

Cells are for a spreadsheet or a program. A text that a spreadsheet would run as a formula (it begins with `=`, `+`,
`-`, `@`, a tab, a CR or an LF, and is no number) has a `'` before it, as OWASP says. Tabs and ends of lines stay, the
cell is quoted; other characters that a terminal or an eye would obey are shown (`runner.text.visible`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from runner.analysis.comparison import Compared
from runner.config.plan import Cell
from runner.records.outcome import MISSING
from runner.records.schema import Record
from runner.text.visible import printable

RUN_COLUMNS = (
    "sweep", "arm", "adapter", "surface", "fixture", "policy", "model", "reset", "replicate", "warmup", "attempt",
    "outcome", "expect", "started_at", "metric", "kind", "value",
)  # fmt: skip
VERDICT_COLUMNS = (
    "base_arm", "arm", "metric", "kind", "gated", "verdict", "base", "new", "n_base", "n_new", "ratio", "low", "high",
    "confidence", "shift", "p", "p_adjusted", "required_n", "flags",
)  # fmt: skip
#: What a spreadsheet takes for the beginning of a formula, the wide forms of other keyboards too.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_QUOTED = re.compile(r"[\t\r\n\",]")


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
    """Null is an empty field; truth is `true`; a list is JSON; a text does nothing."""
    if isinstance(value, bool | list | dict):
        return printable(json.dumps(value))
    return _harmless(value) if isinstance(value, str) else value


def shown(text: str) -> str:
    """A cell's text as it is written, tabs and ends of lines as they are."""
    return "".join(part if part in ("\t", "\r") else printable(part) for part in re.split(r"([\t\r])", text))


def _harmless(text: str) -> str:
    cell = shown(text)
    return f"'{cell}" if cell.startswith(_FORMULA) and not _NUMBER.fullmatch(cell) else cell


def _text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    return "".join(",".join(map(_field, row)) + "\n" for row in (columns, *rows))


def _field(value: Any) -> str:
    """Python 3.11's own writer does not quote a bare CR, and what reads it again breaks the line there."""
    text = "" if value is None else repr(value) if isinstance(value, float) else str(value)
    return f'"{text.replace(chr(34), 2 * chr(34))}"' if _QUOTED.search(text) else text
