"""Responses: what each becomes, what is fatal, and how cancelled turns must end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from runner.acp.events import CallDone, Initialized, PeerError, PromptDone, SessionCreated
from runner.errors import ProtocolViolation

if TYPE_CHECKING:
    from tests.unit.acp.conftest import Peer


@pytest.mark.parametrize("version", [1, 1.0])
def test_our_version_is_accepted(fresh: Peer, version: float) -> None:
    fresh.client.initialize({"name": "n", "version": "1"})
    (event,) = fresh.answer({"protocolVersion": version})
    assert isinstance(event, Initialized)
    assert fresh.client.initialized == event


@pytest.mark.parametrize("version", [2, 0, "1", None, True, [1], 1.5, "2025-01-01"])
def test_another_version_is_a_violation_in_words(fresh: Peer, version: Any) -> None:
    fresh.client.initialize({"name": "n", "version": "1"})
    with pytest.raises(ProtocolViolation) as caught:
        fresh.answer({"protocolVersion": version})
    assert str(caught.value) == f"agent answers protocolVersion {version!r}, we speak 1"
    assert fresh.found() == ["version-mismatch"]
    assert fresh.client.initialized is None


@pytest.mark.parametrize("result", [None, [], "ok", 1])
def test_an_initialize_result_that_is_no_object_is_a_violation(fresh: Peer, result: Any) -> None:
    fresh.client.initialize({"name": "n", "version": "1"})
    with pytest.raises(ProtocolViolation, match="without a result object"):
        fresh.answer(result)
    assert fresh.found() == ["bad-result"]


def test_an_error_to_initialize_is_a_violation(fresh: Peer) -> None:
    fresh.client.initialize({"name": "n", "version": "1"})
    with pytest.raises(ProtocolViolation, match="error: -32602: Invalid params"):
        fresh.send(id=0, error={"code": -32602, "message": "Invalid params"})


def test_a_probe_s_version_is_the_one_expected(fresh: Peer) -> None:
    fresh.client.call("initialize", {"protocolVersion": 2})
    (event,) = fresh.answer({"protocolVersion": 2})
    assert isinstance(event, Initialized)
    assert event.version == 2


@pytest.mark.parametrize("result", [None, {}, {"sessionId": 5}, {"sessionId": None}])
def test_a_session_without_an_id_is_a_violation(fresh: Peer, result: Any) -> None:
    fresh.initialize().client.session_new("/w")
    with pytest.raises(ProtocolViolation, match="session/new was answered without a sessionId"):
        fresh.answer(result)
    assert fresh.found() == ["bad-result"]


@pytest.mark.parametrize("result", [None, {}, {"modes": {}}, {"sessionId": "ignored"}])
def test_load_opens_the_session_it_named(peer: Peer, result: Any) -> None:
    peer.client.call("session/load", {"sessionId": "old", "cwd": "/w", "mcpServers": []})
    (event,) = peer.answer(result)
    assert isinstance(event, SessionCreated)
    assert (event.session_id, event.method, event.result) == ("old", "session/load", result or {})
    assert "old" in peer.client.sessions


def test_fork_opens_the_session_it_answers(peer: Peer) -> None:
    peer.client.call("session/fork", {"sessionId": "s", "cwd": "/w"})
    (event,) = peer.answer({"sessionId": "forked"})
    assert isinstance(event, SessionCreated)
    assert event.session_id == "forked"


def test_a_session_error_is_an_event(fresh: Peer) -> None:
    fresh.initialize().client.session_new("/w")
    error = {"code": -32000, "message": "Authentication required", "data": {"x": 1}}
    event = fresh.one(id=1, error=error)
    assert isinstance(event, PeerError)
    assert (event.method, event.code, event.message, event.error) == (
        "session/new",
        -32000,
        "-32000: Authentication required",
        error,
    )
    assert fresh.found() == []


def test_other_results_are_done_calls(peer: Peer) -> None:
    peer.client.set_mode("s", "plan")
    (event,) = peer.answer(None)
    assert isinstance(event, CallDone)
    assert (event.method, event.session_id, event.result, event.id) == (
        "session/set_mode",
        "s",
        None,
        peer.client.last_id,
    )


@pytest.mark.parametrize("error", ["text", {}, {"code": "x"}, []])
def test_a_malformed_error_is_an_event_all_the_same(peer: Peer, error: Any) -> None:
    event = peer.prompt().one(id=peer.client.last_id, error=error)
    assert isinstance(event, PeerError)
    assert (event.method, event.code) == ("session/prompt", None)
    assert peer.found() == ["bad-error"]


@pytest.mark.parametrize("result", [None, {}, {"stopReason": 3}])
def test_a_prompt_result_without_a_stop_reason(peer: Peer, result: Any) -> None:
    (event,) = peer.prompt().answer(result)
    assert isinstance(event, PromptDone)
    assert event.stop_reason is None
    assert peer.found() == ["bad-result"]


def test_a_second_response_is_a_duplicate(peer: Peer) -> None:
    peer.prompt().answer({"stopReason": "end_turn"})
    assert peer.answer({"stopReason": "end_turn"}) == []
    assert peer.found() == ["duplicate-response"]


@pytest.mark.parametrize("id", ["0", "x", 99, -1, 1.5, None])
def test_a_response_to_what_was_never_asked(peer: Peer, id: Any) -> None:
    assert peer.send(id=id, result={}) == []
    assert peer.found() == ["unknown-response-id"]


def test_an_error_without_an_id_is_told(peer: Peer) -> None:
    event = peer.one(id=None, error={"code": -32700, "message": "Parse error"})
    assert isinstance(event, PeerError)
    assert (event.id, event.method, event.code) == (None, None, -32700)
    assert peer.found() == ["error-without-id"]


def test_answers_may_come_in_any_order(peer: Peer) -> None:
    peer.prompt()
    prompt = peer.client.last_id
    peer.client.set_mode("s", "plan")
    mode = peer.client.last_id
    assert isinstance(peer.one(id=mode, result={}), CallDone)
    assert isinstance(peer.one(id=prompt, result={"stopReason": "end_turn"}), PromptDone)
    assert peer.client.pending == []


def cancelled(peer: Peer) -> Peer:
    peer.prompt()
    peer.client.session_cancel("s")
    return peer


def test_a_cancelled_turn_ends_as_cancelled(peer: Peer) -> None:
    (event,) = cancelled(peer).answer({"stopReason": "cancelled"})
    assert isinstance(event, PromptDone)
    assert event.stop_reason == "cancelled"
    assert peer.found() == []


def test_a_cancelled_turn_that_ends_otherwise_is_a_finding(peer: Peer) -> None:
    cancelled(peer).answer({"stopReason": "end_turn"})
    assert peer.found() == ["cancel-not-honoured"]


def test_a_cancelled_turn_that_ends_with_an_error_is_a_finding(peer: Peer) -> None:
    event = cancelled(peer).one(id=peer.client.last_id, error={"code": -32603, "message": "aborted"})
    assert isinstance(event, PeerError)
    assert peer.found() == ["cancel-answered-with-error"]


def test_a_turn_that_is_cancelled_unasked_is_a_finding(peer: Peer) -> None:
    peer.prompt().answer({"stopReason": "cancelled"})
    assert peer.found() == ["cancelled-unasked"]


def test_a_stray_cancelled_in_the_next_turn_is_a_finding(peer: Peer) -> None:
    cancelled(peer).answer({"stopReason": "cancelled"})
    peer.prompt().answer({"stopReason": "cancelled"})
    assert peer.found() == ["cancelled-unasked"]


def test_an_error_without_a_cancel_is_no_finding(peer: Peer) -> None:
    peer.prompt().send(id=peer.client.last_id, error={"code": 1, "message": "m"})
    assert peer.found() == []
