"""Each sampled metric by its definition, and what makes it null."""

from __future__ import annotations

import pytest

from runner.evidence.conversation import Conversation
from runner.evidence.cost import NAMES, cost
from runner.records.schema import AgentExit, Phase
from runner.surfaces.cli.parsers import CliResult
from tests.unit.evidence.conversations import SPAWN_NS, Log, at, entry, record, verdict


def turn_log() -> Log:
    """Handshake to 500 ms, a turn from 500 to 1500 ms, in it a read of 10 ms at 700 and an ask of 40 ms at 800."""
    log = Log().initialize(after=160).session(after=340)
    prompt = log.prompt()
    log.wait(200).calls("fs/read_text_file", after=10)
    log.wait(90).asks("t1", after=40)
    log.wait(660).end(prompt)
    return log


ENTRIES = [entry(510, 560), entry(900, 1000, seq=1), entry(950, 1100, kind="side", seq=2)]


def test_an_acp_run() -> None:
    assert cost(record(), turn_log().conversation, ENTRIES, None) == {
        "handshake_ms": 500.0,
        "turn_ms": 1000.0,
        "to_result_ms": 1500.0,
        "active_ms": 490.0,
        "model_ms": 250.0,
        "client_ms": 50.0,
        "agent_ms": 700.0,
        "wall_ms": 2000.0,
        "cpu_s": 1.5,
        "peak_anon_mb": 300.25,
        "overhead_ms": 900.0,
    }


def test_a_cli_run() -> None:
    result = CliResult("claude-stream-json", result_ns=at(1500), duration_ms=990.0)
    values = cost(record(), Conversation(), ENTRIES, result)
    assert (values["to_result_ms"], values["turn_ms"], values["model_ms"]) == (1500.0, 990.0, 250.0)
    assert (values["handshake_ms"], values["client_ms"], values["agent_ms"]) == (None, None, None)
    assert (values["active_ms"], values["wall_ms"], values["overhead_ms"]) == (490.0, 2000.0, 900.0)


def test_a_cli_that_reports_no_duration_and_no_result() -> None:
    assert cost(record(), Conversation(), ENTRIES, CliResult("generic", result_ns=at(1500)))["turn_ms"] is None
    silent = cost(record(), Conversation(), ENTRIES, CliResult("claude-stream-json"))
    assert (silent["to_result_ms"], silent["model_ms"], silent["active_ms"]) == (None, None, 490.0)


def test_model_time_is_clipped_to_the_turn() -> None:
    """A side request of the handshake and one after the response are not the turn's."""
    entries = [entry(100, 200, kind="side"), entry(450, 600, seq=1), entry(1400, 1900, kind="side", seq=2)]
    assert cost(record(), turn_log().conversation, entries, None)["model_ms"] == 200.0


def test_model_time_holds_main_and_side_only() -> None:
    entries = [entry(600, 700, kind="miss"), entry(800, 900, kind="refused", seq=1)]
    values = cost(record(), turn_log().conversation, entries, None)
    assert (values["model_ms"], values["active_ms"]) == (0.0, None)


def test_model_time_starts_with_the_last_request_byte_and_active_with_the_first() -> None:
    values = cost(record(), turn_log().conversation, [entry(620, 700, sent=600)], None)
    assert (values["model_ms"], values["active_ms"]) == (80.0, 100.0)


def test_active_ends_with_the_last_response_though_it_is_not_the_last_request() -> None:
    values = cost(record(), turn_log().conversation, [entry(600, 900), entry(700, 800, seq=1)], None)
    assert values["active_ms"] == 300.0


def test_time_that_is_the_models_and_the_clients_is_taken_off_once() -> None:
    values = cost(record(), turn_log().conversation, [entry(700, 850)], None)
    assert (values["model_ms"], values["client_ms"]) == (150.0, 50.0)
    assert values["agent_ms"] == 850.0


def test_parallel_callbacks_count_once() -> None:
    log = Log().initialize().session()
    prompt = log.prompt()
    for identity in (7, 8):
        log.agent(id=identity, method="fs/read_text_file", params={})
    log.wait(20)
    for identity in (7, 8):
        log.client(id=identity, result={"content": ""})
    log.end(prompt)
    assert cost(record(), log.conversation, [], None)["client_ms"] == 20.0


