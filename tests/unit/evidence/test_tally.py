from __future__ import annotations

from runner.evidence.tally import late_updates, tally
from tests.unit.evidence.conversations import SESSION, Log


def test_methods_per_direction() -> None:
    log = Log().initialize().session()
    prompt = log.prompt()
    log.says("a", "m1").tool("t1", "execute")
    log.asks("t1")
    log.request("session/set_mode", error={"code": -32601, "message": "no"})
    log.end(prompt)
    log.raw("stdout", b"debug line")
    counts = tally(log.conversation)
    assert counts.client == {
        "initialize": 1,
        "session/new": 1,
        "session/prompt": 1,
        "<result>": 1,
        "session/set_mode": 1,
    }
    assert counts.agent == {
        "<result>": 3,
        "session/update": 3,
        "session/request_permission": 1,
        "<error>": 1,
        "<invalid>": 1,
    }
    assert counts.frames == len(log.frames)


def test_chunks_of_one_message_count_once() -> None:
    log = Log().says("a", "m1").says("b", "m1").says("c", "m2")
    counts = tally(log.conversation)
    assert counts.updates == {"agent_message_chunk": 2}
    assert counts.chunks == {"agent_message_chunk": 3}


def test_a_message_with_an_id_goes_on_after_anything() -> None:
    log = Log().says("a", "m1").tool("t1", "read").says("b", "m1")
    assert tally(log.conversation).updates["agent_message_chunk"] == 1


def test_without_an_id_a_message_is_a_row_of_chunks() -> None:
    log = Log().says("a").says("b").tool("t1", "read").says("c")
    assert tally(log.conversation).updates["agent_message_chunk"] == 2


def test_usage_and_announcements_do_not_break_a_row() -> None:
    """They come beside the text at any moment: a count that they could change would vary from run to run."""
    log = Log().says("a").usage(3).commands("init").says("b")
    assert tally(log.conversation).updates["agent_message_chunk"] == 1


def test_thought_breaks_a_row_of_text() -> None:
    log = Log().says("a").says("hm", kind="agent_thought_chunk").says("b")
    assert tally(log.conversation).updates == {"agent_message_chunk": 2, "agent_thought_chunk": 1}


def test_a_prompt_breaks_a_row() -> None:
    log = Log().says("a")
    log.prompt()
    log.says("b")
    assert tally(log.conversation).updates["agent_message_chunk"] == 2


def test_sessions_run_apart() -> None:
    log = Log().says("a").update("agent_message_chunk", session="other").says("b")
    assert tally(log.conversation).updates["agent_message_chunk"] == 2
    with_ids = Log().says("a", "m1").update("agent_message_chunk", session="other", messageId="m1")
    assert tally(with_ids.conversation).updates["agent_message_chunk"] == 2


def test_the_same_id_for_text_and_thought_is_two_messages() -> None:
    log = Log().says("hm", "m1", kind="agent_thought_chunk").says("a", "m1")
    assert tally(log.conversation).updates == {"agent_thought_chunk": 1, "agent_message_chunk": 1}


def test_other_updates_count_each() -> None:
    log = Log().usage(1).usage(2).tool("t1", "read").update("")
    assert tally(log.conversation).updates == {"usage_update": 2, "tool_call": 1, "tool_call_update": 1, "<none>": 1}


def test_what_refines_a_call_counts_with_the_status_it_leads_to() -> None:
    """Both orders were seen of one agent for the same call; its count must not tell them apart."""

    def refine(log: Log, **fields: str) -> Log:
        return log.update("tool_call_update", toolCallId="t1", **fields)

    streamed = Log().update("tool_call", toolCallId="t1", title="Terminal")
    streamed = refine(refine(streamed, title="node --test"), title="node --test")
    raced = refine(Log().update("tool_call", toolCallId="t1", title="node --test"), title="Terminal")
    counts = [tally(refine(log, status="completed").conversation) for log in (streamed, raced)]
    assert [one.updates for one in counts] == [{"tool_call": 1, "tool_call_update": 1}] * 2
    assert [one.chunks["tool_call_update"] for one in counts] == [3, 2]


def test_every_status_of_every_call_counts() -> None:
    log = Log()
    for call in ("t1", "t2"):
        for status in ("in_progress", "completed"):
            log.update("tool_call_update", toolCallId=call, status=status)
    log.update("tool_call_update", toolCallId="t1", title="afterwards")
    assert tally(log.conversation).updates == {"tool_call_update": 5}


def test_late_updates() -> None:
    log = Log()
    prompt = log.prompt()
    log.says("in time").end(prompt)
    assert late_updates(log.conversation) == []
    log.says("late").tool("t1", "read")
    assert [update.kind for update in late_updates(log.conversation)] == [
        "agent_message_chunk",
        "tool_call",
        "tool_call_update",
    ]
    assert tally(log.conversation).late_updates == 3


def test_what_is_no_part_of_a_turn_is_never_late() -> None:
    log = Log()
    log.end(log.prompt())
    log.usage(3).commands("init")
    assert late_updates(log.conversation) == []


def test_nothing_is_late_before_the_first_prompt_nor_in_the_next_turn() -> None:
    log = Log().says("early")
    log.end(log.prompt())
    second = log.prompt()
    log.says("second turn").end(second)
    assert late_updates(log.conversation) == []


def test_another_sessions_prompt_does_not_excuse() -> None:
    log = Log()
    log.end(log.prompt())
    log.open("session/prompt", sessionId="other")
    log.says("late here")
    assert len(late_updates(log.conversation)) == 1


def test_a_loads_replay_is_not_late() -> None:
    log = Log()
    log.end(log.prompt())
    load = log.open("session/load", sessionId=SESSION)
    log.says("replayed").close(load)
    assert late_updates(log.conversation) == []


def test_a_prompt_that_failed_was_answered() -> None:
    log = Log()
    log.close(log.prompt(), error={"code": -32603, "message": "no"})
    log.says("late")
    assert len(late_updates(log.conversation)) == 1
