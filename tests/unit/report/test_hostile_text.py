"""Every renderer over reports whose every text an agent chose: nothing is obeyed, nothing else changes its meaning."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, TypeVar

import pytest
import xmlschema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from pydantic import BaseModel

from runner.analysis.aggregate import build
from runner.analysis.comparison import Compared
from runner.analysis.report import Report
from runner.report import github, html, junit, markdown, permissions, table, to_csv, to_json, verdicts
from runner.report import study as findings_render
from runner.study.claims import CLAIMS
from runner.study.model import ClaimFinding, Measured, Reference, StudyFindings, Table
from runner.study.permission_map import ActionTried, Column, PermissionMap
from tests.unit.report.comparisons import moved, still, unlike
from tests.unit.report.sample_reports import LOCK, cell, run

M = TypeVar("M", bound=BaseModel)

NASTY = [
    "\x1b[31mred\x1b[0m", "\x1b]8;;http://evil\x07link\x1b]8;;\x07", "\x1b]52;c;ZXZpbA==\x07", "\x9b2J", "\x7f\x08",
    "user\u202egpj.exe", "\u2066a\u2069", "\u200e\u200f\u061c", "a\u200bb\ufeff", "\u2028next\u2029", "\u3164",
    "::error::bad", "::add-mask::x", "::set-output name=a::b", "  ::warning::indented", "##[group]x", "##[error]x",
    "##vso[task.setvariable variable=a]b", "##teamcity[testFailed name='x']", "section_start:1:a\r\x1b[0K",
    "x\n::error::second line", "x\r::error::after a CR", "\n", "\r", "\t", "two\nlines", "a | b || c", "\\| `", "`|`",
    "![p](http://evil/p.png)", "[click](javascript:alert(1))", "<img src=x onerror=y>", "<!-- ", "&#x202e;&lt;",
    "</td></tr></table><script>", "\"' onload='x", "http://evil.example", "www.evil.example", "@octocat #1", "# head",
    "- item", "1. one", "---", "=1+1", "+1", "-1", "-x", "@SUM(A1)", "\t=1", "\r=1", "'", '"', '","', "%0A::error::",
    "a,b:c", "]]>", "\x00\x01", "\ud800", "\udcff\udc80", "\U000e0001\U000e0041", "[red]x[/red]", ":x:", "$a$",
    "x" * 5000,
]  # fmt: skip
TEXT = st.one_of(
    st.sampled_from(NASTY), st.text(max_size=30), st.lists(st.sampled_from(NASTY), max_size=3).map("".join)
)
CHOSEN = st.lists(TEXT, min_size=3, max_size=8)

#: What a CI service runs: GitHub (leading blanks aside, old form anywhere), Azure, TeamCity.
COMMAND = re.compile(r"^\s*::(?!(error|warning|notice) title=)|##[A-Za-z]*\[", re.MULTILINE)
XSD = xmlschema.XMLSchema(Path(__file__).with_name("junit.xsd"))


def shown(text: str, kept: str = "\n") -> None:
    """Nothing in it steers a terminal, an eye or a CI service."""
    odd = {c for c in text if c not in kept and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")}
    assert not odd, ascii(odd)
    assert COMMAND.search(text) is None, ascii(COMMAND.search(text))


class Chooser:
    """The chosen texts, one after the other."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts
        self._next = 0

    def __call__(self) -> str:
        self._next += 1
        return self._texts[self._next % len(self._texts)]

    def poisoned(self, model: M, keep: frozenset[str] = frozenset()) -> M:
        """The model with every text replaced but those of the keys `keep`."""
        return type(model).model_validate(self._value(model.model_dump(), keep))

    def _value(self, value: Any, keep: frozenset[str]) -> Any:
        if isinstance(value, str):
            return self()
        if isinstance(value, dict):
            return {key: part if key in keep else self._value(part, keep) for key, part in value.items()}
        return [self._value(part, keep) for part in value] if isinstance(value, (list, tuple)) else value


def report(choose: Chooser) -> Report:
    """Two surfaces of three runs; metrics, outcomes' reasons and names as an agent likes them."""
    planned = [cell(surface, number) for number in (1, 2, 3) for surface in ("cli", "acp")]
    records = []
    for one in planned:
        own = {f"tool_calls_by_kind.{choose()}": 1, f"findings.{choose()}": 2, f"names_tried.{choose()}": True}
        odd = run(one, exact={"stop_reason": choose(), "tool_calls": 3, "cancel_during": choose(), **own})
        records.append(odd.model_copy(update={"outcome": "agent-error", "reason": choose()}))
    made = build("a-sweep", LOCK, planned, records[:-1])
    return choose.poisoned(made, frozenset({"lock", "outcomes"}))


