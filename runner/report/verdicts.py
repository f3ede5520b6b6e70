"""Verdicts for a reader: the same table and sentences for the terminal and for Markdown. No judgement is made here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from tabulate import tabulate

from runner.analysis.comparison import Compared, MetricVerdict
from runner.report.tables import NONE
from runner.report.text import clipped, escaped, printable, shortened, wrapped
from runner.text.visible import SENTENCE, json_text, one_line

WIDTH = 120
#: Of what changed by value, and of what was tested.
EXACT = ("metric", "verdict", "base", "new", "n")
SAMPLED = ("metric", "verdict", "base", "new", "ratio", "shift", "p", "n")
#: Longest text of a value in a table.
_LONG = 24
#: Longest name of a metric in a table, of an arm above it; most rows of a table. JSON has all.
_NAME, _ARM, _ROWS = 72, 220, 200
#: (headers, rows).
Table = tuple[tuple[str, ...], list[list[str]]]


def render(found: Compared, width: int = WIDTH) -> str:
    """Plain text for a terminal: a pair's tables, then the notes; ends with a line feed."""
    parts = [headline(found)]
    for base, new, pair in tables(found):
        parts.append(f"base {base}\nnew  {new}")
        parts += [_table(headers, [list(map(one_line, row)) for row in rows], "simple") for headers, rows in pair]
    parts.append("\n".join(wrapped(note, width) for note in notes(found)))
    return printable("\n\n".join(part for part in parts if part)) + "\n"


def markdown(found: Compared) -> str:
    """The same for a job's page; ends with a line feed."""
    parts = [f"## {escaped(headline(found))}"]
    for base, new, pair in tables(found):
        parts.append(f"**base** {escaped(base)}<br>**new** {escaped(new)}")
        parts += [_table(headers, [[escaped(text) for text in row] for row in rows], "pipe") for headers, rows in pair]
    parts.append("\n".join(f"- {escaped(note)}" for note in notes(found)))
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(headers: tuple[str, ...], rows: list[list[str]], form: str) -> str:
    align = ["left", "left", *["right"] * (len(headers) - 2)]
    return tabulate(rows, headers=headers, tablefmt=form, disable_numparse=True, colalign=align)


def headline(found: Compared) -> str:
    """The whole in one line: what failed, or that nothing did."""
    over = found.sweeps[0] if found.sweeps[0] == found.sweeps[1] else f"{found.sweeps[0]} -> {found.sweeps[1]}"
    failing = [verdict for verdict in found.verdicts if verdict.fails]
    words = dict.fromkeys(verdict.verdict for verdict in failing)
    moved = [f"{word}: {_listed(v.metric for v in failing if v.verdict == word)}" for word in words]
    if found.exit == 64:
        said = "not comparable"
    elif found.exit == 1:
        said = "; ".join(["planned runs are missing or did not end as expected", *moved])
    elif moved:
        said = "; ".join(moved)
    elif any(verdict.gated and verdict.verdict == "insufficient" for verdict in found.verdicts):
        said = "too few runs to tell"
    else:
        said = "nothing gated moved"
    return one_line(f"{over}: {said}", 5 * SENTENCE)


def _listed(names: Iterable[str]) -> str:
    """Metrics by name; several of one map as `map.* (how many)`, since the tables name each."""
    maps: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        prefix, dot, _ = name.partition(".")
        maps.setdefault(prefix + dot, []).append(name)
    return clipped([own[0] if len(own) == 1 else f"{prefix}* ({len(own)})" for prefix, own in maps.items()])


def notes(found: Compared) -> list[str]:
    """The sentences under the tables, each once."""
    said = [f"{warning.id}: {warning.message}." for warning in found.warnings]
    equal = [verdict for verdict in found.verdicts if verdict.verdict == "same-exact"]
    exact = [verdict for verdict in found.verdicts if verdict.kind == "exact" and verdict.verdict != "unlike"]
    if exact:
        count = len({(verdict.base_arm, verdict.arm) for verdict in found.verdicts})
        over = f" over {count} pairs of arms" if count > 1 else ""
        said.insert(0, f"{len(equal)} of {len(exact)} exact metrics{over} are the same, by value; they are not listed.")
    tested = [verdict for verdict in found.verdicts if verdict.p_adjusted is not None]
    if tested:
        gate = found.gate
        said.append(
            f"* is gated (gate {gate.id}): p after Holm over {found.family} gated metrics, alpha {gate.alpha:g}; "
            "the others are adjusted among themselves and inform. Ratio and shift (new to base) are Hodges-Lehmann "
            "estimates."
        )
        if any(flag in verdict.flags for verdict in tested for flag in ("confirmed", "not-confirmed")):
            said.append("What is confirmed, or not, is of the fresh runs alone, all its figures too.")
        confidences = {verdict.confidence for verdict in tested if verdict.confidence}
        said += [f"An interval of a ratio is exact, at {100 * confidence:.3g} %." for confidence in sorted(confidences)]
    return list(dict.fromkeys(said))


