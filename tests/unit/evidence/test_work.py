"""Work outside the turn is found; what real agents do beside it is not accused."""

from __future__ import annotations

from typing import Any

import pytest

from runner.evidence import cost, metrics
from runner.evidence.conversation import Conversation
from runner.evidence.work import AFTER, BEFORE, ChangesSeen, ChangeTime, work_outside
from runner.records.schema import Change as Differs
from runner.records.schema import Finding, Turn, Verdict
from tests.unit.evidence.conversations import FULL, Log, at, entry, record

#: Prompted at 500 ms, answered at 1000 ms.
TURN = [Turn(sent_ns=at(500), result_ns=at(1000))]
VERDICT = Verdict(passed=True, changes=[Differs(path="src/a.js", status="M"), Differs(path="old/b.js", status="D")])


def found(
    *entries: Any,
    turns: Any = TURN,
    log: Log | None = None,
    early: Any = (),
    last: Any = (),
    verdict: Verdict | None = VERDICT,
    offset_ns: int = 0,
) -> list[Finding]:
    changed = ChangesSeen(early, [ChangeTime(path, kind, at(ms)) for path, kind, ms in last])
    return work_outside(turns, log.conversation if log else Conversation(), entries, changed, verdict, offset_ns)


def ids(findings: list[Finding]) -> list[str]:
    return [finding.id for finding in findings]


def test_work_in_the_turn_is_work_in_the_turn() -> None:
    log = Log().initialize().session()
    prompt = log.wait(0).prompt()
    log.wait(1).tool("c1", "edit").asks("c1")
    log.end(prompt)
    turns = [Turn(sent_ns=at(500), result_ns=at(502))]
    assert found(entry(500.5, 501), turns=turns, log=log, last=[("src/a.js", "file", 501.5)]) == []


@pytest.mark.parametrize(
    ("entries", "wanted"),
    [
        ([entry(1001, 1010)], [AFTER]),
        ([entry(499, 600)], [BEFORE]),
        ([entry(100, 120), entry(1500, 1600, seq=1)], [BEFORE, AFTER]),
        ([entry(1001, 1010, kind="fault")], [AFTER]),
        # Asked in the turn, and the answer was given before the model had said a word.
        ([entry(999, 1010, t_first_byte_ns=at(1005))], [AFTER]),
        # The model's last bytes may be on their way while the agent answers.
        ([entry(900, 1010, t_first_byte_ns=at(950))], []),
        ([entry(999, 1010, t_first_byte_ns=at(1005), aborted=True)], []),
        # Titles, suggestions, memory agents, probes of a connection.
        ([entry(1001, 1010, kind="side")], []),
        ([entry(100, 110, kind="side")], []),
        ([entry(1001, 1010, kind="refused", step=None)], []),
        ([entry(1001, 1010, kind="miss", step=None)], []),
    ],
)
def test_main_requests(entries: Any, wanted: list[str]) -> None:
    assert ids(found(*entries)) == wanted


def test_a_cancelled_turn_may_leave_a_request_behind() -> None:
    turns = [Turn(sent_ns=at(500), result_ns=at(1000), cancelled=True)]
    assert found(entry(999, 1010, t_first_byte_ns=at(1005)), turns=turns) == []
    assert ids(found(entry(1001, 1010), turns=turns)) == [AFTER]


def test_between_two_turns_is_after_the_first() -> None:
    turns = [*TURN, Turn(sent_ns=at(2000), result_ns=at(3000))]
    assert found(entry(2500, 2600), turns=turns) == []
    assert ids(found(entry(1500, 1600), turns=turns)) == [AFTER]


def test_a_turn_without_an_answer_has_no_end() -> None:
    assert found(entry(9000, 9001), turns=[Turn(sent_ns=at(500))], last=[("src/a.js", "file", 9000)]) == []
    assert found(entry(9000, 9001), turns=[]) == []