def compared(choose: Chooser) -> list[Compared]:
    keep = frozenset({"kind", "verdict", "gate"})
    return [choose.poisoned(one, keep) for one in (moved(), still(), unlike())]


def findings(choose: Chooser) -> StudyFindings:
    evidence = [Reference(run=choose(), kind="file", path=choose(), shows=choose(), what=choose()) for _ in range(3)]
    measured = Measured(text=choose(), tables=[Table(title=choose(), headers=["a", choose()], rows=[["b", choose()]])])
    made = [
        ClaimFinding(
            id=identity, adapter="an-adapter@1", claim=CLAIMS[identity].claim, published=choose(), measured=measured,
            verdict="holds-with-limits", limits=[choose(), choose()], evidence=evidence,
        )
        for identity in list(CLAIMS)[:3]
    ]  # fmt: skip
    odd = {f"runs/{choose()}/1": choose()}
    return StudyFindings(sweep=choose(), findings=made, excluded=odd, not_pristine=odd, altered=odd)


def permission_map(choose: Chooser, arms: int) -> PermissionMap:
    evidence = Reference(run="runs/x/1", kind="frame", seq=1, shows="asked")
    labels = ["one", choose()]
    columns = [
        Column(
            arm=f"arm-{number}", adapter=choose(), surface=choose(), policy=choose(), model=choose(), runs=1,
            mode=choose(),
            tried={
                label: [
                    ActionTried(
                        label=label, what=choose(), tool=choose(), word="asked", done=bool(number), kind=choose(),
                        offered=[choose()], answer=choose(), evidence=evidence,
                    )
                ]
                for label in labels
            },
        )
        for number in range(arms)
    ]  # fmt: skip
    return PermissionMap(sweep=choose(), labels=labels, columns=columns, excluded={choose(): choose()})


def terminal_texts(choose: Chooser) -> list[str]:
    return [
        table.render(report(choose)),
        *map(verdicts.render, compared(choose)),
        findings_render.table(findings(choose)),
        permissions.table(permission_map(choose, 1)),
        permissions.table(permission_map(choose, 2)),
    ]


def markdown_texts(choose: Chooser) -> list[str]:
    return [
        markdown.render(report(choose)),
        *map(verdicts.markdown, compared(choose)),
        findings_render.markdown(findings(choose)),
        permissions.markdown(permission_map(choose, 1)),
        permissions.markdown(permission_map(choose, 2)),
    ]


quick = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@quick
@given(CHOSEN)
def test_terminal(texts: list[str]) -> None:
    for text in terminal_texts(Chooser(texts)):
        shown(text)
        assert max(map(len, text.splitlines())) < 6000


@quick
@given(CHOSEN)
def test_markdown_holds_no_markup_of_theirs(texts: list[str]) -> None:
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    for text in markdown_texts(Chooser(texts)):
        shown(text)
        tokens = parser.parse(text)
        inline = [child for token in tokens for child in token.children or []]
        types = {token.type for token in [*tokens, *inline]}
        assert not types & {"image", "link_open", "html_block", "s_open", "fence", "code_block", "blockquote_open"}
        assert not any("http://" in token.content for token in inline if token.type == "text")
        assert not {token.content for token in inline if token.type == "html_inline"} - {"<br>"}
        for token in (token for token in inline if token.type == "code_inline"):
            assert token.content.startswith("acpbench frames DIR")
        _same_columns(tokens)


def _same_columns(tokens: list[Any]) -> None:
    """A cell too many or too few would be dropped or made up by a reader; so they are counted in the text."""
    row: list[int] = []
    widths: list[list[int]] = []
    for token in tokens:
        if token.type == "table_open":
            row = []
        elif token.type == "tr_open":
            row.append(0)
        elif token.type in ("td_open", "th_open"):
            row[-1] += 1
        elif token.type == "table_close":
            widths.append(row)
    assert all(len(set(one)) == 1 for one in widths)


