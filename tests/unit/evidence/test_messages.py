from __future__ import annotations

import pytest

from runner.evidence.conversation import Conversation
from runner.evidence.messages import decode
from runner.wire.frames import Frame
from runner.wire.jsonrpc import MAX_MESSAGE_BYTES
from tests.unit.evidence.conversations import SESSION, Log


def test_a_response_knows_what_it_answers() -> None:
    log = Log().initialize()
    request, response = log.conversation
    assert (request.sender, request.kind, request.method, request.answers) == ("client", "request", "initialize", None)
    assert (response.sender, response.kind, response.method, response.answers) == ("agent", "result", "initialize", 0)
    assert response.payload["protocolVersion"] == 1


def test_the_parties_ids_are_apart() -> None:
    """Client and agent both count from 0 (as real agents do): answers must not cross over."""
    log = Log()
    prompt = log.prompt()
    ask = log.asks("t1")
    log.end(prompt)
    messages = log.conversation
    assert [m.answers for m in messages] == [None, None, ask, prompt]
    assert [e.request.seq for e in messages.requests("client")] == [prompt]
    assert [e.request.seq for e in messages.requests("agent")] == [ask]


def test_number_and_string_ids_are_apart() -> None:
    log = Log()
    log.client(id=1, method="session/new", params={})
    log.client(id="1", method="session/prompt", params={})
    log.agent(id="1", result={"stopReason": "end_turn"})
    assert log.conversation[-1].method == "session/prompt"


def test_a_null_id_is_an_id() -> None:
    log = Log()
    log.client(id=None, method="session/new", params={})
    log.agent(id=None, result={"sessionId": SESSION})
    assert log.conversation[-1].answers == 0


def test_a_reused_id_answers_the_open_request() -> None:
    log = Log()
    log.client(id=1, method="first", params={})
    log.agent(id=1, result={})
    log.client(id=1, method="second", params={})
    log.agent(id=1, error={"code": -32603, "message": "no"})
    assert [(m.kind, m.method, m.answers) for m in log.conversation[1::2]] == [
        ("result", "first", 0),
        ("error", "second", 2),
    ]


def test_a_response_to_nothing_answers_nothing() -> None:
    log = Log()
    log.agent(id=7, result={})
    (message,) = log.conversation
    assert (message.kind, message.method, message.answers) == ("result", None, None)


@pytest.mark.parametrize(
    "line", [b"", b"Welcome!", b"[1, 2]", b"3", b"{", b"\xff\xfe", b'{"jsonrpc":"2.0"}', b'{"id":{}}']
)
def test_what_is_no_message_is_kept_as_invalid(line: bytes) -> None:
    log = Log()
    log.raw("stdout", line)
    (message,) = log.conversation
    assert (message.kind, message.payload, message.length) == ("invalid", {}, len(line))


def test_stderr_carries_no_messages() -> None:
    log = Log().initialize()
    log.raw("stderr", b'{"jsonrpc":"2.0","id":0,"result":{}}')
    assert len(log.conversation) == 2


def test_cut_and_oversize_frames_keep_their_length() -> None:
    frame = Frame(3, 0, "a2c", "stdout", b"", flags=("oversize",), true_length=70_000_000)
    (message,) = decode([frame])
    assert (message.kind, message.length) == ("invalid", 70_000_000)


def test_params_that_are_no_object_are_empty() -> None:
    log = Log()
    log.agent(method="session/update", params=[1])
    log.agent(method="session/update", params={"update": "x", "sessionId": 3})
    assert [(u.session, u.kind, u.body) for u in log.conversation.updates] == [("", "", {}), ("", "", {})]


def test_updates_are_the_agents_notifications_only() -> None:
    log = Log().says("hello")
    log.client(method="session/update", params={})
    log.agent(id=9, method="session/update", params={})
    assert [u.kind for u in log.conversation.updates] == ["agent_message_chunk"]


def test_an_open_request_has_no_response() -> None:
    log = Log()
    log.prompt()
    (exchange,) = log.conversation.requests("client", "session/prompt")
    assert exchange.response is None
    assert exchange.result is None


def test_an_error_has_no_result() -> None:
    log = Log()
    log.request("session/new", error={"code": -32000, "message": "auth"})
    (exchange,) = log.conversation.requests("client")
    assert exchange.response is not None
    assert exchange.result is None


def test_of_pieces_the_text_is_not_held_but_for_a_reader() -> None:
    log = Log().says("a", "m1").says("b", "m1").says("c", "m2").says("d", kind="agent_thought_chunk")
    held = Conversation.of(log.frames)
    assert held[0].payload is held[1].payload
    assert [update.body for update in held.updates] == [
        {"sessionUpdate": "agent_message_chunk", "messageId": "m1"},
        {"sessionUpdate": "agent_message_chunk", "messageId": "m1"},
        {"sessionUpdate": "agent_message_chunk", "messageId": "m2"},
        {"sessionUpdate": "agent_thought_chunk"},
    ]
    assert held.left_out == 0
    whole = Conversation(decode(log.frames, whole=True)).updates
    assert [update.body["content"]["text"] for update in whole] == ["a", "b", "c", "d"]


def test_what_is_held_is_bounded_but_every_answer_to_it_is() -> None:
    log = Log().initialize().session()
    prompt = log.prompt()
    for _ in range(100):
        log.usage(1)
    log.end(prompt)
    all_of_them = decode(log.frames)
    held = decode(log.frames, held_bytes=30_000)
    assert 0 < held.left_out < 100
    assert len(held) + held.left_out == len(all_of_them) == len(log.frames)
    (turn,) = Conversation(held).requests("client", "session/prompt")
    assert turn.result == {"stopReason": "end_turn"}
    assert decode(log.frames, held_bytes=30_000, whole=True).left_out == 0


def test_a_line_that_the_client_does_not_parse_is_no_message_here_either() -> None:
    log = Log().says("x" * MAX_MESSAGE_BYTES)
    (message,) = decode(log.frames)
    assert (message.kind, message.payload) == ("invalid", {})
