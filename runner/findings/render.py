"""Findings for a terminal, as Markdown, as JSON. No judgement is made here."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tabulate import tabulate

from runner.findings.model import Finding, Findings, Reference
from runner.findings.published import CLAIMS
from runner.report.text import printable

WIDTH = 120
#: References printed per finding; JSON has all.
SHOWN = 2
_HEADERS = ("", "claim", "published", "measured", "verdict")
#: What stands between two columns, and the columns that are as wide as their longest word.
_GAP, _ROW, _VERDICT = 2, 2, 17


def table(found: Findings, width: int = WIDTH) -> str:
    """Plain text, at most `width` columns wide; ends with a line feed."""
    parts = [f"{found.sweep}: {_summary(found)}"]
    free = max(60, width - _ROW - _VERDICT - _GAP * 4)
    widths = [_ROW, free * 28 // 100, free * 24 // 100, free - free * 28 // 100 - free * 24 // 100, _VERDICT]
    for adapter, rows in _adapters(found):
        text = tabulate(
            [[_wrapped(cell, size) for cell, size in zip(_row(one), widths, strict=True)] for one in rows],
            headers=_HEADERS,
            tablefmt="simple",
            disable_numparse=True,
            colalign=["left"] * len(_HEADERS),
        )
        parts.append(f"{printable(adapter)}\n{text}")
        parts += [f"{title}\n{_grid(cells)}" for title, cells in _maps(rows)]
        parts.append(
            "Evidence (DIR is this folder)\n" + "\n".join(_evidence(one, width) for one in rows if one.evidence)
        )
    parts.append("\n".join(_notes(found, width)))
    return "\n\n".join(part for part in parts if part) + "\n"


def markdown(found: Findings) -> str:
    """The same as tables in GitHub's form; ends with a line feed."""
    parts = [f"## {_escaped(found.sweep)}: findings", _escaped(_summary(found))]
    for adapter, rows in _adapters(found):
        parts.append(f"### {_escaped(adapter)}")
        parts.append(
            tabulate(
                [[_escaped(cell) for cell in (*_row(one), "; ".join(map(_short, _few(one))))] for one in rows],
                headers=[*_HEADERS, "evidence"],
                tablefmt="pipe",
                disable_numparse=True,
            )
        )
        for title, cells in _maps(rows):
            body = [[_escaped(cell) for cell in row] for row in cells[1:]]
            parts.append(
                f"**{_escaped(title)}**\n\n" + tabulate(body, headers=cells[0], tablefmt="pipe", disable_numparse=True)
            )
    parts += [f"- {_escaped(note)}" for note in _notes(found, 10_000)]
    return "\n\n".join(parts) + "\n"


