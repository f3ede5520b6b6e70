from __future__ import annotations

from runner.evidence.toolcalls import command_of, distinct_terminal_items, kind_of, terminal_items
from tests.unit.evidence.conversations import Log

TERMINAL = [{"type": "terminal", "terminalId": "t1"}]


def test_ids_are_distinct_over_all_three_sources() -> None:
    log = Log().tool("t1", "read").update("tool_call_update", toolCallId="t2", status="completed")
    log.asks("t1")
    log.asks("t3", kind="execute")
    assert list(log.conversation.tool_calls) == ["t1", "t2", "t3"]


def test_a_call_announced_twice_is_one() -> None:
    log = Log().tool("t1", "read").tool("t1", "read")
    assert list(log.conversation.tool_calls) == ["t1"]


def test_the_last_kind_counts_and_other_is_the_default() -> None:
    log = Log().tool("t1", None).tool("t2", "other").update("tool_call_update", toolCallId="t2", kind="edit")
    log.asks("t3", kind="execute")
    assert {id: kind_of(call) for id, call in log.conversation.tool_calls.items()} == {
        "t1": "other",
        "t2": "edit",
        "t3": "execute",
    }
    assert kind_of(None) == "other"


def test_the_command_comes_with_an_update() -> None:
    log = Log().tool("t1", "execute")
    assert command_of(log.conversation.tool_calls["t1"]) is None
    log.update("tool_call_update", toolCallId="t1", rawInput={"command": "node --test"})
    assert command_of(log.conversation.tool_calls["t1"]) == "node --test"
    assert command_of(None) is None


def test_what_has_no_id_is_no_call() -> None:
    log = Log().update("tool_call", title="Terminal").update("plan", toolCallId="t9")
    assert log.conversation.tool_calls == {}


def test_terminal_items_count_per_update_but_not_in_asks() -> None:
    log = Log().tool("t1", "execute", content=TERMINAL).update("tool_call_update", toolCallId="t1", content=TERMINAL)
    log.asks("t1", content=TERMINAL)
    assert [(item.tool_call, item.terminal) for item in terminal_items(log.conversation)] == [
        ("t1", "t1"),
        ("t1", "t1"),
    ]


def test_a_call_that_is_refined_once_or_twice_before_its_next_status_shows_its_terminal_once() -> None:
    def shown(refinements: int) -> int:
        log = Log().tool("t1", "execute", content=TERMINAL)
        for _ in range(refinements):
            log.update("tool_call_update", toolCallId="t1", content=TERMINAL)
        log.update("tool_call_update", toolCallId="t1", status="in_progress", content=TERMINAL)
        log.update("tool_call_update", toolCallId="t1", status="completed", content=TERMINAL)
        return distinct_terminal_items(log.conversation)

    assert [shown(0), shown(1), shown(2)] == [3, 3, 3]


def test_each_terminal_of_each_call_is_shown_by_itself() -> None:
    log = Log().tool("t1", "execute", content=[*TERMINAL, {"type": "terminal", "terminalId": "t9"}])
    log.tool("t2", "execute", content=TERMINAL).asks("t2", content=TERMINAL)
    assert distinct_terminal_items(log.conversation) == 3


def test_text_content_is_no_terminal() -> None:
    log = Log().tool("t1", "execute", content=[{"type": "content", "content": {"type": "text", "text": "ok"}}])
    assert terminal_items(log.conversation) == []


def test_only_the_agents_frames_count() -> None:
    log = Log()
    log.client(method="session/update", params={"update": {"sessionUpdate": "tool_call", "toolCallId": "t1"}})
    assert log.conversation.tool_calls == {}
