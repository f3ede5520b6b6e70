"""Agents that want `authenticate`: it is sent where the adapter says so, and else the outcome says what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runner.config.adapter import Session
from runner.surfaces.acp.authentication import advice, named, offered
from runner.surfaces.driver import DriverResult
from tests.unit.surfaces.stage import QUICK, FakeAgent

Play = Callable[..., DriverResult]

KEY = {"id": "api-key", "name": "Key", "description": "From the environment"}
LOGIN = {"id": "login", "name": "Log in", "type": "terminal"}
REFUSED = {"code": -32000, "message": "Authentication required"}


def agent_with(methods: Any, seen: list[Any], *, wants: bool = True, error: Any = None, later: bool = False) -> Any:
    """An agent that refuses session/new (`later`: session/prompt) until authenticate was answered well."""

    def script(agent: FakeAgent) -> None:
        let_in = not wants
        while (message := agent.read()) is not None:
            seen.append((message["method"], message.get("params")))
            match message["method"]:
                case "initialize":
                    agent.answer(message, {"protocolVersion": 1, "authMethods": methods})
                case "authenticate" if error is None:
                    let_in = True
                    agent.answer(message, {})
                case "authenticate":
                    agent.say({"jsonrpc": "2.0", "id": message["id"], "error": error})
                case "session/new" if let_in or later:
                    agent.answer(message, {"sessionId": "s"})
                case "session/prompt" if let_in:
                    agent.text("hello")
                    agent.answer(message, {"stopReason": "end_turn"})
                case _:
                    agent.say({"jsonrpc": "2.0", "id": message["id"], "error": REFUSED})

    return script


def ids(played: DriverResult) -> set[str]:
    return {finding.id for finding in played.findings}


def test_it_is_sent_between_initialize_and_session_new(play: Play) -> None:
    seen: list[Any] = []
    played = play(agent_with([LOGIN, KEY], seen), session=Session(authenticate="api-key"))
    assert played.errors == []
    assert [method for method, _ in seen] == ["initialize", "authenticate", "session/new", "session/prompt"]
    assert seen[1] == ("authenticate", {"methodId": "api-key"})


def test_without_the_key_nothing_is_sent_and_the_reason_says_what_to_do(play: Play) -> None:
    seen: list[Any] = []
    played = play(agent_with([KEY, LOGIN], seen))
    assert [method for method, _ in seen] == ["initialize", "session/new"]
    (error,) = played.errors
    assert error.outcome == "agent-error"
    assert str(error) == (
        "session/new was answered with an error: -32000: Authentication required; the agent offers 'api-key', 'login' "
        "(type terminal): name one in the adapter's file, 'session: { authenticate: <id> }'"
    )


def test_an_agent_that_wants_it_at_the_prompt(play: Play) -> None:
    (error,) = play(agent_with([KEY], [], later=True)).errors
    assert "session/prompt was answered with an error: -32000" in str(error)
    assert "'session: { authenticate: <id> }'" in str(error)


def test_a_method_that_is_not_offered_is_not_sent(play: Play) -> None:
    seen: list[Any] = []
    played = play(agent_with([KEY], seen), session=Session(authenticate="api-kay"))
    assert "authenticate" not in [method for method, _ in seen]
    assert "auth-method-not-offered" in ids(played)
    assert "still wants it after 'session: { authenticate: api-kay }'; it offers 'api-key'" in str(played.errors[0])


def test_a_method_that_is_not_offered_harms_no_agent_that_wants_none(play: Play) -> None:
    played = play(agent_with(None, [], wants=False), session=Session(authenticate="api-key"))
    assert played.errors == []
    assert "auth-method-not-offered" in ids(played)


def test_a_method_for_a_person_is_not_sent(play: Play) -> None:
    seen: list[Any] = []
    played = play(agent_with([LOGIN], seen), session=Session(authenticate="login"))
    assert "authenticate" not in [method for method, _ in seen]
    assert "auth-method-not-supported" in ids(played)


def test_a_refusal_is_the_agent_s_error(play: Play) -> None:
    refusal = {"code": -32000, "message": "bad key"}
    played = play(agent_with([KEY], [], error=refusal), session=Session(authenticate="api-key"))
    assert [error.outcome for error in played.errors] == ["agent-error"]
    assert "authenticate was answered with an error: -32000: bad key" in str(played.errors[0])


def test_silence_has_a_deadline_of_its_own(play: Play) -> None:
    def script(agent: FakeAgent) -> None:
        agent.answer(agent.read(), {"protocolVersion": 1, "authMethods": [KEY]})

    limits = QUICK.model_copy(update={"authenticate": 0.2})
    played = play(script, session=Session(authenticate="api-key"), deadlines=limits)
    assert [error.outcome for error in played.errors] == ["timeout:authenticate"]


@pytest.mark.parametrize("methods", [None, {}, "x", 5, [None, 1, {}, {"id": 5}, {"name": "x"}]])
def test_what_lists_no_methods_offers_none(methods: Any) -> None:
    assert offered({"authMethods": methods}) == []


def test_an_agent_that_only_a_person_can_let_in() -> None:
    assert "needs a person: give it its key by the adapter's 'env' or 'home'" in advice(
        offered({"authMethods": [LOGIN]}), None
    )


def test_long_lists_and_names_are_cut() -> None:
    methods = offered({"authMethods": [{"id": "x" * 10_000, "type": "y" * 10_000} for _ in range(1000)]})
    assert named(methods).endswith("and 992 more")
    assert len(named(methods)) < 1500
