"""How a run ended: one word of a closed, ordered set. Pure.

Precedence: aborted, infra, timeout:<phase>, agent-error, protocol-violation, model-script, task-failed, passed.
Every planned cell ends in exactly one; `missing` is said of a cell that has no record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runner.config.outcome import PRECEDENCE
from runner.errors import AgentGaveUp, RunError
from runner.records.schema import Verdict

MISSING = "missing"


class Aborted(RunError):
    """The user or the sweep stopped the run."""

    outcome = "aborted"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`word` as it stands in the record (`timeout:turn`), `reason` in one line."""

    word: str
    reason: str = ""

    @property
    def rank(self) -> int:
        return PRECEDENCE.index(self.word.partition(":")[0])


def decide(
    errors: Sequence[RunError], script_problems: Sequence[str], verdict: Verdict | None, *, missed: bool = False
) -> Outcome:
    """The outcome of a run from all that went wrong in it; the first of equal rank wins.

    `missed`: a request of the agent's fitted no step, so that our answer to it was an error.

    A run that has neither an error nor a verdict was never judged, so it is `infra`, never a pass.
    """
    # We answer a request that fits no step of the script with an error. If that made the agent give up, the script is
    # to blame.
    blamed = [error for error in errors if not (missed and isinstance(error, AgentGaveUp))]
    candidates = [Outcome(error.outcome, _line(str(error))) for error in blamed]
    if script_problems:
        more = f" (and {len(script_problems) - 1} more)" if len(script_problems) > 1 else ""
        candidates.append(Outcome("model-script", _line(script_problems[0]) + more))
    if verdict is not None:
        candidates.append(Outcome("passed") if verdict.passed else Outcome("task-failed", _line(verdict.reason)))
    if not candidates:
        return Outcome("infra", "the run was never judged")
    return min(candidates, key=lambda outcome: outcome.rank)


def _line(text: str) -> str:
    return " ".join(text.split())[:500]
