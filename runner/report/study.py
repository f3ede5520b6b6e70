"""Findings for a terminal, as Markdown, as JSON. No judgement is made here."""

from __future__ import annotations

import json
import shlex
import textwrap
from collections import Counter
from collections.abc import Mapping
from typing import get_args

from tabulate import tabulate

from runner.report.text import escaped as _escaped
from runner.report.text import printable, shortened, wrapped
from runner.study.claims import CLAIMS
from runner.study.model import ClaimFinding, Judgement, Reference, StudyFindings, Table
from runner.study.verdicts import few, plural
from runner.text.visible import SENTENCE, json_text, one_line

WIDTH = 120
#: References printed per finding; JSON has all.
SHOWN = 2
#: Runs named per reason for which they are in no figure.
_NAMED = 3
_HEADERS = ("", "claim", "published", "measured", "n", "verdict")
#: What stands between two columns, and the columns that are as wide as their longest word.
_GAP, _ROW, _N, _VERDICT = 2, 2, 3, 17
#: No column is wrapped closer than that.
_NARROW = 16
#: Longest text of a cell, characters; most rows of a table. JSON has all.
_LONG, _ROWS = 1200, 200


def table(found: StudyFindings, width: int = WIDTH) -> str:
    """Plain text, at most `width` columns wide; ends with a line feed."""
    parts = [textwrap.fill(one_line(f"{found.sweep}: {_summary(found)}", SENTENCE), width)]
    free = max(60, width - _ROW - _N - _VERDICT - _GAP * 5)
    claim, published = free * 28 // 100, free * 23 // 100
    widths = [_ROW, claim, published, free - claim - published, _N, _VERDICT]
    for adapter, rows in _adapters(found):
        text = tabulate(
            [[_wrapped(cell, size) for cell, size in zip(_row(row), widths, strict=True)] for row in rows],
            headers=_HEADERS,
            tablefmt="simple",
            disable_numparse=True,
            colalign=["right" if name == "n" else "left" for name in _HEADERS],
        )
        parts.append(f"{one_line(adapter, width)}\n{text}")
        parts += [_grid(grid, width) for row in rows for grid in row.measured.tables]
        parts.append(
            "Evidence, exceptions first (DIR is this folder; --format json has every reference)\n"
            + "\n".join(_evidence(row, width) for row in rows if row.evidence)
        )
    parts.append("\n".join(_notes(found, width)))
    # Again: wrapping and columns put words at the beginning of a line.
    return printable("\n\n".join(part for part in parts if part)) + "\n"


def markdown(found: StudyFindings) -> str:
    """The same as tables in GitHub's form; ends with a line feed."""
    parts = [f"## {_escaped(found.sweep)}: findings", _escaped(_summary(found))]
    for adapter, rows in _adapters(found):
        parts.append(f"### {_escaped(adapter)}")
        parts.append(
            tabulate(
                [[*map(_cell, _row(row)), "; ".join(map(_short, _few(row)))] for row in rows],
                headers=[*_HEADERS, "evidence"],
                tablefmt="pipe",
                disable_numparse=True,
            )
        )
        for table_of_row in (table for row in rows for table in row.measured.tables):
            body = [[_cell(cell) for cell in cells] for cells in table_of_row.rows[:_ROWS]]
            grid = tabulate(
                body, headers=list(map(_cell, table_of_row.headers)), tablefmt="pipe", disable_numparse=True
            )
            parts.append("\n\n".join([f"**{_escaped(table_of_row.title)}**", grid, *_beyond(table_of_row)]))
    parts += [f"- {_escaped(note)}" for note in _notes(found, 10_000)]
    return "\n\n".join(parts) + "\n"


def to_json(found: StudyFindings) -> str:
    """One JSON object, keys in the model's order; ends with a line feed."""
    return json_text(json.dumps(found.model_dump(mode="json"), indent=2, ensure_ascii=False, allow_nan=False)) + "\n"


def _adapters(findings: StudyFindings) -> list[tuple[str, list[ClaimFinding]]]:
    groups: dict[str, list[ClaimFinding]] = {}
    for finding in findings.findings:
        groups.setdefault(finding.adapter, []).append(finding)
    return list(groups.items())


def _summary(findings: StudyFindings) -> str:
    counts = Counter(finding.verdict for finding in findings.findings)
    words = [f"{counts[name]} {name}" for name in get_args(Judgement) if counts[name]]
    message = f"{len(findings.findings)} findings: {', '.join(words)}" if words else "no run says anything"
    return message + (
        f" ({plural(len(findings.excluded), 'run')} in no figure, see below)" if findings.excluded else ""
    )


