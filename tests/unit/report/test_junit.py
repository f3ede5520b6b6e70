from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import xmlschema

from runner.analysis.comparability import Likeness
from runner.analysis.compare import compare
from runner.analysis.comparison import Compared, Pair
from runner.config.gate import Gate
from runner.records.schema import Record
from runner.report.junit import Case, cells, render, verdicts
from tests.unit.arms import arm
from tests.unit.report.comparisons import moved, unlike
from tests.unit.report.sample_reports import cell, run
from tests.unit.report.sample_reports import cells as planned

SCHEMA = xmlschema.XMLSchema(Path(__file__).with_name("junit.xsd"))


def parsed(text: str) -> ET.Element:
    """The document, after it was held against the schema."""
    SCHEMA.validate(text)
    return ET.fromstring(text)


def test_a_case_a_cell() -> None:
    plan = planned()
    latest = {each.name: run(each) for each in plan}
    root = parsed(render("a-sweep", cells(plan, latest)))
    assert (root.get("name"), root.get("tests"), root.get("failures"), root.get("errors")) == ("a-sweep", "9", "0", "0")
    assert [suite.get("tests") for suite in root] == ["3", "3", "3"]
    # A run of the builders takes from 600 ms before the spawn to 2500 ms after it.
    assert root[0][0].get("time") == "3.100"
    assert root[0][0].get("name") == "r1"


@pytest.mark.parametrize(
    ("record", "kind", "what", "message"),
    [
        (None, "error", "missing", "never ran"),
        (
            {"outcome": "task-failed", "reason": "1 of 3 <failed>"},
            "failure",
            "task-failed",
            "expected passed: 1 of 3 <failed>",
        ),
        ({"outcome": "timeout:turn"}, "error", "timeout:turn", "ended timeout:turn, expected passed"),
        ({"outcome": "passed", "expect": "task-failed"}, "failure", "passed", "ended passed, expected task-failed"),
    ],
)
def test_what_is_not_as_expected(record: dict[str, Any] | None, kind: str, what: str, message: str) -> None:
    one = cell("acp", 1, expect=(record or {}).get("expect", "passed"))
    latest: dict[str, Record] = {} if record is None else {one.name: run(one, **record)}
    root = parsed(render("a-sweep", cells([one], latest)))
    (problem,) = [element for element in root[0][0] if element.tag != "system-out"]
    assert (problem.tag, problem.get("type")) == (kind, what)
    assert message in str(problem.get("message"))
    assert root.get({"failure": "failures", "error": "errors"}[kind]) == "1"


def kinds(found: Compared) -> dict[str, str]:
    """Metric -> what its case holds."""
    root = parsed(render("x", verdicts(found)))
    return {str(case.get("name")): next((e.tag for e in case if e.tag != "system-out"), "passed") for case in root[0]}


def test_a_case_a_verdict() -> None:
    assert kinds(moved()) == {
        "tool_calls": "failure",
        "permission_requests": "passed",
        "handshake_ms": "failure",
        "to_result_ms": "passed",
        "cpu_s": "passed",  # it regressed, but only informs
    }
    assert set(kinds(unlike()).values()) == {"skipped"}


def test_too_few_runs_are_skipped_unless_strict() -> None:
    pair = Pair(arm(sampled={"to_result_ms": [1.0, 2, 3]}), arm(sampled={"to_result_ms": [1.0, 2, 3]}, policy="x"))
    assert kinds(compare(("a", "a"), [pair], Gate()))["to_result_ms"] == "skipped"
    assert kinds(compare(("a", "a"), [pair], Gate(), strict=True))["to_result_ms"] == "failure"
    assert Likeness() == pair.likeness


def test_text_that_xml_has_no_place_for() -> None:
    said = "\x1b[31mred\x00 \ud800 <&> \U0001f600"
    root = parsed(render("x", [Case("s", "c", problem=("failure", "t", said))]))
    assert root[0][0][0].get("message") == "\\u001b[31mred\\u0000 \\ud800 <&> \U0001f600"


def test_nothing_at_all_is_still_a_document() -> None:
    assert len(parsed(render("x", []))) == 0