def test_two_clocks_are_taken_into_account() -> None:
    assert found(entry(1700, 1710), offset_ns=at(800) - at(0)) == []
    assert ids(found(entry(1900, 1910), offset_ns=at(800) - at(0))) == [AFTER]
    # And no better than they are known.
    assert found(entry(1803, 1810), offset_ns=at(800) - at(0)) == []


@pytest.mark.parametrize(
    ("last", "wanted"),
    [
        ([("src/a.js", "file", 999)], []),
        ([("src/a.js", "file", 1001)], [AFTER]),
        # Prepared beside it and moved into its place.
        ([("src", "folder", 1001)], [AFTER]),
        ([("old", "folder", 1001)], [AFTER]),
        ([("", "replaced", 1001)], [AFTER]),
        # No part of the result.
        ([("notes.txt", "file", 1001)], []),
        ([("lib", "folder", 1001)], []),
        # Comes with every file of the agent's own state.
        ([("", "folder", 1001)], []),
        ([("src/a.js", "file", 400)], [BEFORE]),
        # As exact as the stamp is.
        ([("src/a.js", "file", 495)], []),
    ],
)
def test_files(last: Any, wanted: list[str]) -> None:
    assert ids(found(last=last)) == wanted


def test_a_file_changed_again_in_the_turn_was_changed_before_it() -> None:
    findings = found(early=["src/a.js", "notes.txt"], last=[("src/a.js", "file", 800)])
    assert [(one.id, one.message) for one in findings] == [(BEFORE, "before the prompt: changed src/a.js")]


def test_without_a_verdict_no_file_is_held_against_anybody() -> None:
    assert found(early=["src/a.js"], last=[("src/a.js", "file", 1001)], verdict=None) == []


def test_calls_and_callbacks_after_the_answer() -> None:
    log = Log().initialize().session()
    prompt = log.prompt()
    log.tool("c1", "edit").end(prompt).wait(1)
    turns = [Turn(sent_ns=at(500), result_ns=at(500))]
    log.update("tool_call_update", toolCallId="c1", status="completed")  # late, and no new work
    assert found(turns=turns, log=log) == []
    log.tool("c2", "edit")
    log.calls("fs/write_text_file", {"path": "/workspace/f/a", "content": "x"})
    log.asks("c3", kind="execute")
    log.calls("terminal/create", {"command": "make"}, error={"code": -32601, "message": "no"})
    (finding,) = found(turns=turns, log=log)
    assert finding.id == AFTER
    assert "3 tool calls" in finding.message
    assert finding.seq is not None
    assert b"c2" in log.frames[finding.seq].raw


def test_what_a_session_tells_again_is_no_work() -> None:
    log = Log().initialize(FULL).session()
    log.end(log.prompt())
    loading = log.wait(1).open("session/load", sessionId="s")
    log.tool("again", "edit")
    log.close(loading)
    assert found(turns=[Turn(sent_ns=at(500), result_ns=at(500))], log=log) == []


def test_the_words_are_bounded_and_printable() -> None:
    paths = [f"{number}\udcff{'x' * 300}" for number in range(50)]
    verdict = Verdict(passed=True, changes=[Differs(path=path, status="A") for path in paths])
    (finding,) = found(last=[(path, "file", 1001) for path in paths], verdict=verdict)
    assert finding.message.encode()
    assert len(finding.message) < 600
    assert "and 47 more" in finding.message


@pytest.mark.parametrize("name", [AFTER, BEFORE])
def test_its_times_are_no_figures(name: str) -> None:
    log = Log().initialize().session()
    log.end(log.prompt())
    figures: dict[str, Any] = {}
    for findings in ([], [Finding(id=name, message="x")]):
        figures[str(len(findings))] = metrics.compute(
            record(findings=findings), log.conversation, [entry(500, 501)], None
        )[1]
    timed = {metric for metric, value in figures["0"].items() if value is not None}
    untimed = {metric for metric, value in figures["1"].items() if value is not None}
    assert timed - untimed == timed & cost.TIMES != set()
    assert untimed == {"cpu_s", "peak_anon_mb", "overhead_ms"}
    assert figures["0"].keys() == figures["1"].keys()
