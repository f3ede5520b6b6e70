"""Whose fault it is, and where one of ours came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner.config.plan import Cell
from runner.errors import AgentError, InfraError, InternalError, LastingError, RunError
from runner.run.failure import (
    agents_fault_at_collect,
    agents_fault_at_start,
    blame_for_lost_guest,
    cannot_be_helped,
    run_error,
)
from runner.run.observed import Observed
from runner.sandbox.channel import GuestGone, GuestRefused, GuestSilent
from runner.sandbox.container import OUT_OF_MEMORY

REFUSED = GuestRefused("spawn_failed", "/opt/agent: No such file")
GONE = GuestGone("the guest is gone")


def test_what_was_raised_on_purpose_stays() -> None:
    error = AgentError("crashed")
    assert run_error(error) is error


def test_a_refusal_of_the_guest_is_ours_and_lasts() -> None:
    assert isinstance(run_error(REFUSED), LastingError)


def test_what_nobody_raised_on_purpose_says_where_to_look() -> None:
    error = run_error(TypeError("no number"), "no record could be made")
    assert isinstance(error, InternalError)
    assert str(error) == (
        "internal error: no record could be made: TypeError: no number (raised outside runner/, see traceback.txt)"
    )


def test_the_innermost_line_of_ours_is_named() -> None:
    nothing: Any = None
    observed = Observed()

    def fails() -> None:
        blame_for_lost_guest([GONE], nothing, exited=False)

    observed.guarded(fails)
    (error,) = observed.errors
    path, _, line = str(error).partition("(")[2].partition(",")[0].partition(":")
    lines = (Path(__file__).parents[3] / path).read_text("utf-8").splitlines()
    assert "container.ending" in lines[int(line) - 1]
    (trace,) = observed.tracebacks
    assert "AttributeError" in trace
    assert "container.ending" in trace


def test_errors_on_purpose_leave_no_traceback() -> None:
    observed = Observed()
    for error in (GONE, REFUSED, AgentError("x")):
        observed.add(error)
    assert observed.tracebacks == []
    observed.add(InternalError("internal error: a line that is none"))
    assert len(observed.tracebacks) == 1


def test_a_program_that_cannot_be_executed_is_the_agents_fault() -> None:
    assert str(agents_fault_at_start(REFUSED)) == "cannot be started: /opt/agent: No such file"
    assert agents_fault_at_start(GuestRefused("denied", "no")) is None


def test_too_much_in_the_workspace_is_the_agents_fault() -> None:
    assert "5 s suffice" in str(agents_fault_at_collect(GuestRefused("too_much", "files"), 5.0))
    assert agents_fault_at_collect(GuestRefused("denied", "no"), 5.0) is None


class Ended:
    def __init__(self, how: str | None) -> None:
        self.how = how

    def ending(self, _within_s: float) -> str | None:
        return self.how


@pytest.mark.parametrize(
    ("errors", "how", "exited", "blamed"),
    [
        ([GONE], OUT_OF_MEMORY, False, True),
        ([GuestSilent("no answer"), GONE], OUT_OF_MEMORY, False, True),
        ([GONE], OUT_OF_MEMORY, True, False),  # the agent had ended before
        ([GONE], "exit code 137", False, False),
        ([GONE], None, False, False),
        ([InfraError("the disk refuses")], OUT_OF_MEMORY, False, False),
    ],
)
def test_a_lost_guest_is_the_agents_fault_where_memory_ran_out(
    errors: list[RunError], how: str | None, exited: bool, blamed: bool
) -> None:
    ended: Any = Ended(how)
    new_errors = blame_for_lost_guest([*errors, AgentError("crashed")], ended, exited=exited)
    if blamed:
        assert new_errors is not None
        assert [type(error) for error in new_errors] == [AgentError, AgentError]
        assert "ran out of memory" in str(new_errors[-1])
    else:
        assert new_errors is None


@pytest.mark.parametrize(
    ("error", "model", "asked", "hopeless"),
    [
        (LastingError("a pin differs"), "scripted/x", False, True),
        (InfraError("the engine"), "live/x", True, False),
        (InternalError("ours"), "scripted/x", True, False),
        (InternalError("ours"), "live/x", True, True),  # it would be paid again
        (InternalError("ours"), "capture/x", True, True),
        (InternalError("ours"), "live/x", False, False),
        (AgentError("crashed"), "live/x", True, False),
    ],
)
def test_another_attempt(error: RunError, model: str, asked: bool, hopeless: bool) -> None:
    assert cannot_be_helped([error], model, asked=asked) is hopeless


def test_a_model_that_may_have_been_asked_counts_as_asked() -> None:
    cell = Cell.model_construct(model="live/x")
    observed = Observed(errors=[InternalError("ours")])
    assert not observed.is_hopeless(cell)
    observed.spawn_ns = 1
    assert observed.is_hopeless(cell)
    observed.model_asked = False
    assert not observed.is_hopeless(cell)
