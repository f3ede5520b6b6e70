"""Every metric of one run, by the names that reports and gates use.

Not applicable is None, never 0.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from runner.acp.findings import SCHEMA_INVALID, SCHEMA_INVALID_TOLERATED
from runner.evidence import cost, names, permissions, tokens
from runner.evidence.callbacks import callbacks
from runner.evidence.cancellation import cancellations
from runner.evidence.conversation import Conversation
from runner.evidence.handshake import handshake
from runner.evidence.resilience import incidents, outcome
from runner.evidence.tally import tally
from runner.evidence.toolcalls import distinct_terminal_items, kind_of
from runner.gateway.journal import JournalEntry
from runner.records.schema import Record
from runner.surfaces.cli.parsers import CliResult
from runner.wire.values import as_text

#: Exact metrics that every run has (null where its surface has no such thing), in the order of a report.
NAMES = (
    "tool_calls", "tool_calls_served", "permission_requests", "client_fs_calls", "client_terminal_calls",
    "undeclared_calls", "terminal_content_items", "usage_updates", "commands_announced", "model_requests",
    "side_requests", "tokens_reported", "tokens_served", "files_changed", "stop_reason", "default_mode",
    "schema_violations", "tools_offered", "files_outside", "names_tried", "frames", "late_updates",
)  # fmt: skip
#: `faults.met`, `faults.retries` and `faults.outcome` stand beside these where the model's faults were met, and the
#: `cancel_*` ones where a turn was cancelled.


def rank(name: str) -> tuple[int, str]:
    """Sorts exact metrics as a report lists them: those of `NAMES` first, all others by name."""
    return (NAMES.index(name) if name in NAMES else len(NAMES), name)


class Map(NamedTuple):
    """A map that stands flattened among the metrics: `<map>.<key>`."""

    #: The metric that is null where the map does not exist.
    owner: str
    #: What a key that a run does not have is worth, where the map exists.
    absent: Any = 0
    #: A metric that every report has in which the map may stand; None: all have.
    since: str | None = None


#: Counts, by what they count.
_COUNTS = {
    "side_requests_by_rule": Map("side_requests"),
    "tool_calls_by_kind": Map("tool_calls"),
    "updates": Map("permission_requests"),
    "permission_requests_by_kind": Map("permission_requests"),
    "permission_options": Map("permission_requests", since="tools_offered"),
    "update_chunks": Map("permission_requests"),
    "findings": Map("frames", since="tools_offered"),
}
#: Names: true where the run has it.
_NAMES = {
    name: Map(owner, absent=False, since="tools_offered")
    for name, owner in {
        "commands_announced": "commands_announced",
        "tools_offered": "tools_offered",
        "modes": "permission_requests",
        "auth_methods": "permission_requests",
        "capabilities": "permission_requests",
        "files_changed": "files_changed",
        "files_outside": "files_outside",
        "names_tried": "names_tried",
    }.items()
}
#: Values.
_VALUES = {"config_options": Map("permission_requests", absent=None, since="tools_offered")}
MAPS = _COUNTS | _NAMES | _VALUES
#: Metrics that older reports lack.
_LATER = frozenset({"tools_offered", "files_outside", "names_tried"})
#: Names (or maps) that inform and are never gated, nor held against each other.
INFORMATION = frozenset({"frames", "late_updates", "update_chunks", "findings", "cancel_updates_after"})

#: Names of one map that are metrics of their own, and characters of a name and of a value that is text.
_KEYS = 500
_KEY = 120
_WORDS = 500

Exact = dict[str, Any]
Sampled = dict[str, float | None]


@dataclass(frozen=True)
class LeftoverFiles:
    """What lay outside the workspace at the end.

    `files`: `outside` of fsdiff.json; `given`: path -> sha256 (None: a link) of what was put there before the start;
    `fleeting`: the adapter's.
    """

    files: Sequence[Mapping[str, Any]]
    given: Mapping[str, str | None] = field(default_factory=dict)
    fleeting: Sequence[str] = ()


def compute(
    record: Record,
    conversation: Conversation,
    entries: Sequence[JournalEntry],
    cli: CliResult | None,
    left: LeftoverFiles | None = None,
    tried: Iterable[str] | None = None,
    found: Mapping[str, int] | None = None,
) -> tuple[Exact, Sampled]:
    """(exact, sampled) metrics of one run from its decoded frame log and its model journal.

    `left` None: nobody looked. `tried`: the host names that the agent asked for; None: nobody listened. `found`: how
    many findings there were by id; None: those of the record are all.

    `cli`: what the CLI's output parser made of the run; None: the run spoke ACP. Of `record` only what the frames
    cannot tell is used: start and end, the agent's exit, the verdict, the findings of schema validation.
    """
    counts = Counter(finding.id for finding in record.findings) if found is None else found
    exact: Exact = dict.fromkeys(NAMES)
    exact["model_requests"] = sum(entry.kind == "main" for entry in entries)
    exact["side_requests"] = sum(entry.kind == "side" for entry in entries)
    exact.update(_flat("side_requests_by_rule", Counter(e.rule or "" for e in entries if e.kind == "side")))
    if met := incidents(entries):
        exact["faults.met"] = sum(len(incident.faults) for incident in met)
        exact["faults.retries"] = sum(incident.retries for incident in met)
        exact["faults.outcome"] = outcome(met)
    exact["tool_calls_served"] = len({call.id for entry in entries if entry.kind == "main" for call in entry.calls})
    exact["tokens_served"] = tokens.served(entries)
    reported = tokens.reported(conversation, cli)
    exact["tokens_reported"] = reported.total if reported is not None else None
    if record.verdict is not None:
        exact["files_changed"] = len(record.verdict.changes) + record.verdict.changes_cut
        exact.update(_named("files_changed", names.inside(change.path for change in record.verdict.changes)))
    if entries:
        exact.update(_counted("tools_offered", names.offered_tools(entries)))
    if left is not None:
        files = names.outside(left.files, left.given, record.agent_env.get("HOME", ""), left.fleeting)
        exact.update(_counted("files_outside", files))
    if tried is not None:
        exact.update(_counted("names_tried", sorted(set(tried))))
    exact["frames"] = len(conversation) + conversation.left_out
    # Some depend on how soon an agent's processes end: they inform.
    exact.update(_flat("findings", counts))
    exact.update(_of_acp(counts, conversation) if cli is None else _of_cli(cli))
    return {name: _shown(value) for name, value in exact.items()}, cost.cost(record, conversation, entries, cli)


def is_information(name: str) -> bool:
    """Whether an exact metric only informs."""
    return name.partition(".")[0] in INFORMATION


def may_be_sampled(name: str) -> bool:
    """Whether a run may have a figure of that name: a time, or, under a live model, a count."""
    head = name.partition(".")[0]
    return name in cost.ALL or head in NAMES or head in MAPS or name in ("faults.met", "faults.retries", "cancel_asks")


def owner(name: str) -> str | None:
    """Of a flattened map's name, the metric that is null where the map does not exist; None for any other name."""
    prefix, dot, _ = name.partition(".")
    return MAPS[prefix].owner if dot and prefix in MAPS else None