def test_a_call_that_we_never_answered_costs_until_the_turns_end() -> None:
    log = Log().initialize().session()
    prompt = log.prompt()
    log.wait(100).asks("t1", answer=None)
    log.wait(300).end(prompt, stop="cancelled")
    values = cost(record(), log.conversation, [], None)
    assert (values["turn_ms"], values["client_ms"], values["agent_ms"]) == (400.0, 300.0, 100.0)


def test_a_callback_outside_the_turn_is_not_the_turns() -> None:
    log = turn_log()
    log.calls("fs/read_text_file", after=30)
    assert cost(record(), log.conversation, [], None)["client_ms"] == 50.0


def test_a_run_without_callbacks_waited_for_nothing() -> None:
    log = Log().initialize().session()
    log.end(log.prompt())
    assert cost(record(), log.conversation, [], None)["client_ms"] == 0.0


@pytest.mark.parametrize("ending", ["error", "none"])
def test_a_turn_without_a_result_has_no_figures(ending: str) -> None:
    log = Log().initialize().session()
    prompt = log.prompt()
    if ending == "error":
        log.close(prompt, error={"code": -32603, "message": "no"})
    values = cost(record(), log.conversation, ENTRIES, None)
    for name in ("turn_ms", "to_result_ms", "model_ms", "client_ms", "agent_ms"):
        assert values[name] is None
    assert values["handshake_ms"] == 500.0


def test_several_turns_add_up_and_the_last_result_counts() -> None:
    log = turn_log()
    second = log.wait(100).prompt()
    log.wait(200).end(second)
    values = cost(record(), log.conversation, [entry(1550, 1650)], None)
    assert (values["turn_ms"], values["to_result_ms"], values["model_ms"]) == (1200.0, 1800.0, 50.0)


def test_a_refused_session_has_no_handshake() -> None:
    log = Log().initialize()
    log.request("session/new", error={"code": -32000, "message": "log in"})
    values = cost(record(), log.conversation, [], None)
    assert values["handshake_ms"] is None
    assert values["wall_ms"] == 2000.0


def test_overhead_leaves_out_the_verifiers_test_and_nothing_else() -> None:
    messages = turn_log().conversation
    assert cost(record(verdict=verdict(duration_ms=700)), messages, [], None)["overhead_ms"] == 400.0
    assert cost(record(verdict=None), messages, [], None)["overhead_ms"] == 1100.0


def test_an_agent_whose_exit_nobody_saw() -> None:
    values = cost(record(agent=AgentExit(spawn_ns=at(0))), turn_log().conversation, [], None)
    assert (values["wall_ms"], values["overhead_ms"], values["cpu_s"], values["peak_anon_mb"]) == (None,) * 4
    assert values["to_result_ms"] == 1500.0


def test_no_agent_no_figures() -> None:
    assert cost(record(agent=None), Conversation(), [], None) == dict.fromkeys(NAMES)


def test_the_engines_clock_is_brought_to_the_controllers() -> None:
    """An engine in a VM: its stamps are 3 s ahead."""
    ahead = 3_000_000_000
    shifted = [
        line.model_copy(
            update={name: getattr(line, name) + ahead for name in ("t_request_end_ns", "t_response_end_ns")}
        )
        for line in ENTRIES
    ]
    messages = turn_log().conversation
    assert cost(record(clock_offset_ns=ahead), messages, shifted, None)["model_ms"] == 250.0
    assert cost(record(), messages, shifted, None)["model_ms"] == 0.0
    assert at(0) == SPAWN_NS


def test_what_a_surface_waits_for_is_in_no_figure_of_the_turn() -> None:
    waits = [
        Phase(name=name, start_ns=at(start), end_ns=at(end))
        for name, start, end in (
            ("mcp_connected", 100, 300),
            ("settle", 300, 350),
            ("look", 350, 360),
            ("prompt", 500, 9),
        )
    ]
    waiting = cost(record(phases=waits), turn_log().conversation, ENTRIES, None)
    plain = cost(record(), turn_log().conversation, ENTRIES, None)
    assert {name for name in NAMES if waiting[name] != plain[name]} == {"to_result_ms"}
    assert waiting["to_result_ms"] == 1500.0 - 260.0
