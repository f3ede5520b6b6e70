"""One state per toolCallId, coalesced from tool_call, tool_call_update and the toolCall of permission requests.

A field in an update replaces what was known; null and absent both mean "unchanged" (ACP v1, ToolCallUpdate).
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from runner.acp import findings as f
from runner.acp.findings import FrameFinding

Source = Literal["tool_call", "tool_call_update", "permission"]

#: Order of a tool call's life. Unknown statuses are recorded and have no rank.
RANK: Final[dict[str, int]] = {"pending": 0, "in_progress": 1, "completed": 2, "failed": 2}
FINAL: Final = frozenset({"completed", "failed"})

#: Bounds, so that a hostile agent costs no memory.
MAX_CALLS: Final = 20_000
MAX_INPUT_BYTES: Final = 32 * 1024 * 1024
_MAX_ITEMS: Final = 64
_MAX_ID: Final = 1000
_MAX_TEXT: Final = 4000


@dataclass(slots=True)
class ToolCall:
    """What is known of one call. `statuses` holds changes only, as they were seen."""

    id: str
    session_id: str
    first_seq: int
    last_seq: int
    title: str | None = None
    kind: str | None = None
    statuses: list[str] = field(default_factory=list)
    content_types: set[str] = field(default_factory=set)
    #: terminalId of the terminal content items.
    terminals: set[str] = field(default_factory=set)
    raw_input: Any = None
    locations: list[Any] = field(default_factory=list)
    #: A tool_call was seen (not only updates or a permission request).
    announced: bool = False
    #: An update came before any tool_call.
    orphaned: bool = False
    #: Permission requests that named it.
    asks: int = 0
    #: It was open when its turn was cancelled: the client counts it as cancelled, whatever the agent still says.
    cancelled: bool = False
    #: Bytes of the frames that rawInput and locations came from.
    weights: dict[str, int] = field(default_factory=dict)

    @property
    def status(self) -> str | None:
        return self.statuses[-1] if self.statuses else None

    @property
    def final(self) -> bool:
        return self.status in FINAL


class ToolCalls:
    """All tool calls of a connection. `calls` is the mapping policies look into."""

    def __init__(self, max_calls: int = MAX_CALLS, max_input_bytes: int = MAX_INPUT_BYTES) -> None:
        self.calls: dict[str, ToolCall] = {}
        self._max_calls = max_calls
        self._input_left = max_input_bytes
        self._full = False

    def observe(
        self,
        source: Source,
        session_id: str,
        fields: Mapping[str, Any],
        seq: int,
        *,
        size: int = 0,
        terminals: AbstractSet[str] = frozenset(),
    ) -> list[FrameFinding]:
        """Takes in one sighting, gives findings. `size`: its frame's bytes; `terminals`: the ids the client created."""
        id = fields.get("toolCallId")
        if not isinstance(id, str):
            return [FrameFinding(f.TOOL_CALL_WITHOUT_ID, f"{source} has no toolCallId", seq)]
        if len(id) > _MAX_ID:
            return self._limit(f"a toolCallId of {len(id)} characters", seq)
        known = self.calls.get(id)
        if known is None and len(self.calls) >= self._max_calls:
            return self._limit(f"more than {self._max_calls} tool calls", seq)
        call = known or ToolCall(id, session_id, seq, seq)
        self.calls[id] = call
        findings = _life_cycle(call, source, known is not None, seq)
        call.last_seq = seq
        findings += self._input(call, fields, size, seq)
        _words(call, fields)
        findings += _content(call, fields, seq, terminals)
        findings += _status(call, fields, seq)
        return findings

    def cancel(self, session_id: str) -> None:
        """The session's turn is cancelled: a client marks what is open as cancelled at once (ACP, cancellation)."""
        for call in self.calls.values():
            call.cancelled = call.cancelled or (call.session_id == session_id and not call.final)

    def finish(self) -> list[FrameFinding]:
        """What only the end of the stream can tell: calls that never became final, calls without a kind."""
        findings: list[FrameFinding] = []
        for call in self.calls.values():
            if not call.final and not call.cancelled:
                findings.append(
                    FrameFinding(
                        f.TOOL_CALL_NOT_FINAL, f"tool call {call.id} ended with status {call.status}", call.last_seq
                    )
                )
            if call.kind is None:
                findings.append(
                    FrameFinding(
                        f.TOOL_CALL_WITHOUT_KIND, f"tool call {call.id}: no message gives its kind", call.first_seq
                    )
                )
        return findings

    def _input(self, call: ToolCall, fields: Mapping[str, Any], size: int, seq: int) -> list[FrameFinding]:
        """Keeps rawInput and locations within the budget. The first that is above it makes a finding."""
        findings: list[FrameFinding] = []
        for name, field_name in (("rawInput", "raw_input"), ("locations", "locations")):
            value = fields.get(name)
            if value is None or (name == "locations" and not isinstance(value, list)):
                continue
            left = self._input_left + call.weights.get(name, 0) - size
            if left < 0:
                findings += self._limit("rawInput and locations beyond what is kept", seq)
                continue
            self._input_left = left
            call.weights[name] = size
            setattr(call, field_name, value)
        return findings

    def _limit(self, what: str, seq: int) -> list[FrameFinding]:
        if self._full:
            return []
        self._full = True
        return [FrameFinding(f.TOOL_CALL_LIMIT, what, seq)]


