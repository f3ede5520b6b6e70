"""Tokens: what the agent reports of a run, and what the gateway served in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from runner.acp.findings import BAD_NUMBER
from runner.evidence.conversation import Conversation
from runner.gateway.journal import JournalEntry
from runner.records.schema import Finding
from runner.surfaces.cli.parsers import CliResult
from runner.wire.numbers import Numbers, out_of_range
from runner.wire.values import as_object

#: Members of a prompt response's `usage` (schema v1) that make up its total.
_PARTS = ("inputTokens", "outputTokens", "cachedReadTokens", "cachedWriteTokens", "thoughtTokens")
_TOTAL = "totalTokens"
#: Findings of one run that are kept.
_KEPT = 100


@dataclass(frozen=True)
class Reported:
    """Tokens of all turns of a run as the agent says, cached ones included."""

    total: int
    source: Literal["prompt-response", "cli-result"]


def reported(conversation: Conversation, cli: CliResult | None) -> Reported | None:
    """What the agent reports; None where it reports nothing, and where what it reports is no count (`bad_numbers`).

    A prompt response's `usage.totalTokens` counts, else the sum of its parts; turns are added up, and where one of
    several reports nothing the run has no figure. A usage_update is no substitute: its `used` is the size of the
    context, a level and not a sum.
    """
    if cli is not None:
        return Reported(cli.usage.total, "cli-result") if cli.usage is not None else None
    numbers = Numbers()
    total = _reported(conversation, numbers)
    return Reported(total, "prompt-response") if total is not None and not numbers.faults else None


def bad_numbers(conversation: Conversation) -> list[Finding]:
    """What is no count among the tokens that an agent reports over ACP, and the numbers of its answers and of its
    usage updates that no reader of a record could hold."""
    findings: list[Finding] = []
    for exchange in conversation.requests("client"):
        answer = exchange.response
        if answer is None or len(findings) >= _KEPT:
            continue
        name = exchange.request.method or ""
        numbers = Numbers()
        rest = answer.payload
        if name == "session/prompt":
            _total(rest, numbers)
            rest = {**rest, "usage": _without(as_object(rest.get("usage")), *_PARTS, _TOTAL)}
        faults = [*numbers.faults, *out_of_range(rest, "result")]
        findings += [Finding(id=BAD_NUMBER, message=f"{name}: {fault}", seq=answer.seq) for fault in faults]
    for update in conversation.updates:
        if update.kind == "usage_update" and len(findings) < _KEPT:
            numbers = Numbers()
            cost = as_object(update.body.get("cost"))
            numbers.count(update.body.get("used"), "used")
            numbers.count(update.body.get("size"), "size")
            numbers.amount(cost.get("amount"), "cost.amount")
            rest = {**_without(update.body, "used", "size"), "cost": _without(cost, "amount")}
            faults = [*numbers.faults, *out_of_range(rest, "update")]
            findings += [Finding(id=BAD_NUMBER, message=f"usage_update: {f}", seq=update.message.seq) for f in faults]
    numbers = Numbers()
    if _reported(conversation, numbers) is None and numbers.faults and not findings:
        findings.append(Finding(id=BAD_NUMBER, message=numbers.faults[0]))
    return findings[:_KEPT]


def served(entries: Iterable[JournalEntry]) -> int | None:
    """Tokens, in and out, of the answers to main requests; None where there was no such request.

    Side requests are not the conversation.
    """
    main = [entry for entry in entries if entry.kind == "main"]
    return sum(entry.usage.total for entry in main if entry.usage is not None) if main else None


def _reported(conversation: Conversation, numbers: Numbers) -> int | None:
    turns = conversation.requests("client", "session/prompt")
    totals = [_total(turn.result, numbers) for turn in turns if turn.result is not None]
    return None if None in totals else numbers.total(totals, "the turns' usage")


def _total(result: dict[str, object] | None, numbers: Numbers) -> int | None:
    usage = as_object(as_object(result).get("usage"))
    parts = [numbers.count(usage.get(key), f"usage.{key}") for key in _PARTS]
    total = numbers.count(usage.get(_TOTAL), f"usage.{_TOTAL}")
    return numbers.total(parts, "usage") if total is None else total


def _without(value: dict[str, object], *keys: str) -> dict[str, object]:
    return {key: part for key, part in value.items() if key not in keys}