def to_json(found: Compared) -> str:
    """One JSON object, two spaces of indent; ends with a line feed."""
    return json_text(json.dumps(found.model_dump(mode="json"), indent=2, ensure_ascii=False, allow_nan=False)) + "\n"


def value_text(value: Any, digits: int = 0) -> str:
    """A value of a verdict: `820`, `9/10/9` where runs vary, `-` where there is none."""
    if value is None:
        return NONE
    if isinstance(value, list):
        text = "/".join(dict.fromkeys(value_text(part) for part in value))
        return text if len(text) <= _LONG else f"{text[: _LONG - 3]}..."
    if isinstance(value, float):
        return f"{value:,.{digits}f}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def tables(found: Compared) -> list[tuple[str, str, list[Table]]]:
    """(base arm, new arm, its tables) of every pair of which there is something to say.

    That is all that was tested, and what is not the same; times that were never compared are not.
    """
    pairs: dict[tuple[str, str], list[MetricVerdict]] = {}
    for verdict in found.verdicts:
        if verdict.verdict not in ("same-exact", "unlike"):
            pairs.setdefault((verdict.base_arm, verdict.arm), []).append(verdict)
    return [(shortened(base, _ARM), shortened(new, _ARM), list(_tables(said))) for (base, new), said in pairs.items()]


def _tables(verdicts: list[MetricVerdict]) -> Iterator[Table]:
    """An agent names tools, commands and files as it likes, and as many: what is beyond a page is counted."""
    exact = [_exact(verdict) for verdict in verdicts if verdict.kind == "exact"]
    sampled = [_sampled(verdict) for verdict in verdicts if verdict.kind == "sampled"]
    if exact:
        yield EXACT, _first(exact)
    if sampled:
        yield SAMPLED, _first(sampled)


def _first(rows: list[list[str]]) -> list[list[str]]:
    if len(rows) <= _ROWS:
        return rows
    return [*rows[:_ROWS], [f"({len(rows) - _ROWS} more rows: --format json has all)", *[""] * (len(rows[0]) - 1)]]


def _exact(verdict: MetricVerdict) -> list[str]:
    values = [value_text(value) for value in (verdict.base, verdict.new)]
    return [*_head(verdict), *(shortened(value, _LONG) for value in values), _sizes(verdict)]


def _sampled(verdict: MetricVerdict) -> list[str]:
    digits = _digits(verdict)
    ratio = NONE
    if verdict.ratio is not None and verdict.interval is not None:
        ratio = f"{verdict.ratio:.3f}"
        if verdict.confidence:  # one pair of runs makes none
            ratio += f" [{verdict.interval[0]:.3f}-{verdict.interval[1]:.3f}]"
    return [
        *_head(verdict),
        value_text(verdict.base, digits),
        value_text(verdict.new, digits),
        ratio,
        NONE if verdict.shift is None else f"{verdict.shift:+,.{digits}f}",
        NONE if verdict.p_adjusted is None else f"{verdict.p_adjusted:.2g}",
        _sizes(verdict),
    ]


def _head(verdict: MetricVerdict) -> list[str]:
    name = shortened(verdict.metric, _NAME)
    return [
        f"{name}{'*' if verdict.gated else ''}",
        " ".join([verdict.verdict, *(f"({flag})" for flag in verdict.flags)]),
    ]


def _sizes(verdict: MetricVerdict) -> str:
    return f"{verdict.n[0]}/{verdict.n[1]}"


def _digits(verdict: MetricVerdict) -> int:
    """Digits after the point that tell 1 % of the base from nothing."""
    if not isinstance(verdict.base, float):
        return 0
    return 0 if abs(verdict.base) >= 50 else 1 if abs(verdict.base) >= 5 else 2
