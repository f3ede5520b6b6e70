"""What the tool calls of a run are, and the terminals that they show."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from runner.acp.toolcalls import ToolCall
from runner.evidence.conversation import Conversation
from runner.wire.values import as_list, as_object, as_text


@dataclass(frozen=True)
class TerminalItem:
    """One terminal content item of one update; what a permission request repeats is not counted again."""

    seq: int
    tool_call: str
    terminal: str


def kind_of(call: ToolCall | None) -> str:
    """A call's kind; `other`, the protocol's default, where nobody said one."""
    return (call.kind if call is not None else None) or "other"


def command_of(call: ToolCall | None) -> str | None:
    """The shell command of a call's raw input, where it has one."""
    return as_text(as_object(call.raw_input).get("command")) if call is not None else None


def terminal_items(conversation: Conversation) -> list[TerminalItem]:
    """Every terminal content item that an update carries."""
    return [
        TerminalItem(message.seq, as_text(body.get("toolCallId")) or "", terminal)
        for message, source, body in conversation.sightings
        if source != "permission"
        for terminal in _terminals(body)
    ]


def distinct_terminal_items(conversation: Conversation) -> int:
    """How often a call shows a terminal anew: what refines a call up to its next status is one, as in `updates.*`.

    An agent may race with itself over how often it refines a call before its ask, and each refinement repeats the item.
    """
    shown: set[tuple[str, int, str]] = set()
    statuses: Counter[str] = Counter()
    for _, source, body in conversation.sightings:
        if source == "permission":
            continue
        call = as_text(body.get("toolCallId")) or ""
        for item in _terminals(body):
            shown.add((call, statuses[call], item))
        statuses[call] += body.get("status") is not None or source == "tool_call"
    return len(shown)


def _terminals(body: dict[str, Any]) -> list[str]:
    """The terminalIds of an update's content."""
    items = map(as_object, as_list(body.get("content")))
    return [as_text(item.get("terminalId")) or "" for item in items if item.get("type") == "terminal"]
