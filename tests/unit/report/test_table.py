from __future__ import annotations

import pytest

from runner.analysis.aggregate import build
from runner.analysis.report import Report
from runner.report import table
from tests.unit.report.sample_reports import LOCK, SWEEP, cell, golden, plain, run, runs, troubled


@pytest.mark.parametrize(("name", "report"), [("plain", plain()), ("troubled", troubled())])
def test_golden(name: str, report: Report) -> None:
    assert table.render(report) == golden(f"{name}.txt")


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_asked(width: int) -> None:
    for line in table.render(troubled(), width).splitlines():
        assert len(line) <= width or len(line.split()) <= 4, line


def test_a_split_table_loses_no_column_and_names_every_row() -> None:
    wide, narrow = table.render(plain(), 200), table.render(plain(), 60)
    for head in ("handshake ms", "agent ms", "undeclared calls", "overhead ms"):
        assert wide.count(head) == narrow.count(head) == 1
    assert narrow.count("acp-nocaps  ") > wide.count("acp-nocaps  ") == 3


def test_many_arms_stay_within_the_width() -> None:
    planned = [
        cell(surface, 1, adapter=f"{word}-agent@1.2.3") for surface in ("acp", "cli") for word in ("some", "another")
    ]
    text = table.render(build(SWEEP, LOCK, planned, runs(planned)))
    tables, _, _ = text.partition("- No winner")
    assert max(map(len, tables.splitlines())) <= table.WIDTH


def test_an_agents_words_do_not_steer_the_terminal() -> None:
    planned = [cell("acp", 1)]
    bad = run(planned[0], outcome="agent-error", reason="\x1b[2Jgone")
    assert "\x1b" not in table.render(build(SWEEP, LOCK, planned, [bad]))


def test_a_report_without_arms() -> None:
    assert "All 0 planned runs ended as expected." in table.render(Report(sweep="empty", lock={}, arms=[]))