def _life_cycle(call: ToolCall, source: Source, known: bool, seq: int) -> list[FrameFinding]:
    """Counts the sighting; gives what is out of order about it."""
    if source == "permission":
        call.asks += 1
        return (
            []
            if known
            else [
                FrameFinding(
                    f.PERMISSION_FOR_UNKNOWN_CALL,
                    f"tool call {call.id}: session/request_permission is the first to name it",
                    seq,
                )
            ]
        )
    if source == "tool_call":
        twice = call.announced
        call.announced = True
        return (
            [FrameFinding(f.TOOL_CALL_ANNOUNCED_TWICE, f"tool call {call.id}: a second tool_call announces it", seq)]
            if twice
            else []
        )
    if call.announced or call.orphaned:
        return []
    call.orphaned = True
    return [
        FrameFinding(
            f.UPDATE_BEFORE_TOOL_CALL, f"tool call {call.id}: a tool_call_update came before any tool_call", seq
        )
    ]


def _words(call: ToolCall, fields: Mapping[str, Any]) -> None:
    for name in ("title", "kind"):
        value = fields.get(name)
        if isinstance(value, str):
            setattr(call, name, value[:_MAX_TEXT])


def _content(call: ToolCall, fields: Mapping[str, Any], seq: int, terminals: AbstractSet[str]) -> list[FrameFinding]:
    """Content types and terminal ids; a terminal that is not the client's is named once a call."""
    findings: list[FrameFinding] = []
    items = fields.get("content")
    for item in items if isinstance(items, list) else []:
        if not isinstance(item, dict) or not isinstance(item.get("type"), str):
            continue
        _keep(call.content_types, item["type"])
        terminal = item.get("terminalId")
        if item["type"] != "terminal" or not isinstance(terminal, str):
            continue
        if _keep(call.terminals, terminal) and terminal not in terminals:
            findings.append(
                FrameFinding(
                    f.FOREIGN_TERMINAL,
                    f"tool call {call.id}: shows terminal {terminal}, which the client never created",
                    seq,
                )
            )
    return findings


def _keep(kept: set[str], value: str) -> bool:
    """Adds a value that is new and within bounds; whether it was added."""
    if value in kept or len(kept) >= _MAX_ITEMS or len(value) > _MAX_ID:
        return False
    kept.add(value)
    return True


def _status(call: ToolCall, fields: Mapping[str, Any], seq: int) -> list[FrameFinding]:
    status, before = fields.get("status"), call.status
    if not isinstance(status, str) or status == before or len(status) > _MAX_ID:
        return []
    if len(call.statuses) < _MAX_ITEMS:
        call.statuses.append(status)
    else:
        call.statuses[-1] = status
    if before is None or before not in RANK or status not in RANK:
        return []
    if RANK[status] > RANK[before]:
        return []
    return [FrameFinding(f.STATUS_BACKWARDS, f"tool call {call.id}: status {status} after {before}", seq)]
