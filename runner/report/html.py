"""One self-contained page: no script, no request to anywhere; opens from a job's artifacts.

Tables as in the terminal; every run of every sampled metric as a dot, so that a range is never all one sees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from tabulate import tabulate

from runner.analysis.comparison import Compared
from runner.analysis.report import Arm, Report, Sampled
from runner.evidence import cost
from runner.report import verdicts
from runner.report.tables import page, sampled_text
from runner.text.visible import one_line

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #59636e; --line: #d1d9e0; --dot: #0969da; --bad: #cf222e;
  --good: #1a7f37; --page: #ffffff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9198a1; --line: #3d444d; --dot: #4493f8;
  --bad: #f85149; --good: #3fb950; --page: #0d1117; } }
body { font: 14px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 76rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin-bottom: 0; } h2 { font-size: 1.05rem; margin: 1.8rem 0 .4rem; }
p.caption, ul { color: var(--soft); } li { margin: .15rem 0; }
.wide { overflow-x: auto; }
.wide + .wide { margin-top: 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } th { color: var(--soft); font-weight: 600; }
table.verdicts td:nth-child(2), table.verdicts th:nth-child(2) { text-align: left; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; } svg text.soft { fill: var(--soft); }
svg line { stroke: var(--line); } svg circle { fill: var(--dot); fill-opacity: .55; }
svg line.median { stroke: var(--dot); stroke-width: 2; }
.regressed, .changed-exact, .nondeterministic { color: var(--bad); font-weight: 600; } .improved { color: var(--good); }
"""
#: Of a strip of dots, in pixels; the names to its left take what the longest one needs.
_WIDTH, _RIGHT, _ROW, _LETTER = 560, 160, 24, 7


def render(report: Report, compared: Sequence[Compared] = ()) -> str:
    """The page; ends with a line feed."""
    content = page(report)
    parts = [f"<h1>{_text(report.sweep)}</h1>"]
    if content.caption:
        parts.append(f'<p class="caption">{_text(content.caption)}</p>')
    for found in compared:
        parts += _verdicts(found)
    for sheet in content.sheets:
        parts += [f"<h2>{_text(sheet.title)}</h2>", _table(sheet.headers, sheet.rows)]
    parts.append(_list(content.notes))
    parts += _strips(report.arms, [row[0] for row in content.sheets[0].rows] if content.sheets else [])
    head = f'<meta charset="utf-8"><title>{_text(report.sweep)}</title><style>{_STYLE}</style>'
    viewport = '<meta name="viewport" content="width=device-width">'
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en"><head>{head}{viewport}</head>\n<body>\n{body}\n</body></html>\n'


def _verdicts(compared: Compared) -> Iterator[str]:
    yield f"<h2>{_text(verdicts.headline(compared))}</h2>"
    for base, new, pair in verdicts.tables(compared):
        yield f'<p class="caption">base {_text(base)}<br>new {_text(new)}</p>'
        for headers, rows in pair:
            yield _table(headers, rows, "verdicts", word=1)
    yield _list(verdicts.notes(compared))


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "", word: int | None = None) -> str:
    """`word`: the column whose first word is a verdict, which is shown in its colour."""
    text = tabulate(
        [[_cell(value, index == word) for index, value in enumerate(row)] for row in rows],
        headers=[_text(header) for header in headers],
        tablefmt="unsafehtml",
        disable_numparse=True,
    )
    named = text.replace("<table>", f'<table class="{kind}">', 1) if kind else text
    return f'<div class="wide">{named}</div>'


def _cell(text: str, coloured: bool) -> str:
    return f'<span class="{_text(text.split(" ")[0])}">{_text(text)}</span>' if coloured else _text(text)


def _list(notes: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{_text(note)}</li>" for note in notes) + "</ul>"


def _strips(arms: Sequence[Arm], labels: Sequence[str]) -> Iterator[str]:
    """For every sampled metric a picture: one row an arm, one dot a run, a stroke at the median."""
    names = [name for name in cost.NAMES if any(_has(arm, name) for arm in arms)]
    names += sorted({name for arm in arms for name in arm.sampled if name not in names and _has(arm, name)})
    if names:
        yield "<h2>Every run</h2>"
    for name in names:
        shown = [(label, arm.sampled[name]) for label, arm in zip(labels, arms, strict=True) if _has(arm, name)]
        yield _strip(name, shown)


def _has(arm: Arm, name: str) -> bool:
    return name in arm.sampled and bool(arm.sampled[name].values)


def _strip(name: str, rows: Sequence[tuple[str, Sampled]]) -> str:
    """The scale starts at 0, so that a small difference looks small."""
    top = max(value for _, found in rows for value in found.values) or 1.0
    height = _ROW * (len(rows) + 1)
    left = 40 + _LETTER * max(len(label) for label, _ in rows)
    marks = [f'<text class="soft" x="0" y="16">{_text(name)}</text>']
    for index, (label, found) in enumerate(rows, start=1):
        y = _ROW * index + _ROW / 2

        def x(value: float) -> float:
            return left + _WIDTH * value / top

        marks.append(f'<text x="12" y="{y + 4}">{_text(label)}</text>')
        marks.append(f'<line x1="{left}" x2="{left + _WIDTH}" y1="{y}" y2="{y}"/>')
        marks += [f'<circle cx="{x(value):.1f}" cy="{y}" r="4"/>' for value in found.values]
        if found.median is not None:
            at = f"{x(found.median):.1f}"
            marks.append(f'<line class="median" x1="{at}" x2="{at}" y1="{y - 8}" y2="{y + 8}"/>')
        said = _text(sampled_text(found, 0 if top >= 20 else 2))
        marks.append(f'<text class="soft" x="{left + _WIDTH + 12}" y="{y + 4}">{said}</text>')
    size = f'width="{left + _WIDTH + _RIGHT}" height="{height}"'
    return f'<div class="wide"><svg {size} role="img" aria-label="{_text(name)}">{"".join(marks)}</svg></div>'


def _text(text: str) -> str:
    return escape(one_line(text))
