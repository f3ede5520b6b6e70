"""A policy that cancels: at which moment session/cancel goes out, what is answered with it, how the turn then ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runner.config.policy import Cancel, Policy
from runner.surfaces.driver import DriverResult
from tests.unit.surfaces.stage import FULL, FakeAgent

Play = Callable[..., DriverResult]
CREATE = {"sessionId": "s", "command": "sleep", "args": ["60"]}


def cancelling(at: Any, after_s: float = 0.0) -> Policy:
    return Policy(id="c", cancel=Cancel(at=at, after_s=after_s))


def until_cancel(agent: FakeAgent) -> None:
    message = agent.read()
    while message is not None and message.get("method") != "session/cancel":
        message = agent.read()


def reach(agent: FakeAgent, moment: str) -> None:
    """Bring the turn to `moment`."""
    if moment == "text":
        agent.text("a long")
    elif moment == "tool":
        agent.update("tool_call", toolCallId="c1", kind="execute", title="ls", status="in_progress")
    elif moment == "terminal":
        agent.request(1, "terminal/create", CREATE)
        agent.say({"jsonrpc": "2.0", "id": 2, "method": "terminal/wait_for_exit", "params": _waits()})


def _waits() -> dict[str, str]:
    return {"sessionId": "s", "terminalId": "term-1"}


@pytest.mark.parametrize("after_s", [0.0, 0.05])
@pytest.mark.parametrize("moment", ["start", "text", "tool", "terminal"])
def test_the_cancel_comes_at_its_moment_and_the_turn_ends(play: Play, moment: str, after_s: float) -> None:
    def script(agent: FakeAgent) -> None:
        agent.handshake()
        prompt = agent.read()
        reach(agent, moment)
        until_cancel(agent)
        agent.text("still told")
        agent.answer(prompt, {"stopReason": "cancelled"})

    def guest(call: dict[str, Any]) -> dict[str, Any] | None:
        return None if call["op"] == "terminal.wait" else {}

    played = play(script, policy=cancelling(moment, after_s), capabilities=FULL, guest=guest)
    assert played.errors == []
    assert played.findings == []
    (turn,) = played.turns
    assert (turn.cancelled, turn.stop_reason) == (True, "cancelled")
    assert played.unreachable == "the turn was cancelled"


def test_an_ask_is_answered_by_the_cancel_alone(play: Play) -> None:
    seen: list[Any] = []

    def script(agent: FakeAgent) -> None:
        agent.handshake()
        prompt = agent.read()
        agent.update("tool_call", toolCallId="c1", kind="edit", title="e", status="pending")
        seen.extend([agent.ask(1, "c1"), agent.read(), agent.ask(2, "c1")])
        agent.answer(prompt, {"stopReason": "cancelled"})

    played = play(script, policy=cancelling("ask"))
    assert seen[0]["method"] == "session/cancel"
    cancelled = {"outcome": {"outcome": "cancelled"}}
    assert [(answer["id"], answer["result"]) for answer in seen[1:]] == [(1, cancelled), (2, cancelled)]
    # A call that was open when its turn was cancelled counts as cancelled: it owes no last status.
    assert played.findings == []


def test_an_ask_is_the_first_that_is_heard_of_some_tool_calls(play: Play) -> None:
    seen: list[Any] = []

    def script(agent: FakeAgent) -> None:
        agent.handshake()
        prompt = agent.read()
        seen.append(agent.ask(1, "c1", kind="execute", title="ls"))
        until_cancel(agent)
        agent.answer(prompt, {"stopReason": "cancelled"})

    played = play(script, policy=cancelling("tool", 0.05))
    assert seen[0]["result"]["outcome"] == {"outcome": "selected", "optionId": "once"}
    assert played.turns[0].cancelled


def test_whoever_does_not_stop_has_a_deadline_of_its_own(play: Play) -> None:
    def script(agent: FakeAgent) -> None:
        agent.handshake()
        agent.read()
        agent.text("a")

    played = play(script, policy=cancelling("text"))
    assert [error.outcome for error in played.errors] == ["timeout:cancel_grace"]
    assert "cancel-not-honoured" in {finding.id for finding in played.findings}


@pytest.mark.parametrize("policy", [cancelling("ask"), cancelling("start", 60.0)])
def test_a_moment_that_never_comes_or_too_late_is_said(play: Play, policy: Policy) -> None:
    def script(agent: FakeAgent) -> None:
        agent.handshake()
        agent.answer(agent.read(), {"stopReason": "end_turn"})

    played = play(script, policy=policy)
    assert played.errors == []
    assert [finding.id for finding in played.findings] == ["cancel-moment-missed"]
    assert not played.turns[0].cancelled
