from __future__ import annotations

from runner.evidence.conversation import Conversation, computed_once
from tests.unit.evidence.conversations import SESSION, Log


def a_run() -> Log:
    log = Log().initialize().session()
    prompt = log.prompt()
    log.tool("t1", "edit")
    log.asks("t2", kind="execute")
    log.says("done")
    return log.end(prompt)


def test_requests_are_listed_by_sender_and_method_with_their_responses() -> None:
    conversation = a_run().conversation
    assert [e.request.method for e in conversation.requests("client")] == [
        "initialize",
        "session/new",
        "session/prompt",
    ]
    (ask,) = conversation.requests("agent")
    assert ask.request.method == "session/request_permission"
    assert ask.response is not None
    assert ask.response.answers == ask.request.seq
    first = conversation.first("client", "session/prompt")
    assert first is not None
    assert first.result == {"stopReason": "end_turn"}
    assert conversation.first("client", "session/load") is None
    assert conversation.requests("agent", "fs/read_text_file") == ()


def test_everything_that_tells_of_a_call_is_listed_in_the_order_of_the_log() -> None:
    log = Log()
    log.asks("t1")
    log.tool("t2", "edit")
    log.asks("t2")
    sightings = log.conversation.sightings
    assert [(seen.source, seen.body["toolCallId"]) for seen in sightings] == [
        ("permission", "t1"),
        ("tool_call", "t2"),
        ("tool_call_update", "t2"),
        ("permission", "t2"),
    ]
    assert [seen.message.seq for seen in sightings] == sorted(seen.message.seq for seen in sightings)
    assert list(log.conversation.tool_calls) == ["t1", "t2"]


def test_a_message_is_found_by_its_frame_and_a_frame_of_stderr_is_none() -> None:
    log = Log().initialize()
    log.raw("stderr", b"a warning")
    log.says("hello")
    conversation = log.conversation
    assert [getattr(conversation.message(seq), "kind", None) for seq in range(-1, 5)] == [
        None,
        "request",
        "result",
        None,
        "notification",
        None,
    ]


def test_between_leaves_its_two_frames_out() -> None:
    log = Log().says("a").says("b").says("c").says("d")
    assert [message.seq for message in log.conversation.between(0, 3)] == [1, 2]
    assert len(log.conversation.between(3, 0)) == 0
    assert len(log.conversation.between(-5, 99)) == 4


def test_cancels_are_the_clients_notifications() -> None:
    log = Log()
    log.client(method="session/cancel", params={"sessionId": SESSION})
    log.agent(method="session/cancel", params={"sessionId": SESSION})
    log.client(id=1, method="session/cancel", params={"sessionId": SESSION})
    assert [cancel.seq for cancel in log.conversation.cancels] == [0]


def test_a_figure_is_computed_once_for_each_conversation() -> None:
    asked: list[int] = []

    @computed_once
    def length(conversation: Conversation) -> int:
        asked.append(len(conversation))
        return len(conversation)

    first, second = a_run().conversation, Conversation()
    assert [length(first), length(first), length(second), length(second)] == [len(first), len(first), 0, 0]
    assert asked == [len(first), 0]
