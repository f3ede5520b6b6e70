"""JUnit XML, for whatever shows test results: a test case a cell, and one a verdict.

The shape that Jenkins, GitLab and most viewers read: testsuites / testsuite / testcase with at most one of failure,
error, skipped; no attribute that Jenkins' xUnit plugin, which holds a file against its schema, would refuse. A cell
that ended in another way than expected is a failure where the agent did not do its task and an error where the run
itself went wrong or its verifier is flaky; a missing cell is an error. A gated verdict that fails a build is a
failure, one that could not be given is skipped.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET  # writes only; nothing is parsed
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from runner.analysis import flaky
from runner.analysis.comparison import Compared, MetricVerdict
from runner.config.outcome import JUDGED
from runner.config.plan import Cell
from runner.records.outcome import MISSING
from runner.records.schema import Record
from runner.report.verdicts import value_text
from runner.text.visible import one_line

#: Longest text of an attribute or an element.
_LONGEST = 4000


@dataclass(frozen=True)
class Case:
    """One test case. `problem`: (`failure` | `error` | `skipped`, its type, its message); None: passed."""

    suite: str
    name: str
    seconds: float = 0.0
    problem: tuple[str, str, str] | None = None
    said: str = ""


def render(title: str, cases: Sequence[Case]) -> str:
    """The document: one suite for each arm and each pair of arms, in the order of the cases."""
    root = ET.Element("testsuites", {name: said for name, said in _counts(title, cases).items() if name != "skipped"})
    suites: dict[str, list[Case]] = {}
    for case in cases:
        suites.setdefault(case.suite, []).append(case)
    for name, own in suites.items():
        suite = ET.SubElement(root, "testsuite", _counts(name, own))
        for case in own:
            _case(suite, case)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def cells(planned: Iterable[Cell], latest: Mapping[str, Record]) -> list[Case]:
    """A case for every measured cell of a plan. `latest`: cell name -> its last record."""
    unsteady = {name: workspace.message for workspace in flaky.flaky(latest.values()) for name in workspace.cells}
    return [_cell(cell, latest.get(cell.name), unsteady.get(cell.name)) for cell in planned if not cell.warmup]


def verdicts(found: Compared) -> list[Case]:
    """A case for every verdict."""
    return [_verdict(verdict, found) for verdict in found.verdicts]


def _cell(cell: Cell, record: Record | None, unsteady: str | None) -> Case:
    """`unsteady`: why its verdict says nothing, where the verifier is flaky."""
    name = f"r{cell.replicate}"
    if record is None:
        return Case(cell.arm, name, problem=("error", MISSING, f"{cell.name}: never ran"))
    seconds = (record.end_ns - record.start_ns) / 1e9
    note = f"; {flaky.ID}: {unsteady}" if unsteady is not None else ""
    if record.outcome == cell.expect:
        return Case(cell.arm, name, seconds, said=f"{record.outcome} at attempt {record.attempt}{note}")
    kind = "failure" if record.outcome in JUDGED else "error"
    message = f"ended {record.outcome}, expected {cell.expect}" + (f": {record.reason}" if record.reason else "")
    if unsteady is not None and kind == "failure":
        return Case(cell.arm, name, seconds, ("error", flaky.ID, message + note))
    return Case(cell.arm, name, seconds, (kind, record.outcome, message))


def _verdict(verdict: MetricVerdict, compared: Compared) -> Case:
    suite = f"{verdict.base_arm} -> {verdict.arm}"
    said = sentence(verdict)
    problem: tuple[str, str, str] | None = None
    if verdict.fails or (compared.strict and verdict.gated and verdict.verdict == "insufficient"):
        problem = ("failure", verdict.verdict, said)
    elif verdict.verdict in ("insufficient", "unlike"):
        problem = ("skipped", verdict.verdict, said)
    return Case(suite, verdict.metric, problem=problem, said=said)


def sentence(verdict: MetricVerdict) -> str:
    """A verdict in one line."""
    parts = [f"{verdict.verdict}: {value_text(verdict.base, 1)} -> {value_text(verdict.new, 1)}"]
    if verdict.ratio is not None and verdict.interval is not None:
        parts.append(f"ratio {verdict.ratio:.3f} [{verdict.interval[0]:.3f}-{verdict.interval[1]:.3f}]")
    if verdict.p_adjusted is not None:
        parts.append(f"p {verdict.p_adjusted:.2g}")
    if verdict.required_n is not None:
        parts.append(f"{verdict.required_n} runs a side could tell")
    parts.append(f"n {verdict.n[0]}/{verdict.n[1]}")
    return ", ".join([*parts, *verdict.flags, *([] if verdict.gated else ["not gated"])])


def _counts(name: str, cases: Sequence[Case]) -> dict[str, str]:
    kinds = [case.problem[0] for case in cases if case.problem is not None]
    return {
        "name": _legal(name),
        "tests": str(len(cases)),
        "failures": str(kinds.count("failure")),
        "errors": str(kinds.count("error")),
        "skipped": str(kinds.count("skipped")),
        "time": f"{sum(case.seconds for case in cases):.3f}",
    }


def _case(suite: ET.Element, case: Case) -> None:
    attributes = {"classname": _legal(case.suite), "name": _legal(case.name), "time": f"{case.seconds:.3f}"}
    element = ET.SubElement(suite, "testcase", attributes)
    if case.problem is not None:
        kind, what, message = case.problem
        found = ET.SubElement(element, kind, {"message": _legal(message)})
        if kind != "skipped":
            found.set("type", what)
            found.text = _legal(message)
    if case.said:
        ET.SubElement(element, "system-out").text = _legal(case.said)


def _legal(text: str) -> str:
    """On one line, visible: what XML 1.0 has no place for (it is all unprintable) is escaped too."""
    return one_line(text, _LONGEST)