def _row(finding: ClaimFinding) -> tuple[str, ...]:
    limits = [*finding.limits[:3], *([f"{len(finding.limits) - 3} limits more"] if len(finding.limits) > 3 else [])]
    text = "" if finding.measured.text == "-" else finding.measured.text
    measured = f"{text} ({'; '.join(limits)})" if text and limits else text or "; ".join(limits)
    n = "" if finding.measured.n is None else str(finding.measured.n)
    return CLAIMS[finding.id].row, f"{finding.claim} [{finding.id}]", finding.published, measured, n, finding.verdict


def _wrapped(text: str, width: int) -> str:
    lines = textwrap.wrap(one_line(text, _LONG), width, break_on_hyphens=False)
    return "\n".join(lines) or "-"


def _few(finding: ClaimFinding) -> list[Reference]:
    """One reference of each thing that is shown, first those of which there are fewest: exceptions before the rule."""
    counts = Counter(reference.shows for reference in finding.evidence)
    first: dict[str, Reference] = {}
    for reference in finding.evidence:
        first.setdefault(reference.shows, reference)
    return [first[shows] for shows in sorted(first, key=lambda shows: counts[shows])][:SHOWN]


def command(reference: Reference) -> str:
    """What opens a reference."""
    path = shlex.quote(reference.path or "")  # an agent names files as it likes
    flag = {
        "frame": f"--seq {reference.seq}",
        "model": f"--model {reference.seq}",
        "file": f"--file {path}",
        "record": f"--record {path}",
    }[reference.kind]
    return f"acpbench frames {'DIR' if reference.run == '.' else f'DIR/{reference.run}'} {flag}"


def _short(reference: Reference) -> str:
    """For a cell of Markdown: what is in a code span is taken as it is, and can be typed."""
    typed = one_line(command(reference), SENTENCE).replace("|", "\\|").replace("`", "'")
    return f"{_cell(reference.shows)}: `{typed}`"


def _cell(text: str) -> str:
    return _escaped(one_line(text, _LONG))


def _beyond(one: Table) -> list[str]:
    return [f"({len(one.rows) - _ROWS} more rows: --format json has all)"] if len(one.rows) > _ROWS else []


def _evidence(finding: ClaimFinding, width: int) -> str:
    counts = Counter(reference.shows for reference in finding.evidence)
    shown = ", ".join(f"{count} {name}" for name, count in counts.most_common(6))
    more = f" and {len(counts) - 6} kinds more" if len(counts) > 6 else ""
    lines = [shortened(f"{CLAIMS[finding.id].row} {finding.id}: {shown}{more}", width)]
    lines += [f"  {one_line(command(reference), SENTENCE)}" for reference in _few(finding)]
    return "\n".join(lines)


def _by_reason(excluded: Mapping[str, str]) -> dict[str, list[str]]:
    """A sweep that was stopped has a hundred runs that are in no figure for one reason."""
    found: dict[str, list[str]] = {}
    for name, why in excluded.items():
        found.setdefault(why, []).append(name)
    return found


def _grid(one: Table, width: int) -> str:
    """A table under its title; headers are wrapped, and the last column where it is too wide."""
    headers = [one_line(header, _LONG).replace(" ", "\n") for header in one.headers]
    rows = [[one_line(cell, _LONG) for cell in row] for row in one.rows[:_ROWS]]
    columns = list(zip(headers, *rows, strict=True))
    taken = sum(max(len(line) for cell in column for line in cell.split("\n")) + 2 * _GAP for column in columns[:-1])
    body = [[*row[:-1], _wrapped(row[-1], max(_NARROW, width - taken))] for row in rows]
    grid = tabulate(body, headers=headers, tablefmt="simple", disable_numparse=True)
    title = textwrap.wrap(one_line(one.title, _LONG), width, break_on_hyphens=False)
    return "\n".join([*title, grid, *_beyond(one)])


def _notes(findings: StudyFindings, width: int) -> list[str]:
    notes = []
    rates = [finding for finding in findings.findings if finding.measured.bound is not None]
    notes += [f"Left out of the plan: {why}." for reasons in findings.left_out.values() for why in reasons]
    if findings.findings:
        notes.append("n counts what the figure rests on: distinct actions, runs, or what the figure names.")
    if rates:
        notes.append(
            "Bounds are one-sided, 95 %, Clopper and Pearson; the unit is the distinct action: replicates of a script "
            "prove determinism, they are no new trials."
        )
    for why, names in _by_reason(findings.excluded).items():
        notes.append(f"In no figure: {few(names, _NAMED)} ({why}).")
    for name, how in findings.altered.items():
        notes.append(f"Not as it was recorded: {name} ({how}).")
    for name, what in findings.not_pristine.items():
        notes.append(f"Did not begin pristine, in no rate: {name} ({what}).")
    notes += [f"verifier-flaky: {told}." for told in findings.verifier_flaky]
    return [wrapped(note, width) if width < 1000 else note for note in notes]
