"""What the client sends, in which state it may, and that no line of an agent brings it down."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.acp.client import Client, LocalProtocolError
from runner.acp.events import ClientRequest, Event, Initialized, PermissionRequest, PromptDone, SessionCreated
from runner.acp.findings import DESCRIPTIONS
from runner.acp.policy import Decision
from runner.errors import InfraError, ProtocolViolation

if TYPE_CHECKING:
    from tests.unit.acp.conftest import Peer


def parsed(line: bytes) -> dict[str, Any]:
    assert line.endswith(b"\n")
    value = json.loads(line)
    assert value.pop("jsonrpc") == "2.0"
    assert isinstance(value, dict)
    return value


def test_the_whole_of_a_turn(fresh: Peer) -> None:
    client = fresh.client
    assert parsed(client.initialize({"name": "n", "version": "1"})) == {
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": 1,
            "clientCapabilities": client.capabilities,
            "clientInfo": {"name": "n", "version": "1"},
        },
    }
    (initialized,) = fresh.answer({"protocolVersion": 1, "agentInfo": {"name": "a"}})
    assert isinstance(initialized, Initialized)
    assert (initialized.version, initialized.result["agentInfo"]) == (1, {"name": "a"})
    assert parsed(client.session_new("/w")) == {
        "id": 1,
        "method": "session/new",
        "params": {"cwd": "/w", "mcpServers": []},
    }
    (created,) = fresh.answer({"sessionId": "s"})
    assert isinstance(created, SessionCreated)
    assert (created.session_id, created.method) == ("s", "session/new")
    assert parsed(client.session_prompt("s", "hé")) == {
        "id": 2,
        "method": "session/prompt",
        "params": {"sessionId": "s", "prompt": [{"type": "text", "text": "hé"}]},
    }
    (done,) = fresh.answer({"stopReason": "end_turn"})
    assert isinstance(done, PromptDone)
    assert (done.session_id, done.turn, done.stop_reason, done.seq, done.t_ns) == ("s", 0, "end_turn", 3, 3000)
    client.finish()
    assert fresh.found() == []


def test_additional_directories_are_sent_only_where_there_are_any(peer: Peer) -> None:
    line = peer.client.session_new("/w", [{"name": "m", "command": "c"}], ["/extra"])
    assert parsed(line)["params"] == {
        "cwd": "/w",
        "mcpServers": [{"name": "m", "command": "c"}],
        "additionalDirectories": ["/extra"],
    }


@pytest.mark.parametrize(
    ("value", "params"),
    [
        ("opus", {"value": "opus"}),
        (True, {"value": True, "type": "boolean"}),
        (False, {"value": False, "type": "boolean"}),
    ],
)
def test_a_config_option_says_its_type(peer: Peer, value: str | bool, params: dict[str, Any]) -> None:
    line = peer.client.set_config_option("s", "model", value)
    assert parsed(line)["params"] == {"sessionId": "s", "configId": "model", **params}


def test_set_mode(peer: Peer) -> None:
    assert parsed(peer.client.set_mode("s", "plan"))["params"] == {"sessionId": "s", "modeId": "plan"}


def test_our_own_faults_are_ours(fresh: Peer) -> None:
    with pytest.raises(LocalProtocolError, match="before initialize"):
        fresh.client.session_new("/w")
    for call in (
        lambda: fresh.client.session_prompt("s", "x"),
        lambda: fresh.client.set_mode("s", "x"),
        lambda: fresh.client.set_config_option("s", "x", "y"),
        lambda: fresh.client.session_cancel("s"),
    ):
        with pytest.raises(LocalProtocolError, match="'s' is not open"):
            call()
    assert issubclass(LocalProtocolError, InfraError)
    assert fresh.client.pending == []
    assert fresh.client.last_id is None


def test_call_asks_anything_in_any_state(fresh: Peer) -> None:
    line = fresh.client.call("session/list", {"cursor": None})
    assert parsed(line) == {"id": 0, "method": "session/list", "params": {"cursor": None}}
    assert [pending.method for pending in fresh.client.pending] == ["session/list"]


def test_what_json_cannot_hold_changes_nothing(fresh: Peer) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        fresh.client.call("x", {"a": float("nan")})
    assert fresh.client.pending == []
    assert parsed(fresh.client.call("x"))["id"] == 0


def test_requests_are_answered_once_in_the_id_s_own_form(peer: Peer) -> None:
    peer.prompt()
    peer.raw(b'{"jsonrpc":"2.0","id":1.50,"method":"terminal/create","params":{"sessionId":"s","command":"ls"}}')
    (request,) = peer.client.open_requests
    assert (request.method, request.session_id) == ("terminal/create", "s")
    line = peer.client.respond(request.id, {"terminalId": "t1"})
    assert line == b'{"jsonrpc":"2.0","id":1.50,"result":{"terminalId":"t1"}}\n'
    assert not peer.client.owes_answer
    assert peer.client.respond(request.id, {}) == b""
    assert peer.client.respond_error(request.id, -1, "m") == b""


def test_an_error_answer(peer: Peer) -> None:
    peer.send(id="r", method="fs/read_text_file", params={"sessionId": "s", "path": "/x"})
    line = peer.client.respond_error("r", -32002, "not found", {"path": "/x"})
    assert parsed(line) == {"id": "r", "error": {"code": -32002, "message": "not found", "data": {"path": "/x"}}}


@pytest.mark.parametrize(
    ("decision", "outcome"),
    [
        (Decision("allow_once", "yes", "selected", 0, None), {"outcome": "selected", "optionId": "yes"}),
        (Decision(None, None, "cancelled", 0, None), {"outcome": "cancelled"}),
    ],
)
def test_a_permission_is_answered_as_decided(peer: Peer, decision: Decision, outcome: dict[str, str]) -> None:
    event = peer.prompt().ask(id=None)
    assert isinstance(event, PermissionRequest)
    line = peer.client.answer_permission(event.id, decision)
    assert parsed(line) == {"id": None, "result": {"outcome": outcome}}


def test_never_leaves_the_ask_open_until_the_cancel(peer: Peer) -> None:
    event = peer.prompt().ask(id=0)
    assert isinstance(event, PermissionRequest)
    assert peer.client.answer_permission(event.id, Decision(None, None, "never", 0, None)) == b""
    assert peer.client.owes_answer
    notification, answer = peer.client.session_cancel("s")
    assert parsed(notification) == {"method": "session/cancel", "params": {"sessionId": "s"}}
    assert parsed(answer) == {"id": 0, "result": {"outcome": {"outcome": "cancelled"}}}
    assert not peer.client.owes_answer


def test_cancel_answers_every_ask_of_its_session_and_nothing_else(peer: Peer) -> None:
    peer.session("other").prompt().prompt("other")
    peer.ask(id=1)
    peer.ask(id=2, session="other")
    peer.ask(id=3)
    peer.send(id=4, method="terminal/wait_for_exit", params={"sessionId": "s", "terminalId": "t"})
    lines = [parsed(line) for line in peer.client.session_cancel("s")]
    assert [line.get("id") for line in lines] == [None, 1, 3]
    assert [request.id for request in peer.client.open_requests] == [2, 4]


def test_a_late_answer_to_a_cancelled_ask_is_nothing(peer: Peer) -> None:
    peer.prompt().ask(id=1)
    peer.client.session_cancel("s")
    assert peer.client.answer_permission(1, Decision("allow_once", "yes", "selected", 0, None)) == b""


def test_open_requests_are_in_the_order_they_came(peer: Peer) -> None:
    for id in (9, "a", 3):
        peer.send(id=id, method="fs/read_text_file", params={"sessionId": "s", "path": "/x"})
    peer.client.respond(9, {"content": ""})
    peer.send(id=9, method="fs/read_text_file", params={"sessionId": "s", "path": "/x"})
    assert [request.id for request in peer.client.open_requests] == ["a", 3, 9]


def test_two_open_requests_with_one_id_are_both_answered(peer: Peer) -> None:
    for path in ("/first", "/second"):
        peer.send(id=1, method="fs/read_text_file", params={"sessionId": "s", "path": path})
    assert peer.found() == ["duplicate-request-id"]
    assert peer.client.respond(1, {"content": "a"}) != b""
    assert peer.client.respond(1, {"content": "b"}) != b""
    assert peer.client.respond(1, {"content": "c"}) == b""


def test_a_message_above_the_limit_is_not_parsed() -> None:
    client = Client({}, max_message_bytes=10)
    assert client.receive(b'{"id":123456789}', 4, 5) == []
    (finding,) = client.findings.kept
    assert (finding.id, finding.seq) == ("message-too-large", 4)


@pytest.mark.parametrize(
    ("raw", "ids"),
    [
        (b"hello", ["not-json"]),
        (b"\xff", ["not-utf8"]),
        (b"[]", ["batch"]),
        (b"1", ["not-object"]),
        (b"", ["blank-line"]),
        (b'{"jsonrpc":"2.0"}', ["not-jsonrpc"]),
        (b'\xef\xbb\xbf{"method":"_x"}', ["byte-order-mark", "jsonrpc-version"]),
    ],
)
def test_malformed_lines_are_findings(peer: Peer, raw: bytes, ids: list[str]) -> None:
    events = peer.raw(raw)
    assert all(not event.reply for event in events)
    assert peer.found() == ids
    assert all(finding.seq == peer.seq for finding in peer.client.findings.kept)


def test_a_batch_is_not_processed(peer: Peer) -> None:
    peer.prompt()
    assert peer.raw(b'[{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}]') == []
    assert [pending.method for pending in peer.client.pending] == ["session/prompt"]


def test_findings_from_the_framer_can_be_noted(peer: Peer) -> None:
    peer.client.note("oversize", "70 MB", 3)
    assert peer.found() == ["oversize"]
    with pytest.raises(KeyError):
        peer.client.note("no-such-finding", "x")


scalars = (
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats(-2, 2) | st.sampled_from(["s", "", "c", "tool_call"])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["sessionId", "update", "toolCall", "requestId", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)
tool_calls = st.fixed_dictionaries(
    {"sessionUpdate": st.sampled_from(["tool_call", "tool_call_update", "plan", "notice", "new_kind"])},
    optional={
        "toolCallId": st.sampled_from(["c", "d"]) | scalars,
        "status": st.sampled_from(["pending", "completed", "failed", "odd"]) | scalars,
        "kind": scalars,
        "content": values,
        "locations": values,
        "rawInput": values,
    },
)
params = values | st.fixed_dictionaries({"sessionId": st.sampled_from(["s", "other"]), "update": tool_calls | values})
methods = st.sampled_from(
    [
        "session/update",
        "session/request_permission",
        "fs/read_text_file",
        "terminal/create",
        "elicitation/create",
        "$/cancel_request",
        "_ext",
        "unknown",
    ]
)
messages = st.fixed_dictionaries(
    {},
    optional={"id": scalars, "method": methods | scalars, "params": params, "result": values, "error": values},
)


@given(st.lists(messages, max_size=20))
def test_no_message_brings_the_client_down(sent: list[dict[str, Any]]) -> None:
    client = Client({"fs": {"readTextFile": True}, "terminal": True, "elicitation": {"form": {}}})
    client.initialize({"name": "t", "version": "0"})
    client.receive(b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}', 1, 1)
    client.session_new("/w")
    client.receive(b'{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}', 2, 2)
    client.session_prompt("s", "x")
    events: list[Event] = []
    for seq, message in enumerate(sent, start=3):
        events += client.receive(json.dumps(message).encode(), seq, seq)
    client.finish()
    assert set(client.findings.counts) <= set(DESCRIPTIONS)
    assert all(parsed(event.reply) for event in events if event.reply)
    answerable = [event for event in events if isinstance(event, PermissionRequest | ClientRequest) and not event.reply]
    answered = {event.seq for event in answerable} - {request.seq for request in client.open_requests}
    assert len(answered) == sum(type(event).__name__ == "RequestCancelled" for event in events)


@given(st.lists(st.binary(max_size=60), max_size=10))
def test_no_bytes_bring_the_client_down(lines: list[bytes]) -> None:
    client = Client({})
    for seq, raw in enumerate(lines):
        try:
            client.receive(raw, seq, seq)
        except ProtocolViolation:
            pytest.fail("nothing was asked, so no answer can be a violation")
