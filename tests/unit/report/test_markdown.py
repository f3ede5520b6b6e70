from __future__ import annotations

import pytest

from runner.analysis.aggregate import build
from runner.analysis.report import Report
from runner.report import markdown
from tests.unit.report.sample_reports import LOCK, SWEEP, cell, golden, plain, run, troubled


@pytest.mark.parametrize(("name", "report"), [("plain", plain()), ("troubled", troubled())])
def test_golden(name: str, report: Report) -> None:
    assert markdown.render(report) == golden(f"{name}.md")


def test_tables_are_whole() -> None:
    """Every row of a table has as many cells as its head, whatever stands in them."""
    text = markdown.render(troubled())
    blocks = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    assert len(blocks) == 3
    for block in blocks:
        assert len({line.count("|") for line in block}) == 1
        assert len(block) == 5


@pytest.mark.parametrize(
    "reason", ["a | b", "<img src=x>", "[click](http://x)", "`code` *bold*", "two\n\n# lines", "\x1b[2J"]
)
def test_an_agents_words_are_text(reason: str) -> None:
    planned = [cell("acp", 1)]
    text = markdown.render(build(SWEEP, LOCK, planned, [run(planned[0], outcome="agent-error", reason=reason)]))
    (line,) = [line for line in text.splitlines() if "unexpected-outcome" in line]
    for raw in ("<img", "|", "[click]", "`code`", "*bold*", "\x1b"):
        assert raw not in line.replace(f"\\{raw}", "")
    assert not any(each.startswith("# ") for each in text.splitlines())


def test_a_report_without_arms() -> None:
    assert markdown.render(Report(sweep="empty", lock={}, arms=[])).startswith("## empty\n")
