"""What a CLI's output parser makes of a run, and how lines of JSON are read without trusting them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import starmap
from typing import Any

from runner.acp.findings import BAD_NUMBER, MESSAGE_TOO_LARGE, TOOL_CALL_LIMIT
from runner.records.findings import Findings
from runner.records.schema import Finding
from runner.wire.cost import too_costly
from runner.wire.numbers import Numbers
from runner.wire.values import as_text

#: Tool calls of one run, and characters of an id or a name, that are kept: as on the ACP surface.
_MAX_CALLS = 20_000
_MAX_ID = 1000
#: Memory that the values of one line may take (`runner.wire.cost`): those of the line before it are still there.
_MAX_COST = 33_000_000
#: Of a line that is kept to the end: characters of a text, items of a list or an object, levels.
_KEPT_TEXT = 100_000
_KEPT_ITEMS = 1000
_KEPT_DEPTH = 8
#: Characters of what an agent said that are kept.
_MAX_SPOKEN = 1_000_000
#: Bytes of a piece that hold at least as many, and one more for each that is cut in the middle.
SPOKEN_BYTES = 4 * _MAX_SPOKEN + 4

#: (arrival in ns, the line's bytes without or with its LF).
Lines = Iterable[tuple[int, bytes]]
#: Tool name -> ACP tool kind.
Kinds = Mapping[str, str]


@dataclass(frozen=True)
class CliToolCall:
    """One tool call of the stream.

    `failed` is None until the stream gives its result; `parent` is the call of the sub-agent's task.
    """

    id: str
    name: str
    kind: str
    t_ns: int
    failed: bool | None = None
    parent: str | None = None


@dataclass(frozen=True)
class CliUsage:
    """Tokens as the CLI itself reports them."""

    input: int
    output: int
    cached_read: int = 0
    cached_write: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output + self.cached_read + self.cached_write


@dataclass(frozen=True)
class CliResult:
    """Facts of one CLI run. Times: CLOCK_MONOTONIC ns; durations: ms. None: the format, or this run, does not say."""

    parser: str
    #: When the result line came.
    result_ns: int | None = None
    #: The CLI's own figures.
    duration_ms: float | None = None
    duration_api_ms: float | None = None
    turns: int | None = None
    usage: CliUsage | None = None
    #: By id, in the order of the stream; None where the format has no tool calls.
    tool_calls: dict[str, CliToolCall] | None = None
    #: Ids of the calls that the CLI says it denied.
    denied: tuple[str, ...] = ()
    #: Why the model stopped (`end_turn`), and how the CLI calls its end (`success`, `error_max_turns`).
    stop: str | None = None
    subtype: str | None = None
    is_error: bool = False
    text: str = ""
    version: str | None = None
    model: str | None = None
    permission_mode: str | None = None
    #: Names of the tools offered.
    tools: tuple[str, ...] = ()
    findings: Findings = field(default_factory=Findings)


class Spoken:
    """Pieces of text in order, of which the first million characters are kept."""

    def __init__(self, separator: str = "\n") -> None:
        self._separator = separator
        self._text = io.StringIO()
        self._begun = False

    def append(self, piece: str) -> None:
        room = _MAX_SPOKEN - self._text.tell()
        if room > 0:
            self._text.write(f"{self._separator if self._begun else ''}{piece}"[:room])
            self._begun = True

    @property
    def text(self) -> str:
        return self._text.getvalue()


@dataclass
class OutputLines:
    """The lines of one run, and what has been gathered from them so far."""

    lines: Lines
    kinds: Kinds = field(default_factory=dict)
    calls: dict[str, CliToolCall] = field(default_factory=dict)
    findings: Findings = field(default_factory=Findings)
    spoken: Spoken = field(default_factory=Spoken)
    numbers: Numbers = field(default_factory=Numbers)
    #: Of the line that was read last, from 1.
    number: int = 0

    def objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """(arrival, object) of each line that is a JSON object; any other one that is not blank is a finding."""
        # starmap lets go of a line before it asks for the next one: each may have 60 MB.
        yield from filter(None, starmap(self._object, self.lines))

    def _object(self, t_ns: int, raw: bytes) -> tuple[int, dict[str, Any]] | None:
        self.number = number = self.number + 1
        if not raw.strip():
            return None
        if too_costly(raw, _MAX_COST):
            message = f"output line {number} has {len(raw)} bytes, too much to be read"
            self.findings.append(Finding(id=MESSAGE_TOO_LARGE, message=message))
            return None
        line = object_of_line(raw)
        if line is None:
            message = f"output line {number} is not a JSON object: {excerpt(raw)}"
            self.findings.append(Finding(id="not-json", message=message))
            return None
        return t_ns, line

    def called(self, identity: Any, name: Any, t_ns: int, *, kind: str | None = None) -> None:
        """A tool call; what comes again under the same id is the same call."""
        key, said = as_text(identity), (as_text(name) or "")[:_MAX_ID]
        if key is not None:
            self.keep(CliToolCall(key, said, kind or self._kind(said), t_ns))

    def keep(self, call: CliToolCall) -> None:
        """A call that is new and within bounds; the first one that is not is a finding."""
        if call.id in self.calls:
            return
        if len(self.calls) < _MAX_CALLS and len(call.id) <= _MAX_ID:
            self.calls[call.id] = call
        elif not self.findings.counts[TOOL_CALL_LIMIT]:
            words = f"more than {_MAX_CALLS} tool calls, or an id of more than {_MAX_ID} characters"
            self.findings.append(Finding(id=TOOL_CALL_LIMIT, message=words))

    def ended(self, identity: Any, *, failed: bool) -> None:
        """The result of a call that came before."""
        call = self.calls.get(as_text(identity) or "")
        if call is not None:
            self.calls[call.id] = replace(call, failed=failed)

    def usage(self, counts: dict[str, Any], field: str, *keys: str) -> CliUsage | None:
        """Tokens by the format's own keys below `field`; see `usage_of`."""
        return usage_of(self.numbers, counts, field, *keys)

    def added(self, total: CliUsage | None, counts: dict[str, Any], field: str, *keys: str) -> CliUsage | None:
        """`total` and one step's tokens; None once a step's were no numbers, or the sum is out of range."""
        faults = len(self.numbers.faults)
        usage = self.usage(counts, field, *keys)
        if total is None or len(self.numbers.faults) > faults:
            return None
        if usage is None:
            return total
        summed = CliUsage(
            total.input + usage.input,
            total.output + usage.output,
            total.cached_read + usage.cached_read,
            total.cached_write + usage.cached_write,
        )
        return summed if self.numbers.total([summed.total], field) is not None else None

    def no_result(self) -> None:
        """The format has a last line, and it did not come."""
        self.findings.append(Finding(id="no-result", message="the output ended without a result line"))

    def _kind(self, name: str) -> str:
        # Some formats say the tool's family first: `file_system.bash`.
        return self.kinds.get(name) or self.kinds.get(name.rpartition(".")[2]) or "other"


