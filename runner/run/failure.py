"""Who is to blame for what went wrong: every decision of a run about it.

=====================================================  =================  =========================================
what happened                                          whose fault        error
=====================================================  =================  =========================================
engine, gateway, guest or host failed                  ours               InfraError: another attempt
the guest refused what we asked of it                  ours               LastingError: no other attempt
an exception that nobody raised on purpose             ours               InternalError, with its traceback
the agent's program cannot be started                  the agent's        AgentError
the workspace is too large to be looked through        the agent's        AgentError
the guest ended because memory ran out                 the agent's        AgentError
the verifier's container ended while the tests ran     the code's         a verdict: failed
=====================================================  =================  =========================================

Which error decides where there are several: `runner.records.outcome`.

Limits: that the agent ended its guest for memory is known from the engine alone, and only before the agent's own exit
was seen. A kernel that ends the guest while the whole machine is short of memory says the same of it.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path

from runner.errors import AgentError, InternalError, LastingError, RunError
from runner.sandbox.channel import GuestBroken, GuestGone, GuestRefused, GuestSilent
from runner.sandbox.container import ENDED_WELL, OUT_OF_MEMORY, Container

#: The file beside a record that holds the tracebacks of our own failures.
TRACEBACK = "traceback.txt"
#: Models whose requests cost money.
_PAID = ("capture/", "live/")
#: Seconds that a container may take to end after its guest has.
_ENDING_S = 2.0
_PACKAGE = Path(__file__).parents[1]


def run_error(problem: Exception, doing: str = "") -> RunError:
    """What was raised as an error of the run. An exception that nobody raised on purpose says where it came from."""
    if isinstance(problem, RunError):
        return problem
    if isinstance(problem, GuestRefused):
        return LastingError(f"the guest refused: {problem}")
    what = f"{doing}: " if doing else ""
    return InternalError(
        f"internal error: {what}{type(problem).__name__}: {problem} ({_where(problem)}, see {TRACEBACK})"
    )


def _where(problem: Exception) -> str:
    """The innermost line of ours on the way of an exception, as `runner/room/module.py:12`."""
    frames = reversed(traceback.extract_tb(problem.__traceback__))
    ours = next((frame for frame in frames if Path(frame.filename).is_relative_to(_PACKAGE)), None)
    if ours is None:
        return "raised outside runner/"
    return f"{Path(ours.filename).relative_to(_PACKAGE.parent)}:{ours.lineno}"


def cannot_be_helped(errors: Sequence[RunError], model: str, *, asked: bool) -> bool:
    """Whether another attempt is of no use, or would pay again. `asked`: the model may have been asked already."""
    kinds = (LastingError, InternalError) if asked and model.startswith(_PAID) else LastingError
    return any(isinstance(error, kinds) for error in errors)


def agents_fault_at_start(refusal: GuestRefused) -> AgentError | None:
    """The agent's program cannot be executed; None: the refusal has another reason."""
    return AgentError(f"cannot be started: {refusal.message}") if refusal.code == "spawn_failed" else None


def agents_fault_at_collect(refusal: GuestRefused, limit_s: float) -> AgentError | None:
    """The agent left too much to be looked through; None: the refusal has another reason."""
    if refusal.code != "too_much":
        return None
    return AgentError(f"left more in the workspace than {limit_s:g} s suffice for (knobs.deadlines.collect)")


def guest_losses(errors: Sequence[RunError]) -> list[RunError]:
    """The errors that say that the guest does not answer."""
    return [error for error in errors if isinstance(error, GuestGone | GuestSilent)]


def blame_for_lost_guest(errors: Sequence[RunError], container: Container, *, exited: bool) -> list[RunError] | None:
    """The errors anew, where the loss of the guest is the agent's doing; else None.

    It is where memory ran out: what the guest takes lies within what it is given beyond the agent's limit. Nothing
    else of a guest's end can be, since an agent is another user.
    """
    losses = guest_losses(errors)
    if not losses or exited or container.ending(_ENDING_S) != OUT_OF_MEMORY:
        return None
    told = AgentError("ran out of memory, and had the kernel end the container's guest for it")
    return [*(error for error in errors if error not in losses), told]


def how_tests_ended_their_verifier(problem: GuestGone, container: Container, memory_mb: int) -> str | None:
    """How the verifier's container ended while the tests ran, in words; None: it was not the tests.

    With exit code 0 its guest has ended because its channel did, which the tests cannot bring about.
    """
    how = container.ending(_ENDING_S)
    if isinstance(problem, GuestBroken):
        return str(problem)
    if how is None or how == ENDED_WELL:
        return None
    return f"{how}; verify.limits.memory_mb: {memory_mb}" if how == OUT_OF_MEMORY else how
