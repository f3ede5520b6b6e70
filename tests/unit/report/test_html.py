from __future__ import annotations

import re
from html.parser import HTMLParser

from runner.report.html import render
from tests.unit.report.comparisons import moved
from tests.unit.report.sample_reports import plain, troubled

_VOID = {"meta", "br", "circle", "line"}


class Checked(HTMLParser):
    """Every element is closed in order; what is shown is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def checked(text: str) -> Checked:
    found = Checked()
    found.feed(text)
    found.close()
    assert found.open == []
    return found


def test_one_file_that_asks_nobody_for_anything() -> None:
    text = render(plain(), [moved()])
    found = checked(text)
    assert "script" not in found.seen
    assert not re.search(r"https?://|src=|@import|url\(", text)


def test_every_run_is_a_dot() -> None:
    report = plain()
    figures = [one for arm in report.arms for one in arm.sampled.values()]
    assert checked(render(report)).seen.count("circle") == sum(len(one.values) for one in figures)


def test_it_says_what_the_terminal_says() -> None:
    found = checked(render(plain(), [moved()])).text
    for said in (
        "All 9 planned runs ended as expected.",
        "1950 [1755-2145]",
        "changed-exact: tool_calls",
        "1.248 [1.238-1.259]",
    ):
        assert said in found


def test_what_an_agent_wrote_is_text() -> None:
    report = troubled()
    report.arms[0].warnings[0].message = "<script>alert(1)</script> & \x1b[2J"
    text = render(report)
    assert "<script>" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; \\u001b[2J" in text