def measured(name: str, known: Container[str]) -> bool:
    """Whether a report with the metrics `known` would have this one: false where it is older than the metric."""
    prefix, dot, _ = name.partition(".")
    if dot and prefix in MAPS:
        since = MAPS[prefix].since
        return since is None or since in known
    return name not in _LATER or name in known


def absent(name: str, owned: Any) -> Any:
    """The value of a flattened map's name in a run that does not have it; `owned`: the value of its `owner` there."""
    return None if owned is None or owner(name) is None else MAPS[name.partition(".")[0]].absent


def _of_acp(findings: Mapping[str, int], conversation: Conversation) -> Exact:
    counts = tally(conversation)
    calls = conversation.tool_calls
    asked = permissions.asks(conversation)
    called = callbacks(conversation)
    hello = handshake(conversation)
    turns = conversation.requests("client", "session/prompt")
    violations = (SCHEMA_INVALID, SCHEMA_INVALID_TOLERATED)
    cancelled = cancellations(conversation)[:1]
    return {
        "tool_calls": len(calls),
        "permission_requests": len(asked),
        "client_fs_calls": sum(call.method.startswith("fs/") for call in called),
        "client_terminal_calls": sum(call.method.startswith("terminal/") for call in called),
        "undeclared_calls": sum(call.declared is False for call in called),
        "terminal_content_items": distinct_terminal_items(conversation),
        "usage_updates": counts.updates.get("usage_update", 0),
        "commands_announced": len(hello.commands.names) if hello.commands is not None else 0,
        "stop_reason": as_text((turns[-1].result or {}).get("stopReason")) if turns else None,
        "default_mode": hello.default_mode,
        "schema_violations": sum(findings.get(violation, 0) for violation in violations),
        "late_updates": counts.late_updates,
        **{
            f"cancel_{name}": value
            for cancellation in cancelled
            for name, value in (
                ("during", cancellation.during),
                ("stop", cancellation.stop),
                ("asks", cancellation.asks),
                ("updates_after", cancellation.updates_after),
            )
        },
        **_flat("tool_calls_by_kind", Counter(map(kind_of, calls.values()))),
        **_flat("permission_requests_by_kind", permissions.by_kind(asked)),
        **_flat("permission_options", names.options(asked)),
        **_named("commands_announced", hello.commands.names if hello.commands is not None else ()),
        **_named("modes", hello.modes),
        **_named("auth_methods", hello.auth_methods),
        **_flat("capabilities", names.capabilities(hello)),
        **_flat("config_options", names.config_options(hello)),
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


def _flat(prefix: str, values: Mapping[str, Any]) -> Exact:
    """Each value by its name. An agent chooses many of them: beyond `_KEYS` names the rest is one, `<more>`."""
    flat = {f"{prefix}.{_key(key)}": values[key] for key in sorted(values)[:_KEYS]}
    if len(values) > _KEYS:
        flat[f"{prefix}.<more>"] = len(values) - _KEYS
    return flat


def _key(name: str) -> str:
    """A name as it stands in a metric's: a long one is cut, and stays apart from others that begin like it."""
    if len(name) <= _KEY:
        return name
    return f"{name[:_KEY]}~{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _shown(value: Any) -> Any:
    return f"{value[:_WORDS]}..." if isinstance(value, str) and len(value) > _WORDS else value


def _named(prefix: str, found: Iterable[str]) -> Exact:
    return _flat(prefix, dict.fromkeys(found, True))


def _counted(name: str, found: Sequence[str]) -> Exact:
    """How many names, and each by itself."""
    return {name: len(found), **_named(name, found)}
