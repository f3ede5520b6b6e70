"""Tokens: what the agent reports of a run, and what the gateway served in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from runner.evidence.messages import Message, as_count, as_object, exchanges
from runner.gateway.journal import Entry
from runner.surfaces.cli_parsers import CliResult

#: Members of a prompt response's `usage` (schema v1) that make up its total.
_PARTS = ("inputTokens", "outputTokens", "cachedReadTokens", "cachedWriteTokens", "thoughtTokens")


@dataclass(frozen=True)
class Reported:
    """Tokens of all turns of a run as the agent says, cached ones included."""

    total: int
    source: Literal["prompt-response", "cli-result"]


def reported(messages: Sequence[Message], cli: CliResult | None) -> Reported | None:
    """What the agent reports; None where it reports nothing.

    A prompt response's `usage.totalTokens` counts, else the sum of its parts; turns are added up, and where one of
    several reports nothing the run has no figure. A usage_update is no substitute: its `used` is the size of the
    context, a level and not a sum.
    """
    if cli is not None:
        return Reported(cli.usage.total, "cli-result") if cli.usage is not None else None
    totals = [
        _total(turn.result) for turn in exchanges(messages, "client", "session/prompt") if turn.result is not None
    ]
    known = [total for total in totals if total is not None]
    return Reported(sum(known), "prompt-response") if known and len(known) == len(totals) else None


def served(entries: Iterable[Entry]) -> int | None:
    """Tokens, in and out, of the answers to main requests; None where there was no such request.

    Side requests are not the conversation.
    """
    main = [entry for entry in entries if entry.kind == "main"]
    return sum(entry.usage.total for entry in main if entry.usage is not None) if main else None


def _total(result: dict[str, object] | None) -> int | None:
    usage = as_object(as_object(result).get("usage"))
    total = as_count(usage.get("totalTokens"))
    if total is not None:
        return total
    parts = [part for key in _PARTS if (part := as_count(usage.get(key))) is not None]
    return sum(parts) if parts else None
