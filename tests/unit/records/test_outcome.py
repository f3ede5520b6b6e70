"""Precedence of outcomes, from both sides of every boundary."""

from __future__ import annotations

import itertools

import pytest

from runner.config.outcome import PRECEDENCE
from runner.errors import AgentError, AgentGaveUp, InfraError, PhaseTimeout, ProtocolViolation, RunError
from runner.records.outcome import Aborted, decide
from runner.records.schema import Verdict

PASS = Verdict(passed=True)
FAIL = Verdict(passed=False, reason="1 of 3 tests pass")
ERRORS: dict[str, RunError] = {
    "aborted": Aborted("interrupted"),
    "infra": InfraError("engine"),
    "timeout:turn": PhaseTimeout("turn", 1),
    "agent-error": AgentError("crash"),
    "protocol-violation": ProtocolViolation("version"),
}


def test_a_clean_run_passes() -> None:
    assert decide([], [], PASS).word == "passed"


def test_a_failed_verdict_is_the_task_s_failure_with_its_reason() -> None:
    outcome = decide([], [], FAIL)
    assert (outcome.word, outcome.reason) == ("task-failed", "1 of 3 tests pass")


def test_a_script_problem_outranks_the_verdict() -> None:
    outcome = decide([], ["step 3 was not asked for", "another"], PASS)
    assert outcome.word == "model-script"
    assert outcome.reason == "step 3 was not asked for (and 1 more)"


def test_a_run_that_nobody_judged_is_never_a_pass() -> None:
    assert decide([], [], None).word == "infra"


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(ERRORS, 2)))
def test_the_worse_error_wins_whatever_came_first(first: str, second: str) -> None:
    for errors in ([ERRORS[first], ERRORS[second]], [ERRORS[second], ERRORS[first]]):
        assert decide(errors, ["a script problem"], FAIL).word == first


def test_a_miss_explains_why_an_agent_gave_up_but_not_why_it_crashed() -> None:
    gave_up, crashed = AgentGaveUp("error -32603"), AgentError("signal 11")
    assert decide([gave_up], ["step 0: no tool fits"], FAIL, missed=True).word == "model-script"
    assert decide([gave_up], ["step 3 was not asked for"], FAIL).word == "agent-error"
    assert decide([gave_up, crashed], ["step 0: no tool fits"], FAIL, missed=True).word == "agent-error"


def test_the_order_is_closed() -> None:
    words = [*ERRORS, "model-script", "task-failed", "passed"]
    assert [word.partition(":")[0] for word in words] == list(PRECEDENCE)


def test_the_reason_is_one_line() -> None:
    assert decide([AgentError("a\nb\n  c")], [], None).reason == "a b c"
