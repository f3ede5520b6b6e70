"""Requests after the turn: sent where they are advertised, and held against the rules of load and resume."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runner.config.surface import Probe
from runner.surfaces.driver import DriverResult
from tests.unit.surfaces.stage import QUICK, FakeAgent

Play = Callable[..., DriverResult]

CAPABILITIES = {"loadSession": True, "sessionCapabilities": {"list": {}, "resume": {}, "fork": {}, "close": {}}}
OPTIONS = [
    {"id": "mode", "type": "select", "options": [{"value": "ask"}, {"value": "edit"}]},
    {"id": "model", "type": "select", "options": [{"group": "g", "options": [{"value": "big"}]}]},
    {"id": "loud", "type": "boolean"},
]


def open_turn(agent: FakeAgent, capabilities: Any = CAPABILITIES, **session: Any) -> None:
    """initialize, session/new and one turn with one message."""
    agent.answer(agent.read(), {"protocolVersion": 1, "agentCapabilities": capabilities})
    agent.answer(agent.read(), {"sessionId": "s", **session})
    prompt = agent.read()
    agent.text("hello")
    agent.answer(prompt, {"stopReason": "end_turn"})


def probes(*wanted: dict[str, Any]) -> list[Probe]:
    return [Probe.model_validate(one) for one in wanted]


def findings(played: DriverResult) -> list[str]:
    return [finding.id for finding in played.findings]


def test_each_request_has_its_params_and_its_answer(play: Play) -> None:
    asked: list[Any] = []

    def script(agent: FakeAgent) -> None:
        open_turn(agent)
        results: list[Any] = [{"sessions": []}, None, {}, {"sessionId": "t"}, {}]
        for result in results:
            request = agent.read()
            assert request is not None
            asked.append((request["method"], request["params"]))
            if request["method"] == "session/load":
                agent.text("hello again")
            agent.answer(request, result)

    names = ["list", "load", "resume", "fork", "close"]
    played = play(script, probes=probes(*({"do": name} for name in names)))
    assert played.errors == []
    assert findings(played) == []
    opening = {"sessionId": "s", "cwd": "/workspace/f", "mcpServers": []}
    assert asked == [
        ("session/list", {"cwd": "/workspace/f"}),
        ("session/load", opening),
        ("session/resume", opening),
        ("session/fork", opening),
        ("session/close", {"sessionId": "s"}),
    ]
    assert [(probe.name, probe.ok, probe.updates_before) for probe in played.probes] == [
        (name, True, int(name == "load")) for name in names
    ]
    assert all((probe.answered_seq or 0) > (probe.sent_seq or 0) for probe in played.probes)


def test_what_is_not_advertised_is_not_sent(play: Play) -> None:
    def script(agent: FakeAgent) -> None:
        open_turn(agent, {}, modes={"availableModes": [{"id": "ask"}]}, configOptions=OPTIONS)

    wanted: list[dict[str, Any]] = [{"do": name} for name in ("list", "load", "resume", "fork", "close")]
    wanted += [{"do": "set-mode", "value": "edit"}]
    wanted += [{"do": "set-config-option", "option": "mode", "value": "none"}]
    wanted += [{"do": "set-config-option", "option": "mode", "value": True}]
    played = play(script, probes=probes(*wanted))
    assert [(probe.advertised, probe.sent_seq, probe.ok) for probe in played.probes] == [(False, None, None)] * 8


def test_an_option_is_set_and_the_second_prompt_is_a_turn(play: Play) -> None:
    asked: list[Any] = []

    def script(agent: FakeAgent) -> None:
        open_turn(agent, configOptions=OPTIONS, modes={"availableModes": [{"id": "edit"}]})
        for _ in range(4):
            request = agent.read()
            assert request is not None
            asked.append(request["params"])
            agent.answer(request, {})
        prompt = agent.read()
        agent.text("twice")
        agent.answer(prompt, {"stopReason": "end_turn"})

    wanted: list[dict[str, Any]] = [
        {"do": "set-config-option", "option": "mode", "value": "edit"},
        {"do": "set-config-option", "option": "model", "value": "big"},
        {"do": "set-config-option", "option": "loud", "value": False},
        {"do": "set-mode", "value": "edit"},
        {"do": "prompt"},
    ]
    played = play(script, probes=probes(*wanted))
    assert played.errors == []
    assert asked == [
        {"sessionId": "s", "configId": "mode", "value": "edit"},
        {"sessionId": "s", "configId": "model", "value": "big"},
        {"sessionId": "s", "configId": "loud", "value": False, "type": "boolean"},
        {"sessionId": "s", "modeId": "edit"},
    ]
    assert [turn.stop_reason for turn in played.turns] == ["end_turn", "end_turn"]
    assert [probe.ok for probe in played.probes] == [True] * 5
    assert played.probes[-1].updates_before == 1


@pytest.mark.parametrize(
    ("name", "before", "after", "finding"),
    [
        ("load", 1, 0, []),
        ("load", 0, 0, ["load-without-replay"]),
        ("load", 1, 1, ["late-update", "load-late-replay"]),
        ("resume", 0, 0, []),
        ("resume", 2, 0, ["resume-replayed"]),
        ("resume", 0, 1, ["late-update", "resume-replayed"]),
    ],
)
def test_the_rules_of_load_and_resume(play: Play, name: str, before: int, after: int, finding: list[str]) -> None:
    def script(agent: FakeAgent) -> None:
        open_turn(agent)
        request = agent.read()
        for _ in range(before):
            agent.text("again")
        agent.answer(request, {})
        for _ in range(after):
            agent.text("late")
        # Not content: allowed at any time.
        agent.update("available_commands_update", availableCommands=[])

    played = play(script, probes=probes({"do": name}))
    assert sorted(findings(played)) == sorted(finding)
    (probe,) = played.probes
    assert (probe.updates_before, probe.updates_after) == (before, after)


def test_an_error_and_no_answer_are_what_they_are(play: Play) -> None:
    def script(agent: FakeAgent) -> None:
        open_turn(agent)
        request = agent.read()
        assert request is not None
        agent.say({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32603, "message": "broken"}})
        agent.read()
        prompt = agent.read()
        assert prompt is not None
        agent.say({"jsonrpc": "2.0", "id": prompt["id"], "error": {"code": -32000, "message": "no"}})

    deadlines = QUICK.model_copy(update={"probe": 0.2})
    wanted = probes({"do": "list"}, {"do": "fork"}, {"do": "prompt"})
    played = play(script, probes=wanted, deadlines=deadlines)
    assert played.errors == []
    assert [(probe.ok, probe.error) for probe in played.probes] == [
        (False, "-32603: broken"),
        (False, "no answer within 0.2 s"),
        (False, "session/prompt was answered with an error: -32000: no"),
    ]
    assert findings(played) == ["unanswered-request"]


def test_an_agent_that_ends_ends_the_probes(play: Play) -> None:
    def script(agent: FakeAgent) -> None:
        open_turn(agent)
        agent.read()

    played = play(script, obeys="itself", probes=probes({"do": "list"}))
    assert [error.outcome for error in played.errors] == ["agent-error"]
