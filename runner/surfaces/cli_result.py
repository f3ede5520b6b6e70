"""What a CLI's output parser makes of a run, and how lines of JSON are read without trusting them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from runner.acp.findings import BAD_NUMBER
from runner.records.schema import Finding
from runner.wire.numbers import Numbers

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
    findings: tuple[Finding, ...] = ()


@dataclass
class Stream:
    """The lines of one run, and what has been gathered from them so far."""

    lines: Lines
    kinds: Kinds = field(default_factory=dict)
    calls: dict[str, CliToolCall] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    spoken: list[str] = field(default_factory=list)
    numbers: Numbers = field(default_factory=Numbers)

    def objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """(arrival, object) of each line that is a JSON object; any other one that is not blank is a finding."""
        for number, (t_ns, raw) in enumerate(self.lines, 1):
            if not raw.strip():
                continue
            line = as_object(raw)
            if line is None:
                words = f"output line {number} is not a JSON object: {excerpt(raw)}"
                self.findings.append(Finding(id="not-json", message=words))
            else:
                yield t_ns, line

    def called(self, identity: Any, name: Any, t_ns: int, *, kind: str | None = None) -> None:
        """A tool call; what comes again under the same id is the same call."""
        key, said = as_text(identity), as_text(name) or ""
        if key is not None:
            self.calls.setdefault(key, CliToolCall(key, said, kind or self._kind(said), t_ns))

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
    return CliUsage(*(one or 0 for one in found))


def number_findings(numbers: Numbers) -> list[Finding]:
    """What was no number of its kind in the output."""
    return [Finding(id=BAD_NUMBER, message=fault) for fault in numbers.faults]


def as_object(raw: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def as_object_value(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def excerpt(raw: bytes) -> str:
    return ascii(raw[:80].decode("utf-8", "replace").strip())