def usage_of(numbers: Numbers, counts: dict[str, Any], field: str, *keys: str) -> CliUsage | None:
    """Tokens by a format's own keys: input, output, and what it says of the cache.

    None where it says neither input nor output, and where any of them is no count: a part is no figure of the whole.
    """
    faults = len(numbers.faults)
    found = [numbers.count(counts.get(key), f"{field}.{key}") for key in keys]
    numbers.total(found, field)
    if len(numbers.faults) > faults or (found[0] is None and found[1] is None):
        return None
    return CliUsage(*(finding or 0 for finding in found))


def number_findings(numbers: Numbers) -> list[Finding]:
    """What was no number of its kind in the output."""
    return [Finding(id=BAD_NUMBER, message=fault) for fault in numbers.faults]


def kept(value: Any, depth: int = _KEPT_DEPTH) -> Any:
    """A value (the line of the result, say) as it is held until the end: what is huge in it is cut."""
    if isinstance(value, str):
        return value[:_KEPT_TEXT]
    if isinstance(value, list):
        return [kept(part, depth - 1) for part in value[:_KEPT_ITEMS]] if depth else []
    if isinstance(value, dict):
        return {name: kept(one, depth - 1) for name, one in list(value.items())[:_KEPT_ITEMS]} if depth else {}
    return value


def object_of_line(raw: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def excerpt(raw: bytes) -> str:
    return ascii(raw[:80].decode("utf-8", "replace").strip())
