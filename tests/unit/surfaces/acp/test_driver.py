"""The ACP driver against agents that behave, misbehave, hang and die; no engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.config.adapter import Session
from runner.config.policy import Policy
from runner.errors import InfraError
from runner.records.findings import KEPT
from runner.surfaces.acp.driver import AcpDriver
from runner.surfaces.driver import DriverResult
from runner.surfaces.pipe import Stop
from runner.wire.log import read_frames
from tests.unit.surfaces.stage import FULL, QUICK, FakeAgent, Script, Stage

Play = Callable[..., DriverResult]


def ids(played: DriverResult) -> set[str]:
    return {finding.id for finding in played.findings}


def outcomes(played: DriverResult) -> list[str]:
    return [error.outcome for error in played.errors]


def end(agent: FakeAgent, prompt: dict[str, Any] | None, reason: str = "end_turn", **more: Any) -> None:
    agent.answer(prompt, {"stopReason": reason, **more})


def test_a_plain_turn(play: Play) -> None:
    def script(agent: FakeAgent) -> None:
        agent.handshake()
        prompt = agent.read()
        assert prompt is not None
        assert prompt["params"]["prompt"] == [{"type": "text", "text": "do it"}]
        agent.text("hello")
        end(agent, prompt, usage={"totalTokens": 3})

    played = play(script)
    assert outcomes(played) == []
    assert ids(played) == set()
    (turn,) = played.turns
    assert turn.stop_reason == "end_turn"
    assert turn.usage == {"totalTokens": 3}
    assert turn.result_ns is not None
    assert turn.turn_ms == (turn.result_ns - turn.sent_ns) / 1e6
    assert (played.protocol_version, played.ended_by) == (1, "itself")
    assert played.agent_info == {"name": "fake", "version": "1"}


@pytest.mark.parametrize(
    ("answer", "option"), [("allow_once", "once"), ("allow_always", "always"), ("reject_once", "no")]
)
def test_asks_are_answered_by_kind(play: Play, answer: Any, option: str) -> None:
    answers: list[Any] = []

    def script(agent: FakeAgent) -> None:
        agent.handshake()
        prompt = agent.read()
        answers.append(agent.ask(0, "c1", kind="execute", title="ls"))
        end(agent, prompt)

    played = play(script, policy=Policy(id="p", answer=answer))
    assert answers[0]["result"] == {"outcome": {"outcome": "selected", "optionId": option}}
    assert (played.unreachable is not None) == (answer == "reject_once")


def test_an_ask_whose_options_share_an_id_is_cancelled_and_found(play: Play) -> None:
    answers: list[Any] = []
    options = [{"optionId": "x", "kind": kind, "name": kind} for kind in ("allow_once", "reject_once")]

    def script(agent: FakeAgent) -> None:
        agent.handshake()
        prompt = agent.read()
        ask = {"sessionId": "s", "toolCall": {"toolCallId": "c1", "kind": "execute"}, "options": options}
        answers.append(agent.request(0, "session/request_permission", ask))
        end(agent, prompt)

    played = play(script)
    assert answers[0]["result"] == {"outcome": {"outcome": "cancelled"}}
    assert "duplicate-option-id" in ids(played)
    assert played.unreachable is not None


@pytest.mark.parametrize("options", [[{"optionId": 1, "kind": "allow_once"}], [{"kind": "allow_once"}], "no", [None]])
def test_options_without_an_id_are_wrong_params(play: Play, options: Any) -> None:
    answers: list[Any] = []

    def script(agent: FakeAgent) -> None:
        agent.handshake()
        prompt = agent.read()
        ask = {"sessionId": "s", "toolCall": {"toolCallId": "c1"}, "options": options}
        answers.append(agent.request(0, "session/request_permission", ask))
        end(agent, prompt)

    assert "bad-params" in ids(play(script))
    assert answers[0]["error"]["code"] == -32602


def test_undeclared_callbacks_are_refused_and_declared_ones_served(play: Play) -> None:
    seen: list[Any] = []

    def script(agent: FakeAgent) -> None:
        agent.handshake()
        prompt = agent.read()
        read = {"sessionId": "s", "path": "/workspace/f/a", "line": 2, "limit": 1}
        seen.append(agent.request("r", "fs/read_text_file", read))
        end(agent, prompt)

    def guest(call: dict[str, Any]) -> dict[str, Any]:
        assert (call["op"], call["roots"]) == ("fs.read", ["/workspace/f"])
        return {"content": "one\ntwo\nthree\n", "size": 14}

    served = play(script, guest=guest, capabilities=FULL)
    assert seen[0] == {"jsonrpc": "2.0", "id": "r", "result": {"content": "two\n"}}
    assert "undeclared-method" not in ids(served)


def test_an_undeclared_callback_is_minus_32601_and_a_finding(play: Play) -> None:
    seen: list[Any] = []

    def script(agent: FakeAgent) -> None:
        agent.handshake()
        prompt = agent.read()
        seen.append(agent.request(7, "fs/read_text_file", {"sessionId": "s", "path": "/workspace/f/a"}))
        end(agent, prompt)

    played = play(script)
    assert seen[0]["error"]["code"] == -32601
    assert "undeclared-method" in ids(played)


def test_terminal_life(play: Play) -> None:
    seen: list[Any] = []
    replies = {
        "terminal.create": {"pid": 1},
        "terminal.output": {"output": "hi\n", "truncated": False, "exit": {"exitCode": 0, "signal": None}},
        "terminal.wait": {"exitCode": 0, "signal": None},
        "terminal.release": {},
    }

    def script(agent: FakeAgent) -> None:
        agent.handshake()
        prompt = agent.read()
        made = agent.request(1, "terminal/create", {"sessionId": "s", "command": "echo hi"})
        assert made is not None
        terminal = {"sessionId": "s", "terminalId": made["result"]["terminalId"]}
        for number, verb in enumerate(("wait_for_exit", "output", "release"), start=2):
            seen.append(agent.request(number, f"terminal/{verb}", terminal))
        end(agent, prompt)

    play(script, guest=lambda call: replies[call["op"]], capabilities=FULL)
    assert [message["result"] for message in seen] == [
        {"exitCode": 0, "signal": None},
        {"output": "hi\n", "truncated": False, "exitStatus": {"exitCode": 0, "signal": None}},
        {},
    ]


def test_the_mode_is_pinned_where_it_is_offered(play: Play) -> None:
    sent: list[Any] = []

    def script(agent: FakeAgent) -> None:
        agent.handshake(modes={"currentModeId": "auto", "availableModes": [{"id": "auto"}, {"id": "default"}]})
        mode = agent.read()
        sent.append(mode)
        agent.answer(mode, {})
        end(agent, agent.read())

    played = play(script, session=Session(mode="default"))
    assert (sent[0]["method"], sent[0]["params"]["modeId"]) == ("session/set_mode", "default")
    assert outcomes(played) == []


def test_another_protocol_version_is_a_violation(play: Play) -> None:
    played = play(lambda agent: agent.answer(agent.read(), {"protocolVersion": 2}))
    assert outcomes(played) == ["protocol-violation"]
    assert "agent answers protocolVersion 2, we speak 1" in str(played.errors[0])


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        (lambda agent: None, "timeout:initialize"),
        (lambda agent: agent.answer(agent.read(), {"protocolVersion": 1}), "timeout:session_new"),
        (lambda agent: agent.handshake(), "timeout:first_update"),
        (lambda agent: (agent.handshake(), agent.read(), agent.text("...")), "timeout:silence"),
    ],
)
def test_each_phase_has_its_own_deadline(play: Play, script: Script, outcome: str) -> None:
    limits = QUICK.model_copy(
        update={"initialize": 0.2, "session_new": 0.2, "first_update": 0.2, "silence": 0.2, "turn": 5}
    )
    assert outcomes(play(script, deadlines=limits)) == [outcome]


def test_a_turn_that_is_too_long_is_cancelled_first(play: Play, tmp_path: Path) -> None:
    def script(agent: FakeAgent) -> None:
        agent.handshake()
        prompt = agent.read()
        agent.text("...")
        cancel = agent.read()
        assert cancel is not None
        assert cancel["method"] == "session/cancel"
        end(agent, prompt, "cancelled")

    played = play(script, deadlines=QUICK.model_copy(update={"turn": 0.3}))
    assert outcomes(played) == ["timeout:turn"]
    assert played.turns[0].stop_reason == "cancelled"
    assert "cancel-not-honoured" not in ids(played)


def test_an_agent_that_ignores_everything_is_killed(play: Play) -> None:
    def script(agent: FakeAgent) -> None:
        agent.handshake()
        agent.read()
        agent.text("...")

    played = play(script, obeys="KILL", deadlines=QUICK.model_copy(update={"turn": 0.2}))
    assert outcomes(played) == ["timeout:turn"]
    assert played.ended_by == "kill"
    assert "cancel-not-honoured" in ids(played)


def test_an_agent_that_stays_after_eof_is_a_finding(play: Play) -> None:
    def script(agent: FakeAgent) -> None:
        agent.handshake()
        end(agent, agent.read())

    played = play(script, obeys="TERM")
    assert (played.ended_by, outcomes(played)) == ("terminate", [])
    assert "no-exit-on-eof" in ids(played)


def test_an_agent_that_dies_is_to_blame(play: Play) -> None:
    played = play(lambda agent: agent.handshake(), obeys="itself", deadlines=QUICK)
    assert outcomes(played) == ["agent-error"]


def test_a_refused_prompt_is_the_agent_s_error(play: Play) -> None:
    def script(agent: FakeAgent) -> None:
        agent.handshake()
        prompt = agent.read()
        assert prompt is not None
        agent.say({"jsonrpc": "2.0", "id": prompt["id"], "error": {"code": -32603, "message": "no"}})

    played = play(script)
    assert outcomes(played) == ["agent-error"]
    assert "-32603: no" in str(played.errors[0])


def test_noise_is_found_and_survived(play: Play, tmp_path: Path) -> None:
    def script(agent: FakeAgent) -> None:
        agent.raw(b"banner: hello\n")
        agent.handshake()
        prompt = agent.read()
        agent.raw(b"[1,2]\n")
        agent.raw(b"warning on stderr\n", kind=2)
        end(agent, prompt)
        agent.text("late")

    played = play(script)
    assert outcomes(played) == []
    assert {"not-json", "batch", "late-update"} <= ids(played)
    logged = [frame.raw for frame in read_frames(tmp_path / "frames.jsonl")]
    assert b"banner: hello" in logged
    assert b"warning on stderr\n" in logged


def test_never_answering_ends_in_a_timeout_and_cancels_the_ask(play: Play) -> None:
    answers: list[Any] = []

    def script(agent: FakeAgent) -> None:
        agent.handshake()
        prompt = agent.read()
        first = agent.ask(1, "c", kind="edit", title="e")  # the next line we get is session/cancel
        answers.extend([first, agent.read()])
        end(agent, prompt, "cancelled")

    limits = QUICK.model_copy(update={"turn": 0.4, "first_update": 0.4})
    played = play(script, policy=Policy(id="n", answer="never"), deadlines=limits)
    assert answers[0]["method"] == "session/cancel"
    assert answers[1]["result"] == {"outcome": {"outcome": "cancelled"}}
    assert outcomes(played)[0].startswith("timeout:")


def test_a_delayed_answer_does_not_count_as_the_agent_s_silence(play: Play) -> None:
    def script(agent: FakeAgent) -> None:
        agent.handshake()
        prompt = agent.read()
        agent.text("...")
        agent.ask(1, "c", kind="edit", title="e")
        end(agent, prompt)

    limits = QUICK.model_copy(update={"silence": 0.15})
    played = play(script, policy=Policy(id="d", answer="allow_once", delay_s=0.4), deadlines=limits)
    assert outcomes(played) == []


def test_a_stop_from_outside_ends_the_run(play: Play, stages: list[Stage], tmp_path: Path) -> None:
    def script(agent: FakeAgent) -> None:
        agent.handshake()
        agent.read()
        stages[0].inbox.put(Stop(InfraError("the gateway died")))

    stage = Stage(tmp_path, lambda agent: script(agent), obeys="KILL")
    stages.append(stage)
    played = AcpDriver(stage.scene()).run()
    assert outcomes(played)[0] == "infra"


def answered(agent: FakeAgent) -> None:
    agent.handshake()
    end(agent, agent.read())


@pytest.mark.parametrize(
    ("exit", "finding"),
    [
        ({"code": 0}, None),
        ({"code": 3}, "crash-after-answer"),
        ({"code": None, "signal": 11}, "crash-after-answer"),
        ({"code": None, "signal": 9, "oom": True}, "crash-after-answer"),
        ({"code": 0, "oom": True}, "out-of-memory"),
    ],
)
def test_a_death_after_the_answer_is_a_finding(
    tmp_path: Path, stages: list[Stage], exit: dict[str, Any], finding: str | None
) -> None:
    def script(agent: FakeAgent) -> None:
        answered(agent)
        while agent.read() is not None:
            pass
        stages[0].exits(**exit)

    stages.append(Stage(tmp_path, script, obeys="nothing"))
    played = AcpDriver(stages[0].scene()).run()
    assert outcomes(played) == []
    assert ids(played) == ({finding} if finding else set())


def test_our_own_signals_are_no_crash(play: Play) -> None:
    assert ids(play(answered, obeys="KILL")) == {"no-exit-on-eof"}


def test_a_death_before_the_answer_is_the_outcome_alone(play: Play) -> None:
    played = play(lambda agent: (agent.handshake(), agent.read()), obeys="itself")
    assert outcomes(played) == ["agent-error"]
    assert "crash-after-answer" not in ids(played)


def test_the_prompt_waits_for_the_servers(tmp_path: Path, stages: list[Stage]) -> None:
    order: list[str] = []

    def script(agent: FakeAgent) -> None:
        agent.handshake()
        time.sleep(0.2)
        order.append("ready")
        stages[0].ready("@one")
        stages[0].ready("@two")
        prompt = agent.read()
        order.append("prompted")
        end(agent, prompt)

    stages.append(Stage(tmp_path, script))
    scene = replace(stages[0].scene(), awaited=frozenset({"@one", "@two"}))
    played = AcpDriver(scene).run()
    assert order == ["ready", "prompted"]
    assert ids(played) == set()
    names = [phase.name for phase in scene.phases.done]
    assert names.index("configure") < names.index("mcp_connected") < names.index("prompt")


def test_a_server_that_is_never_ready_is_a_finding_and_the_prompt_is_sent(tmp_path: Path, stages: list[Stage]) -> None:
    stages.append(Stage(tmp_path, answered))
    limits = QUICK.model_copy(update={"mcp_connected": 0.1})
    played = AcpDriver(replace(stages[0].scene(deadlines=limits), awaited=frozenset({"@one", "@two"}))).run()
    assert outcomes(played) == []
    (finding,) = played.findings
    assert finding.id == "mcp-not-connected"
    assert finding.message == "2 of 2 MCP servers not ready within 0.1 s; prompted all the same"


def test_what_has_changed_before_the_prompt_is_seen(tmp_path: Path, stages: list[Stage]) -> None:
    told = {"changes": [{"path": "a", "kind": "file", "t_ns": 1}, {"path": "", "kind": "folder", "t_ns": 1}]}
    stages.append(Stage(tmp_path, answered, changes=told))
    assert AcpDriver(stages[0].scene()).run().early_changes == ["a"]


def test_a_workspace_that_takes_too_long_to_look_at_does_not_end_the_run(
    tmp_path: Path, stages: list[Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.surfaces.acp.setup._LOOK_S", 0)
    stages.append(Stage(tmp_path, answered, changes=None))
    played = AcpDriver(stages[0].scene()).run()
    assert outcomes(played) == []
    assert ids(played) == {"not-looked-at"}


def test_every_junk_line_is_counted_and_a_few_are_kept(play: Play) -> None:
    def script(agent: FakeAgent) -> None:
        agent.handshake()
        prompt = agent.read()
        for _ in range(500):
            agent.raw(b"junk\n")
        end(agent, prompt)

    played = play(script)
    assert played.findings.counts["not-json"] == 500
    assert len([one for one in played.findings if one.id == "not-json"]) == KEPT
