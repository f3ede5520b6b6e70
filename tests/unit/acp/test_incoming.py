"""Requests and notifications of the agent: what was declared, the phases, cancellation, and what is out of order."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from runner.acp import methods
from runner.acp.events import ClientRequest, Notified, PermissionRequest, Refused, RequestCancelled, SessionUpdate

if TYPE_CHECKING:
    from tests.unit.acp.conftest import Peer

PARAMS: dict[str, dict[str, Any]] = {
    "fs/read_text_file": {"sessionId": "s", "path": "/x", "line": 1, "limit": None},
    "fs/write_text_file": {"sessionId": "s", "path": "/x", "content": ""},
    "terminal/create": {"sessionId": "s", "command": "ls", "args": None, "env": [{"name": "A", "value": "b"}]},
    "terminal/output": {"sessionId": "s", "terminalId": "t"},
    "terminal/wait_for_exit": {"sessionId": "s", "terminalId": "t"},
    "terminal/kill": {"sessionId": "s", "terminalId": "t"},
    "terminal/release": {"sessionId": "s", "terminalId": "t"},
    "elicitation/create": {"sessionId": "s", "mode": "form", "message": "?", "requestedSchema": {}},
}


def code(reply: bytes) -> Any:
    return json.loads(reply)["error"]["code"]


@pytest.mark.parametrize("method", sorted(PARAMS))
def test_a_declared_method_is_delivered(peer: Peer, method: str) -> None:
    event = peer.one(id=5, method=method, params=PARAMS[method])
    assert isinstance(event, ClientRequest)
    assert (event.id, event.method, event.session_id, event.params, event.reply) == (
        5,
        method,
        "s",
        PARAMS[method],
        b"",
    )
    assert peer.found() == []


@pytest.mark.parametrize("method", sorted(PARAMS))
def test_an_undeclared_method_is_refused(bare: Peer, method: str) -> None:
    event = bare.one(id="x", method=method, params=PARAMS[method])
    assert isinstance(event, Refused)
    assert (event.code, event.finding, event.id) == (-32601, "undeclared-method", "x")
    assert json.loads(event.reply)["id"] == "x"
    assert code(event.reply) == -32601
    assert bare.found() == ["undeclared-method"]
    assert not bare.client.owes_answer


def test_the_table_of_gates_is_tested_whole() -> None:
    assert set(PARAMS) | {"session/request_permission"} == set(methods.METHODS) == set(methods.PARAMS)


@pytest.mark.parametrize(
    ("method", "finding"),
    [("_vendor/x", "extension-request"), ("craft/drain", "unknown-method"), ("session/set_model", "unknown-method")],
)
def test_a_method_that_does_not_exist_is_refused(peer: Peer, method: str, finding: str) -> None:
    event = peer.one(id=1, method=method)
    assert isinstance(event, Refused)
    assert code(event.reply) == -32601
    assert peer.found() == [finding]


@pytest.mark.parametrize("method", sorted(PARAMS))
@pytest.mark.parametrize("params", [None, [], {}, {"sessionId": 3}])
def test_params_that_cannot_be_served_are_refused(peer: Peer, method: str, params: Any) -> None:
    event = peer.one(id=1, method=method, params=params)
    assert isinstance(event, Refused)
    # without a mode no elicitation capability can be named
    expected = (-32601, "undeclared-method") if method == "elicitation/create" else (-32602, "bad-params")
    assert (event.code, event.finding) == expected
    assert code(event.reply) == expected[0]


def test_an_elicitation_needs_the_capability_of_its_mode(peer: Peer) -> None:
    peer.client.capabilities["elicitation"] = {"form": {}}
    assert isinstance(
        peer.one(id=1, method="elicitation/create", params={"mode": "form", "message": "?"}), ClientRequest
    )
    assert isinstance(peer.one(id=2, method="elicitation/create", params={"mode": "url", "message": "?"}), Refused)
    assert peer.found() == ["undeclared-method"]


def test_requests_before_initialize_are_served_and_noted(fresh: Peer) -> None:
    fresh.one(id=1, method="fs/read_text_file", params={"path": "/x", "sessionId": "s"})
    assert fresh.found() == ["request-before-initialize", "wrong-session"]
    assert fresh.client.owes_answer


def test_the_id_null_is_answered_and_noted(peer: Peer) -> None:
    peer.one(id=None, method="fs/read_text_file", params=PARAMS["fs/read_text_file"])
    assert peer.found() == ["null-id"]
    assert json.loads(peer.client.respond(None, {})) == {"jsonrpc": "2.0", "id": None, "result": {}}


def test_requests_are_delivered_after_cancel_and_after_the_turn(peer: Peer) -> None:
    peer.prompt()
    peer.client.session_cancel("s")
    assert isinstance(peer.one(id=1, method="terminal/create", params=PARAMS["terminal/create"]), ClientRequest)
    peer.answer({"stopReason": "cancelled"})
    assert isinstance(peer.one(id=2, method="terminal/kill", params=PARAMS["terminal/kill"]), ClientRequest)
    assert peer.found() == []


def test_a_permission_request_carries_what_a_policy_needs(peer: Peer) -> None:
    event = peer.prompt().ask(id=3, call="c1", kind="edit")
    assert isinstance(event, PermissionRequest)
    assert (event.id, event.session_id, event.tool_call_id, event.reply) == (3, "s", "c1", b"")
    assert event.params["options"][0]["optionId"] == "yes"
    assert peer.client.tool_calls.calls["c1"].asks == 1
    assert peer.found() == ["permission-for-unknown-call"]


def test_an_ask_after_cancel_is_answered_cancelled_at_once(peer: Peer) -> None:
    peer.prompt()
    peer.client.session_cancel("s")
    event = peer.ask(id=4)
    assert json.loads(event.reply) == {"jsonrpc": "2.0", "id": 4, "result": {"outcome": {"outcome": "cancelled"}}}
    assert not peer.client.owes_answer


def test_an_ask_of_the_next_turn_is_a_question_again(peer: Peer) -> None:
    peer.prompt()
    peer.client.session_cancel("s")
    peer.answer({"stopReason": "cancelled"})
    assert peer.prompt().ask(id=4).reply == b""


def test_a_cancel_without_a_turn_answers_nothing_later(peer: Peer) -> None:
    peer.client.session_cancel("s")
    assert peer.prompt().ask(id=4).reply == b""


def test_an_ask_outside_a_turn_is_noted(peer: Peer) -> None:
    peer.update("tool_call", toolCallId="c", title="t")
    peer.ask()
    assert peer.found() == ["request-outside-turn"]


@pytest.mark.parametrize("options", [None, "x", [1], [{"optionId": "a"}], [{"optionId": 1, "kind": "allow_once"}]])
def test_an_ask_without_usable_options_is_refused(peer: Peer, options: Any) -> None:
    params = {"sessionId": "s", "toolCall": {"toolCallId": "c"}, "options": options}
    event = peer.one(id=1, method="session/request_permission", params=params)
    assert isinstance(event, Refused)
    assert event.code == -32602


def phases(peer: Peer, *kinds: str, session: str = "s") -> list[tuple[str, int | None]]:
    events = [event for kind in kinds for event in peer.update(kind, session)]
    return [(event.phase, event.turn) for event in events if isinstance(event, SessionUpdate)]


def test_the_phases_of_updates(fresh: Peer) -> None:
    fresh.initialize()
    fresh.client.session_new("/w")
    new = fresh.client.last_id
    assert phases(fresh, "available_commands_update") == [("early", None)]
    fresh.send(id=new, result={"sessionId": "s"})
    assert phases(fresh, "available_commands_update") == [("idle", None)]
    fresh.prompt()
    assert phases(fresh, "agent_message_chunk", "usage_update") == [("turn", 0), ("turn", 0)]
    fresh.answer({"stopReason": "end_turn"})
    assert phases(fresh, "usage_update", "agent_message_chunk") == [("late", 0), ("late", 0)]
    fresh.prompt()
    assert phases(fresh, "agent_message_chunk") == [("turn", 1)]
    fresh.answer({"stopReason": "end_turn"})
    assert phases(fresh, "plan") == [("late", 1)]
    assert fresh.found() == ["early-update", "late-update", "late-update"]


def test_queued_prompts_are_turns_in_their_order(peer: Peer) -> None:
    first = (peer.prompt(), peer.client.last_id)[1]
    second = (peer.prompt(), peer.client.last_id)[1]
    assert phases(peer, "agent_message_chunk") == [("turn", 0)]
    peer.send(id=first, result={"stopReason": "end_turn"})
    assert phases(peer, "agent_message_chunk") == [("turn", 1)]
    peer.send(id=second, result={"stopReason": "end_turn"})
    assert phases(peer, "agent_message_chunk") == [("late", 1)]


def test_updates_for_another_session_are_stray(peer: Peer) -> None:
    assert phases(peer, "plan", session="who") == [("stray", None)]
    assert peer.found() == ["wrong-session"]


def test_early_updates_for_a_session_that_never_opens_are_told_at_the_end(fresh: Peer) -> None:
    fresh.initialize()
    fresh.client.session_new("/w")
    new = fresh.client.last_id
    assert phases(fresh, "plan", session="other") == [("early", None)]
    fresh.send(id=new, result={"sessionId": "s"})
    fresh.client.finish()
    assert fresh.found() == ["early-update", "wrong-session"]
    assert fresh.client.findings.kept[-1].seq == 2


def test_early_updates_for_the_session_that_opens_are_right(fresh: Peer) -> None:
    fresh.initialize()
    fresh.client.session_new("/w")
    new = fresh.client.last_id
    assert phases(fresh, "plan") == [("early", None)]
    fresh.send(id=new, result={"sessionId": "s"})
    fresh.client.finish()
    assert fresh.found() == ["early-update"]


def test_a_session_that_is_forked_goes_on(peer: Peer) -> None:
    peer.client.call("session/fork", {"sessionId": "s", "cwd": "/w"})
    assert phases(peer, "plan") == [("idle", None)]
    assert phases(peer, "plan", session="forked") == [("early", None)]


def test_a_replay_while_loading_is_early_and_no_finding(peer: Peer) -> None:
    peer.client.call("session/load", {"sessionId": "old", "cwd": "/w", "mcpServers": []})
    assert phases(peer, "agent_message_chunk", session="old") == [("early", None)]
    peer.answer(None)
    assert phases(peer, "plan", session="old") == [("idle", None)]
    assert peer.found() == []


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
def test_a_tool_call_that_is_replayed_happened_before(peer: Peer, method: str) -> None:
    done = {"toolCallId": "c", "status": "completed"}
    peer.client.call(method, {"sessionId": "old", "cwd": "/w", "mcpServers": []})
    peer.answer(None)
    peer.update("tool_call", session="old", **done)
    before = peer.found()
    peer.client.call(method, {"sessionId": "old", "cwd": "/w", "mcpServers": []})
    peer.update("tool_call", session="old", **{**done, "status": "pending"})
    assert peer.found() == before
    peer.answer(None)
    peer.update("tool_call", session="old", **{**done, "status": "pending"})
    assert peer.found() == [*before, "tool-call-announced-twice", "tool-call-status-backwards"]


def test_updates_need_the_capability_they_are_gated_by(bare: Peer) -> None:
    for kind in sorted(methods.UPDATES):
        (event,) = bare.update(kind)
        assert isinstance(event, SessionUpdate)
    assert bare.found() == ["undeclared-update"] * len(methods.UPDATES)


def test_declared_and_unknown_updates_are_no_finding(peer: Peer) -> None:
    for kind in [*sorted(methods.UPDATES), "never_heard_of"]:
        (event,) = peer.update(kind, x=1)
        assert isinstance(event, SessionUpdate)
        assert (event.kind, event.update["x"]) == (kind, 1)
    assert peer.found() == []


@pytest.mark.parametrize(
    "params",
    [None, [], {}, {"sessionId": "s"}, {"sessionId": "s", "update": {}}, {"update": {"sessionUpdate": "plan"}}],
)
def test_an_update_without_its_parts_is_a_finding(peer: Peer, params: Any) -> None:
    assert peer.send(method="session/update", params=params) == []
    assert peer.found() == ["bad-params"]


def test_cancel_request_is_answered_for_the_agent(peer: Peer) -> None:
    peer.prompt().ask(id=7)
    event = peer.one(method="$/cancel_request", params={"requestId": 7})
    assert isinstance(event, RequestCancelled)
    assert (event.id, event.method, code(event.reply)) == (7, "session/request_permission", -32800)
    assert peer.client.respond(7, {}) == b""
    assert not peer.client.owes_answer


@pytest.mark.parametrize(
    "params", [None, {}, {"requestId": 9}, {"requestId": []}, {"requestId": True}, {"requestId": {}}]
)
def test_cancel_request_for_nothing_is_a_finding(peer: Peer, params: Any) -> None:
    peer.prompt().ask(id=1)
    event = peer.one(method="$/cancel_request", params=params)
    assert isinstance(event, Notified)
    assert event.reply == b""
    assert peer.found()[-1] == "cancel-unknown-request"
    assert peer.client.owes_answer


@pytest.mark.parametrize(
    ("method", "findings"),
    [
        ("_auth/status_update", []),
        ("$/progress", []),
        ("elicitation/complete", []),
        ("qwen/notify", ["unknown-notification"]),
    ],
)
def test_other_notifications_are_recorded(peer: Peer, method: str, findings: list[str]) -> None:
    event = peer.one(method=method, params={"a": 1})
    assert isinstance(event, Notified)
    assert (event.method, event.params) == (method, {"a": 1})
    assert peer.found() == findings


def test_elicitation_complete_needs_its_capability(bare: Peer) -> None:
    bare.one(method="elicitation/complete", params={"elicitationId": "e"})
    assert bare.found() == ["undeclared-method"]


def test_a_huge_name_is_not_echoed_whole(peer: Peer) -> None:
    event = peer.one(id=1, method="m" * 100_000)
    assert len(event.reply) < 2000
    assert len(peer.client.findings.kept[0].message) <= 500