def to_json(found: Findings) -> str:
    """One JSON object, keys in the model's order; ends with a line feed."""
    return json.dumps(found.model_dump(mode="json"), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _adapters(found: Findings) -> list[tuple[str, list[Finding]]]:
    groups: dict[str, list[Finding]] = {}
    for one in found.findings:
        groups.setdefault(one.adapter, []).append(one)
    return list(groups.items())


def _summary(found: Findings) -> str:
    counts = Counter(one.verdict for one in found.findings)
    words = [
        f"{counts[name]} {name}"
        for name in ("holds", "holds-with-limits", "does-not-hold", "not-measured")
        if counts[name]
    ]
    return f"{len(found.findings)} findings: {', '.join(words)}" if words else "no run says anything"


def _row(one: Finding) -> tuple[str, ...]:
    limits = [*one.limits[:3], *([f"{len(one.limits) - 3} limits more"] if len(one.limits) > 3 else [])]
    text = "" if one.measured.text == "-" else one.measured.text
    measured = f"{text} ({'; '.join(limits)})" if text and limits else text or "; ".join(limits)
    return CLAIMS[one.id].row, one.claim, one.published, measured, one.verdict


def _wrapped(text: str, width: int) -> str:
    lines = textwrap.wrap(printable(" ".join(text.split())), width, break_on_hyphens=False)
    return "\n".join(lines) or "-"


def _few(one: Finding) -> list[Reference]:
    """One reference of each thing that is shown, first those of which there are fewest: exceptions before the rule."""
    counts = Counter(reference.shows for reference in one.evidence)
    first: dict[str, Reference] = {}
    for reference in one.evidence:
        first.setdefault(reference.shows, reference)
    return [first[shows] for shows in sorted(first, key=lambda shows: counts[shows])][:SHOWN]


def command(reference: Reference) -> str:
    """What opens a reference."""
    flag = {
        "frame": f"--seq {reference.seq}",
        "model": f"--model {reference.seq}",
        "file": f"--file {reference.path}",
        "record": f"--record {reference.path}",
    }[reference.kind]
    return f"acpbench frames DIR/{reference.run} {flag}"


def _short(reference: Reference) -> str:
    return f"{reference.shows}: `{command(reference)}`"


def _evidence(one: Finding, width: int) -> str:
    counts = Counter(reference.shows for reference in one.evidence)
    shown = ", ".join(f"{count} {name}" for name, count in counts.most_common(6))
    more = f" and {len(counts) - 6} kinds more" if len(counts) > 6 else ""
    lines = [textwrap.shorten(f"{one.id}: {shown}{more}", width, placeholder=" ...")]
    lines += [f"  {command(reference)}" for reference in _few(one)]
    return printable("\n".join(lines))


def _maps(rows: list[Finding]) -> Iterator[tuple[str, list[list[str]]]]:
    """Figures that are tables of their own."""
    for one in rows:
        kinds = one.measured.figures.get("table")
        if isinstance(kinds, dict) and kinds:
            yield "Permission table: distinct actions by tool kind, without a standing grant", _by_kind(kinds)
        places = one.measured.figures.get("map")
        if isinstance(places, list) and places:
            title = (
                "Boundary map: runs in which it was asked for, or not; in which its canary reached the model or its\n"
                "file changed, once allowed or refused; and how it was with additionalDirectories (widened)"
            )
            yield title, _by_place(places)


def _by_kind(kinds: dict[str, Any]) -> list[list[str]]:
    headers = ["kind", "calls", "distinct", "surfaced", "not-surfaced"]
    return [
        headers,
        *([name, *(_cell(counts.get(column)) for column in headers[1:])] for name, counts in kinds.items()),
    ]


def _by_place(places: list[dict[str, Any]]) -> list[list[str]]:
    """One row per thing done; what came of it, by how the ask was answered."""
    headers = ["", "target", "by", "asked", "not asked", "allowed", "refused", "asked, widened"]
    rows: dict[tuple[str, str, str], dict[bool, list[dict[str, Any]]]] = {}
    for place in places:
        key = (place["verb"], place["target"], place["route"])
        rows.setdefault(key, {False: [], True: []})[bool(place["additional"])].append(place)
    body = []
    for (verb, target, route), found in rows.items():
        effect = "reached" if verb == "read" else "changed"
        answers = [str(one["answer"]) if one["answer"] else None for one in found[False]]
        ways = [
            [one for one, answer in zip(found[False], answers, strict=True) if answer is None],
            [one for one, answer in zip(found[False], answers, strict=True) if answer and answer.startswith("allow")],
            [
                one
                for one, answer in zip(found[False], answers, strict=True)
                if answer and not answer.startswith("allow")
            ],
        ]
        cells = [_share(found[False], "asked"), *(_share(way, effect) for way in ways), _share(found[True], "asked")]
        body.append([verb, target, route, *cells])
    return [headers, *body]


def _share(places: list[dict[str, Any]], what: str) -> str:
    """`2/4`: runs in which it was so, of the runs that did it; `-` for none."""
    runs = sum(int(place["runs"]) for place in places)
    return f"{sum(int(place[what]) for place in places)}/{runs}" if runs else "-"


def _cell(value: Any) -> str:
    return "-" if value is None else {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _grid(cells: list[list[str]]) -> str:
    return tabulate(
        [list(map(printable, row)) for row in cells[1:]], headers=cells[0], tablefmt="simple", disable_numparse=True
    )


def _notes(found: Findings, width: int) -> list[str]:
    notes = []
    rates = [one for one in found.findings if one.measured.bound is not None]
    if rates:
        notes.append(
            "Bounds are one-sided, 95 %, Clopper and Pearson; the unit is the distinct action: replicates of a script "
            "prove determinism, they are no new trials."
        )
    for name, why in found.excluded.items():
        notes.append(f"In no figure: {name} ({why}).")
    for name, what in found.not_pristine.items():
        notes.append(f"Did not begin pristine, in no rate: {name} ({what}).")
    return [
        textwrap.fill(printable(note), width, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
        if width < 1000
        else note
        for note in notes
    ]


_SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\*_[<>|"})


def _escaped(text: str) -> str:
    return printable(" ".join(text.split())).translate(_SPECIAL)
