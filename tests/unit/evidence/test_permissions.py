from __future__ import annotations

import pytest

from runner.evidence.permissions import asks, by_kind
from tests.unit.evidence.conversations import Log


def test_an_ask_as_a_real_agent_sends_it() -> None:
    log = Log()
    seq = log.asks("t1", after=12, kind="execute", title="node --test", rawInput={"command": "node --test"})
    (ask,) = asks(log.conversation)
    assert (ask.seq, ask.tool_call, ask.kind, ask.title, ask.command) == (
        seq,
        "t1",
        "execute",
        "node --test",
        "node --test",
    )
    assert [(option.id, option.kind) for option in ask.options] == [
        ("allow_always", "allow_always"),
        ("allow", "allow_once"),
        ("reject", "reject_once"),
    ]
    assert (ask.answer, ask.option, ask.answered_seq, ask.wait_ms) == ("allow_once", "allow", seq + 1, 12.0)


@pytest.mark.parametrize(
    ("option", "answer"),
    [
        ("allow_always", "allow_always"),
        ("reject", "reject_once"),
        ("cancelled", "cancelled"),
        ("never offered", "not-offered"),
    ],
)
def test_the_answer_is_the_options_kind(option: str, answer: str) -> None:
    log = Log()
    log.asks("t1", answer=option)
    assert [ask.answer for ask in asks(log.conversation)] == [answer]


def test_an_ask_that_nobody_answered() -> None:
    log = Log()
    log.asks("t1", answer=None)
    (ask,) = asks(log.conversation)
    assert (ask.answer, ask.answered_seq, ask.wait_ms) == (None, None, None)


def test_an_ask_that_was_refused_with_an_error() -> None:
    log = Log()
    log.calls(
        "session/request_permission", {"toolCall": {"toolCallId": "t1"}}, error={"code": -32602, "message": "bad"}
    )
    (ask,) = asks(log.conversation)
    assert (ask.answer, ask.options) == ("error", ())


def test_kind_title_and_command_are_joined_from_the_tool_call() -> None:
    """Some agents send nothing but the toolCallId."""
    log = Log().tool("t1", "execute", "ls").update("tool_call_update", toolCallId="t1", rawInput={"command": "ls"})
    log.asks("t1")
    log.asks("t2")
    known, unknown = asks(log.conversation)
    assert (known.kind, known.title, known.command) == ("execute", "ls", "ls")
    assert (unknown.kind, unknown.title, unknown.command) == ("other", "", None)


def test_by_kind() -> None:
    log = Log()
    for kind in ("execute", "edit", "execute"):
        log.asks(f"t-{kind}", kind=kind)
    assert by_kind(asks(log.conversation)) == {"execute": 2, "edit": 1}
    assert by_kind([]) == {}
