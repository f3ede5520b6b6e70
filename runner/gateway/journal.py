"""The gateway's ledger, read back: one entry per request.

What it says about the script is the verdict, never the agent's stop reason: some end a failed turn with `end_turn`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runner.errors import InternalError
from runner.text.encoding import validated
from runner.text.files import LINE, lines_in, open_regular

#: How a line begins.
_SEQ = re.compile(rb'\{"seq": ?(\d{1,9}),')
#: Distinct names of tools that are held of one run.
_TOOL_NAMES = 2000
#: `fault`: a main request that got a fault instead of its step's answer.
Kind = Literal["main", "side", "miss", "refused", "fault"]


class JournalPart(BaseModel):
    """Root of the models here; an unknown key is an error, so that nothing a newer gateway says is overlooked."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ServedCall(JournalPart):
    """A tool call as it was served. `id` is what the agent echoes; `arguments` is text where the tool is freeform."""

    id: str
    tool: str
    arguments: dict[str, Any] | str
    meaning: str
    freeform: bool = False


class ServedUsage(JournalPart):
    """Tokens told to the agent; `reasoning` is a part of `output`, the cached ones come on top of `input`."""

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0

    @property
    def total(self) -> int:
        return self.input + self.cache_read + self.cache_write + self.output


class SkippedStep(JournalPart):
    """A step that was passed over, its condition not holding."""

    step: int
    reason: str


class HttpMessage(JournalPart):
    """Headers by allow-list (keys masked) and the body."""

    headers: dict[str, str]
    #: None, or its beginning alone, where it is `cut`.
    body: str | None
    #: Bytes as they came; None: an older gateway did not say.
    length: int | None = None
    #: Of a body that is cut.
    sha256: str | None = None
    cut: bool = False

    @property
    def text(self) -> str:
        """What is kept of the body."""
        return self.body or ""

    @property
    def size(self) -> int:
        """Bytes of the whole body."""
        return self.length if self.length is not None else len(self.text.encode("utf-8", "surrogatepass"))


class Difference(JournalPart):
    """A place in which a request and the recorded one differ; None: it is not there at all."""

    at: str
    character: int
    recorded: str | None
    asked: str | None


class Taped(JournalPart):
    """What the ledger says of the cassette. Replay: `entry` that answered and `drift`, or the `differences` of a miss.
    Capture: all else, of which the tape is made."""

    entry: int | None = None
    #: Parts out of the match key whose hash is not the recorded one.
    drift: list[str] = []
    #: To the nearest entry, the first twenty.
    differences: list[Difference] = []
    version: int | None = None
    request: dict[str, Any] | None = None
    hashed: dict[str, str] = {}
    headers: dict[str, str] = {}
    #: Milliseconds since the request's last byte, and the bytes: text, or `{"base64": ...}`.
    chunks: list[tuple[float, str | dict[str, str]]] = []
    #: Who ended the answer: nobody before its time, the upstream, or the agent.
    end: Literal["whole", "cut", "client"] | None = None
    #: The answer says the run's token in a form that cannot be masked.
    leak: bool = False
    #: Larger than what is kept: no tape can be made of it.
    large: bool = False


class JournalEntry(JournalPart):
    """One request. Times: CLOCK_MONOTONIC ns; both `_end_ns` are the last byte, of request and response."""

    #: From 0 per run, in order of arrival; lines stand in order of completion.
    seq: int
    #: The run's token, masked on the host; None: the request named no known run.
    run: str | None
    kind: Kind
    #: Side requests: the rule that answered.
    rule: str | None
    #: Main requests and faults: index of the step asked for. A retry serves the same step again.
    step: int | None
    #: Main requests and faults: the sub-agent whose steps `step` counts; None: they are the run's own.
    subagent: str | None = None
    #: Main requests: the steps passed over for this one.
    skipped: list[SkippedStep] = []
    #: The kind of fault that the answer met.
    fault: str | None = None
    #: Which request for its step in this turn this is, from 1; null: the step has no faults.
    attempt: int | None = None
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
    #: The bound of the gateway that it went over (images/gateway/limits.mjs).
    limit: str | None = None
    #: Names of the canaries in a request whose body is not kept.
    canaries: list[str] = []
    request: HttpMessage
    response: HttpMessage
    #: Models that are no script.
    tape: Taped | None = None
    #: The client hung up before the response's end.
    aborted: bool

    def without_bodies(self) -> JournalEntry:
        """What is held of it where there are many; `size` of a body stays."""
        bare = {
            name: one.model_copy(update={"body": None, "length": one.size})
            for name, one in (("request", self.request), ("response", self.response))
        }
        return self.model_copy(update=bare)


_E = TypeVar("_E", bound=JournalEntry)


