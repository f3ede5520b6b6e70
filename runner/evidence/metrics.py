"""Every metric of one run, by the names that reports and gates use.

Not applicable is None, never 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from runner.acp.findings import SCHEMA_INVALID, SCHEMA_INVALID_TOLERATED
from runner.evidence import cost, permissions, tokens
from runner.evidence.callbacks import callbacks
from runner.evidence.handshake import handshake
from runner.evidence.messages import Message, as_text, decode, exchanges
from runner.evidence.resilience import incidents, outcome
from runner.evidence.tally import tally
from runner.evidence.toolcalls import distinct_terminal_items, kind_of, tool_calls
from runner.gateway.journal import Entry
from runner.records.schema import Record
from runner.surfaces.cli_parsers import CliResult
from runner.wire.frames import Frame

#: Exact metrics that every run has (null where its surface has no such thing), in the order of a report.
NAMES = (
    "tool_calls", "tool_calls_served", "permission_requests", "client_fs_calls", "client_terminal_calls",
    "undeclared_calls", "terminal_content_items", "usage_updates", "commands_announced", "model_requests",
    "side_requests", "tokens_reported", "tokens_served", "files_changed", "stop_reason", "default_mode",
    "schema_violations", "frames", "late_updates",
)  # fmt: skip
#: `faults.met`, `faults.retries` and `faults.outcome` stand beside these where the model's faults were met.
#: Maps, flattened: `<map>.<key>`; a key that a run does not have counts 0 where the map's owner (second) is not null.
MAPS = {
    "side_requests_by_rule": "side_requests",
    "tool_calls_by_kind": "tool_calls",
    "updates": "permission_requests",
    "permission_requests_by_kind": "permission_requests",
    "update_chunks": "permission_requests",
}
#: Names (or maps) that inform and are never gated, nor held against each other.
INFORMATION = frozenset({"frames", "late_updates", "update_chunks"})

Exact = dict[str, Any]
Sampled = dict[str, float | None]


def compute(
    record: Record, frames: Iterable[Frame], entries: Sequence[Entry], cli: CliResult | None
) -> tuple[Exact, Sampled]:
    """(exact, sampled) metrics of one run from its frame log and its model journal.

    `cli`: what the CLI's output parser made of the run; None: the run spoke ACP. Of `record` only what the frames
    cannot tell is used: start and end, the agent's exit, the verdict, the findings of schema validation.
    """
    messages = decode(frames)
    exact: Exact = dict.fromkeys(NAMES)
    exact["model_requests"] = sum(entry.kind == "main" for entry in entries)
    exact["side_requests"] = sum(entry.kind == "side" for entry in entries)
    exact.update(_flat("side_requests_by_rule", Counter(e.rule or "" for e in entries if e.kind == "side")))
    if met := incidents(entries):
        exact["faults.met"] = sum(len(one.faults) for one in met)
        exact["faults.retries"] = sum(one.retries for one in met)
        exact["faults.outcome"] = outcome(met)
    exact["tool_calls_served"] = len({call.id for entry in entries if entry.kind == "main" for call in entry.calls})
    exact["tokens_served"] = tokens.served(entries)
    reported = tokens.reported(messages, cli)
    exact["tokens_reported"] = reported.total if reported is not None else None
    exact["files_changed"] = len(record.verdict.changes) if record.verdict is not None else None
    exact["frames"] = len(messages)
    exact.update(_of_acp(record, messages) if cli is None else _of_cli(cli))
    return exact, cost.cost(record, messages, entries, cli)


def is_information(name: str) -> bool:
    """Whether an exact metric only informs."""
    return name.partition(".")[0] in INFORMATION


def owner(name: str) -> str | None:
    """Of a flattened map's name, the metric that is null where the map does not exist; None for any other name."""
    prefix, dot, _ = name.partition(".")
    return MAPS.get(prefix) if dot else None


def _of_acp(record: Record, messages: Sequence[Message]) -> Exact:
    counts = tally(messages)
    calls = tool_calls(messages)
    asked = permissions.asks(messages)
    called = callbacks(messages)
    hello = handshake(messages)
    turns = exchanges(messages, "client", "session/prompt")
    violations = (SCHEMA_INVALID, SCHEMA_INVALID_TOLERATED)
    return {
        "tool_calls": len(calls),
        "permission_requests": len(asked),
        "client_fs_calls": sum(call.method.startswith("fs/") for call in called),
        "client_terminal_calls": sum(call.method.startswith("terminal/") for call in called),
        "undeclared_calls": sum(call.declared is False for call in called),
        "terminal_content_items": distinct_terminal_items(messages),
        "usage_updates": counts.updates.get("usage_update", 0),
        "commands_announced": len(hello.commands.names) if hello.commands is not None else 0,
        "stop_reason": as_text((turns[-1].result or {}).get("stopReason")) if turns else None,
        "default_mode": hello.default_mode,
        "schema_violations": sum(finding.id in violations for finding in record.findings),
        "late_updates": counts.late_updates,
        **_flat("tool_calls_by_kind", Counter(map(kind_of, calls.values()))),
        **_flat("permission_requests_by_kind", permissions.by_kind(asked)),
        **_flat("updates", counts.updates),
        **_flat("update_chunks", counts.chunks),
    }


def _of_cli(cli: CliResult) -> Exact:
    if cli.tool_calls is None:
        return {"stop_reason": cli.stop or cli.subtype}
    return {
        "tool_calls": len(cli.tool_calls),
        "stop_reason": cli.stop or cli.subtype,
        **_flat("tool_calls_by_kind", Counter(call.kind for call in cli.tool_calls.values())),
    }


def _flat(prefix: str, counts: dict[str, int]) -> Exact:
    return {f"{prefix}.{key}": counts[key] for key in sorted(counts)}
