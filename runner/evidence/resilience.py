"""How an agent met the model's faults: its retries, the time they took, and whether it got over them.

Only steps whose script has faults are looked at; a run without such a step has none of these figures.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from runner.evidence.intervals import ms
from runner.gateway.journal import JournalEntry


@dataclass(frozen=True)
class Incident:
    """One step and the faults it met in one turn."""

    step: int
    #: Kinds, in order of arrival.
    faults: tuple[str, ...]
    #: Requests for the step after the first one.
    retries: int
    #: From the first request's arrival to that of the one that was answered, or to the last fault's end where none was;
    #: for a fault that only held the answer up, to the answer's first byte (slow-start) or last byte (stall).
    lost_ms: float
    #: `recovered`: a retry was answered; `waited`: no retry was needed; `gave-up`: no request was answered.
    outcome: Literal["recovered", "waited", "gave-up"]


def incidents(entries: Iterable[JournalEntry]) -> list[Incident]:
    """One per step that met a fault, in order of arrival. A step that comes again in a later turn is another one."""
    groups: defaultdict[tuple[str | None, int, int], list[JournalEntry]] = defaultdict(list)
    turn: dict[tuple[str | None, int], int] = {}
    for entry in sorted(entries, key=lambda entry: entry.seq):
        if entry.step is None or entry.attempt is None:
            continue
        # The gateway counts each turn's attempts from 1.
        step = (entry.subagent, entry.step)
        turn[step] = turn.get(step, 0) + (entry.attempt == 1)
        groups[*step, turn[step]].append(entry)
    return [_incident(group) for group in groups.values() if any(entry.fault for entry in group)]


def outcome(found: Iterable[Incident]) -> str | None:
    """The worst of a run; None where it met no fault."""
    words = {incident.outcome for incident in found}
    return next((word for word in ("gave-up", "recovered", "waited") if word in words), None)


def _incident(group: list[JournalEntry]) -> Incident:
    first = group[0]
    answer = next((entry for entry in group if entry.kind == "main"), None)
    if answer is None:
        end_ns, word = group[-1].t_response_end_ns, "gave-up"
    elif answer is not first:
        end_ns, word = answer.t_request_ns, "recovered"
    else:
        end_ns = first.t_first_byte_ns if first.fault == "slow-start" else first.t_response_end_ns
        word = "waited"
    return Incident(
        step=first.step if first.step is not None else 0,
        faults=tuple(entry.fault for entry in group if entry.fault is not None),
        retries=len(group) - 1,
        lost_ms=ms(first.t_request_ns, end_ns),
        outcome=word,  # type: ignore[arg-type]
    )