class _BareMessage(HttpMessage):
    """Read without its body, which may be megabytes."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    headers: dict[str, str] = Field(default={}, validation_alias="-")
    body: str | None = Field(default=None, validation_alias="-")


class _BareCall(ServedCall):
    arguments: dict[str, Any] | str = Field(default="", validation_alias="-")
    model_config = ConfigDict(extra="ignore", frozen=True)


class _BareTaped(Taped):
    model_config = ConfigDict(extra="ignore", frozen=True)

    differences: list[Difference] = Field(default=[], validation_alias="-")
    request: dict[str, Any] | None = Field(default=None, validation_alias="-")
    chunks: list[tuple[float, str | dict[str, str]]] = Field(default=[], validation_alias="-")


class _BareEntry(JournalEntry):
    request: _BareMessage
    response: _BareMessage
    calls: list[_BareCall]  # type: ignore[assignment]
    tape: _BareTaped | None = None


@dataclass(frozen=True, slots=True)
class LoggedEntries:
    """The entries of a journal's file in order of arrival, read anew whenever they are iterated: none is held.

    Iterating raises InternalError for a line that is no entry, and what `runner.text.files.lines_of` raises.
    """

    path: Path

    def __iter__(self) -> Iterator[JournalEntry]:
        for number, line in self._lines():
            yield _entry(JournalEntry, line, number)

    def bare(self) -> list[JournalEntry]:
        """All entries without what may be large: bodies, headers, arguments of calls, contents of tapes."""
        names: dict[str, str] = {}
        tools: list[str] = []
        entries: list[JournalEntry] = []
        for number, line in self._lines():
            entry = _entry(_BareEntry, line, number)
            # An agent offers the same tools again and again; one that names others each time is not followed for ever.
            if entry.tools != tools:
                tools = [
                    names.setdefault(name, name) for name in entry.tools if name in names or len(names) < _TOOL_NAMES
                ]
            entries.append(entry.model_copy(update={"tools": tools}))
        return entries

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """(number, line); they stand in order of completion."""
        with open_regular(self.path) as file:
            places: list[tuple[int, int, int]] = []
            at = 0
            for number, line in enumerate(lines_in(file, self.path), start=1):
                if line.strip():
                    places.append((_seq(line, number), number, at))
                at += len(line)
            for _, number, start in sorted(places):
                file.seek(start)
                yield number, file.readline(LINE + 1)


def _seq(line: bytes, number: int) -> int:
    found = _SEQ.match(line)
    return int(found[1]) if found is not None else _entry(_BareEntry, line, number).seq


def _entry(kind: type[_E], line: bytes, number: int) -> _E:
    try:
        return validated(kind, line, raw=True)
    except ValidationError as problem:
        first = problem.errors()[0]
        at = ".".join(str(part) for part in first["loc"])
        raise InternalError(f"model journal, line {number}: {at or 'the line'}: {first['msg']}") from None
    except (ValueError, RecursionError) as problem:
        raise InternalError(f"model journal, line {number}: {problem}") from None


def parse_journal(lines: Iterable[bytes]) -> list[JournalEntry]:
    """Entries in order of arrival. Empty lines are skipped.

    :raises InternalError: a line is not an entry (a gateway of another version, or a torn file).
    """
    entries = [_entry(JournalEntry, line, number) for number, line in enumerate(lines, start=1) if line.strip()]
    return sorted(entries, key=lambda entry: entry.seq)


def unserved_steps(
    entries: Iterable[JournalEntry], steps: Iterable[Mapping[str, Any]], subagent: str | None = None
) -> list[int]:
    """Indices of one conversation's steps that no request asked for. One whose answer was cut off counts as served."""
    served = {entry.step for entry in entries if entry.kind == "main" and entry.subagent == subagent}
    return [step["index"] for step in steps if step["index"] not in served]


def skipped_steps(
    entries: Iterable[JournalEntry], steps: Sequence[Mapping[str, Any]], subagent: str | None = None
) -> dict[int, str]:
    """One conversation's unserved steps that the script itself made unreachable -> why: a condition that did not hold,
    a branch that ended the turn, a fault after which the agent asked no more."""
    mine = [entry for entry in entries if entry.subagent == subagent]
    left = unserved_steps(mine, steps, subagent)
    reasons = {step.step: step.reason for entry in mine for step in entry.skipped}
    asked = [entry for entry in mine if entry.kind in ("main", "fault") and entry.step is not None]
    if asked:
        last = asked[-1]
        step = next(step for step in steps if step["index"] == last.step)
        if last.kind == "fault":
            attempts = sum(entry.kind == "fault" and entry.step == last.step for entry in asked)
            why = f"the agent gave up step {last.step} after {attempts} failed request(s)"
            reasons |= {index: why for index in left if index >= step["index"]}
        elif step.get("when") is not None and not step["calls"] and step["finish"] != "max_tokens":
            reasons |= {index: f"step {last.step} ended the turn" for index in left if index > step["index"]}
    return {index: reasons[index] for index in left if index in reasons}


def script_problems(
    entries: Collection[JournalEntry], program: Mapping[str, Any], *, stopped: str | None = None
) -> list[str]:
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


def _left(entries: Collection[JournalEntry], steps: Sequence[Mapping[str, Any]], subagent: str | None) -> list[str]:
    skipped = skipped_steps(entries, steps, subagent)
    left = [index for index in unserved_steps(entries, steps, subagent) if index not in skipped]
    if not left:
        return []
    served = [entry.step for entry in entries if entry.step is not None and entry.subagent == subagent]
    nearest = f"the last one served is step {max(served)}" if served else "no step was served at all"
    names = ", ".join(_name(steps[index]) for index in left)
    return [f"{len(left)} of {len(steps)} steps were not asked for: {names}; nearest: {nearest}"]


def _name(step: Mapping[str, Any]) -> str:
    meanings = " + ".join(call["meaning"] for call in step["calls"])
    return f"{step['index']} ({meanings or ('say' if step['say'] is not None else 'think')})"


def spans(entries: Iterable[JournalEntry], kinds: Collection[str]) -> list[tuple[int, int]]:
    """The union of [last request byte in, last response byte out] of the entries of `kinds`: disjoint, sorted, ns."""
    union: list[tuple[int, int]] = []
    found = sorted((entry.t_request_end_ns, entry.t_response_end_ns) for entry in entries if entry.kind in kinds)
    for start, end in found:
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((start, end))
    return union