@quick
@given(CHOSEN)
def test_a_markdown_table_keeps_its_columns(texts: list[str]) -> None:
    for text in markdown_texts(Chooser(texts)):
        for block in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
            # GitHub and markdown-it alike: a pipe after a backslash is none, whatever stands before that.
            counts = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
            assert len(counts) == 1, block


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(" ".join([tag, *sorted(name for name, _ in attrs)]))
        if tag not in ("meta", "br", "line", "circle"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("line", "circle"):
            assert self.open.pop() == tag


@quick
@given(CHOSEN)
def test_html_holds_no_element_and_no_attribute_of_theirs(texts: list[str]) -> None:
    plain, odd = _Tags(), _Tags()
    harmless = Chooser(["a", "b", "c"])
    plain.feed(html.render(report(harmless), compared(harmless)))
    choose = Chooser(texts)
    text = html.render(report(choose), compared(choose))
    shown(text)
    odd.feed(text)
    assert not odd.open
    assert odd.seen <= plain.seen | {"td style", "th style", "span class"}


@quick
@given(CHOSEN)
def test_junit_is_valid(texts: list[str]) -> None:
    choose = Chooser(texts)
    planned = [cell(choose(), number) for number in (1, 2, 3)]
    latest = {one.name: run(one, outcome="agent-error", reason=choose()) for one in planned[:2]}
    cases = [*junit.cells(planned, latest), *(case for one in compared(choose) for case in junit.verdicts(one))]
    text = junit.render(choose(), cases)
    shown(text)
    XSD.validate(ET.fromstring(text))


@quick
@given(CHOSEN)
def test_annotations_are_one_command_each(texts: list[str]) -> None:
    choose = Chooser(texts)
    for text in [
        github.of_report(report(choose)),
        *map(github.of_comparison, compared(choose)),
        github.problem(choose()),
    ]:
        shown(text)
        for line in text.splitlines():
            head, found, rest = line.partition(" title=")
            title, ends, _ = rest.partition("::")
            assert head in ("::error", "::warning", "::notice")
            assert found
            assert ends
            assert "," not in title
            assert ":" not in title


@quick
@given(CHOSEN)
def test_json_says_the_same_and_shows_nothing_else(texts: list[str]) -> None:
    choose = Chooser(texts)
    made = report(choose)
    text = to_json.render(made)
    shown(text)
    assert json.loads(text) == made.model_dump(mode="json")
    for other in [
        *map(verdicts.to_json, compared(choose)),
        findings_render.to_json(findings(choose)),
        permissions.to_json(permission_map(choose, 2)),
    ]:
        shown(other)
        json.loads(other)


@quick
@given(CHOSEN)
def test_csv_reads_back_and_is_no_formula(texts: list[str]) -> None:
    choose = Chooser(texts)
    planned = [cell("acp", number) for number in (1, 2)]
    figures = [{f"updates.{choose()}": choose(), "n": -5, "f": -0.5, "t": choose()} for _ in planned]
    latest = {one.name: run(one, exact=own, sampled={}) for one, own in zip(planned, figures, strict=True)}
    text = to_csv.of_sweep(choose(), planned, latest)
    shown(text, kept="\n\r\t")
    # As spreadsheets and Python's own reader take it: newlines as they stand.
    rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert {len(row) for row in rows} == {len(to_csv.RUN_COLUMNS)}
    wanted = [(name, value) for own in figures for name, value in own.items()]
    for row, (name, value) in zip(rows[1:], wanted, strict=True):
        assert (row[-3], row[-1]) == (_cell(name), _cell(value))
        for field in row:
            assert not field.startswith(("=", "@", "\t", "\r", "\n"))
            assert field[:1] not in "+-" or _is_number(field)
    for one in compared(choose):
        verdict_rows = list(csv.reader(io.StringIO(to_csv.of_comparison(one), newline=""), strict=True))
        assert {len(row) for row in verdict_rows} == {len(to_csv.VERDICT_COLUMNS)}


def _cell(value: Any) -> str:
    """A figure as its cell reads: shown, and with the prefix where it would be a formula."""
    if not isinstance(value, str):
        return str(value)
    text = to_csv.shown(value)
    dangerous = text[:1] in ("=", "+", "-", "@", "\t", "\r", "\n") and bool(text)
    return f"'{text}" if dangerous and not _is_number(text) else text


def _is_number(text: str) -> bool:
    return not text or re.fullmatch(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", text, re.ASCII) is not None


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ("=1+1", "'=1+1"),
        ("+1+1", "'+1+1"),
        ("-2+3", "'-2+3"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\t=1", '"\'\t=1"'),
        ("\r=1", '"\'\r=1"'),
        ("a\rb", '"a\rb"'),
        ('a"b', '"a""b"'),
        ("a\nb", '"a\nb"'),
        (-5, "-5"),
        ("-5", "-5"),
        (-0.25, "-0.25"),
        ("a\n::error::x", '"a\n\\u003a:error::x"'),
        ("\x1b[31m", "\\u001b[31m"),
    ],
)
def test_fields(value: Any, field: str) -> None:
    planned = cell("acp", 1)
    text = to_csv.of_sweep("s", [planned], {planned.name: run(planned, exact={"m": value}, sampled={})})
    assert text.partition("\n")[2].endswith(f",m,exact,{field}\n")


CASES: list[Callable[[Chooser], list[str]]] = [terminal_texts, markdown_texts]


@pytest.mark.parametrize("texts", CASES)
@pytest.mark.parametrize("nasty", NASTY, ids=ascii)
def test_each_alone(texts: Callable[[Chooser], list[str]], nasty: str) -> None:
    for text in texts(Chooser([nasty])):
        shown(text)
