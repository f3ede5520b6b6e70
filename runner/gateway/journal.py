"""The gateway's ledger, read back: one entry per request.

What it says about the script is the verdict, never the agent's stop reason: some end a failed turn with `end_turn`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from runner.errors import InfraError

Kind = Literal["main", "side", "miss", "refused"]


class Part(BaseModel):
    """Root of the models here; an unknown key is an error, so that nothing a newer gateway says is overlooked."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ServedCall(Part):
    """A tool call as it was served. `id` is what the agent echoes; `arguments` is text where the tool is freeform."""

    id: str
    tool: str
    arguments: dict[str, Any] | str
    meaning: str


class ServedUsage(Part):
    """Tokens told to the agent."""

    input: int
    output: int


class Message(Part):
    """Headers by allow-list (keys masked) and the whole body."""

    headers: dict[str, str]
    body: str


class Entry(Part):
    """One request. Times: CLOCK_MONOTONIC ns; both `_end_ns` are the last byte, of request and response."""

    #: From 0 per run, in order of arrival; lines stand in order of completion.
    seq: int
    #: The run's token, masked on the host; None: the request named no known run.
    run: str | None
    kind: Kind
    #: Side requests: the rule that answered.
    rule: str | None
    #: Main requests: index of the step served. A retry serves the same step again.
    step: int | None
    #: Main requests: the sub-agent whose conversation it is and whose steps `step` counts; None: the run's own.
    subagent: str | None = None
    method: str
    #: Without the run's token.
    path: str
    t_request_ns: int
    t_request_end_ns: int
    t_first_byte_ns: int
    t_response_end_ns: int
    #: HTTP status; 0 where the client hung up before it got one.
    status: int
    model: str | None
    stream: bool
    #: Names of the tools the request offered.
    tools: list[str]
    calls: list[ServedCall]
    usage: ServedUsage | None
    #: Misses and refusals: why, and the nearest thing that would have fitted.
    reason: str | None
    nearest: str | None
    request: Message
    response: Message
    #: The client hung up before the response's end.
    aborted: bool


def parse_journal(lines: Iterable[bytes]) -> list[Entry]:
    """Entries in order of arrival. Empty lines are skipped.

    :raises InfraError: a line is not an entry (a gateway of another version, or a torn file).
    """
    entries = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entries.append(Entry.model_validate_json(line))
        except ValidationError as problem:
            first = problem.errors()[0]
            at = ".".join(str(part) for part in first["loc"])
            raise InfraError(f"model journal, line {number}: {at or 'the line'}: {first['msg']}") from None
    return sorted(entries, key=lambda entry: entry.seq)


def unserved_steps(
    entries: Iterable[Entry], steps: Iterable[Mapping[str, Any]], subagent: str | None = None
) -> list[int]:
    """Indices of one conversation's steps that no request asked for. One whose answer was cut off counts as served."""
    served = {entry.step for entry in entries if entry.kind == "main" and entry.subagent == subagent}
    return [step["index"] for step in steps if step["index"] not in served]


def script_problems(entries: Collection[Entry], program: Mapping[str, Any], *, stopped: str | None = None) -> list[str]:
    """One line for each way in which agent and script did not fit; empty means that the script was played to its end.

    :param stopped: why the turn ended before the script did (a reject, a cancel, a stop): then the steps left are
        skipped, not unserved.
    """
    problems = []
    for entry in entries:
        if entry.kind == "miss":
            nearest = f"; nearest: {entry.nearest}" if entry.nearest else ""
            problems.append(f"request {entry.seq} ({entry.method} {entry.path}): {entry.reason}{nearest}")
    if stopped is None:
        problems += _left(entries, program["steps"], None)
        for part in program.get("subagents", []):
            problems += [f"{part['name']}: {words}" for words in _left(entries, part["steps"], part["name"])]
    return problems


def _left(entries: Collection[Entry], steps: Sequence[Mapping[str, Any]], subagent: str | None) -> list[str]:
    left = unserved_steps(entries, steps, subagent)
    if not left:
        return []
    served = [entry.step for entry in entries if entry.step is not None and entry.subagent == subagent]
    nearest = f"the last one served is step {max(served)}" if served else "no step was served at all"
    names = ", ".join(_name(steps[index]) for index in left)
    return [f"{len(left)} of {len(steps)} steps were not asked for: {names}; nearest: {nearest}"]


def _name(step: Mapping[str, Any]) -> str:
    meanings = " + ".join(call["meaning"] for call in step["calls"])
    return f"{step['index']} ({meanings or ('say' if step['say'] is not None else 'think')})"


def spans(entries: Iterable[Entry], kinds: Collection[str]) -> list[tuple[int, int]]:
    """The union of [last request byte in, last response byte out] of the entries of `kinds`: disjoint, sorted, ns."""
    union: list[tuple[int, int]] = []
    found = sorted((entry.t_request_end_ns, entry.t_response_end_ns) for entry in entries if entry.kind in kinds)
    for start, end in found:
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((start, end))
    return union
