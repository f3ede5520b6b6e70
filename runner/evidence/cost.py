"""What a run cost: the sampled metrics of one run, each defined once.

None: not applicable or not measured.

Record and frames carry the controller's clock, the model journal the engine's: `record.clock_offset_ns` (engine minus
controller, 0 on one kernel) is taken off the latter.
"""

from __future__ import annotations

from collections.abc import Sequence

from runner.evidence.callbacks import callbacks, waits
from runner.evidence.cancellation import cancellations
from runner.evidence.conversation import Conversation
from runner.evidence.handshake import handshake
from runner.evidence.intervals import Span, clip, length_ms, ms, union
from runner.evidence.resilience import incidents
from runner.evidence.work import UNTIMED
from runner.gateway.journal import JournalEntry, spans
from runner.records.schema import Record
from runner.surfaces.cli.parsers import CliResult

#: In the order of a report.
NAMES = (
    "handshake_ms", "turn_ms", "to_result_ms", "active_ms", "model_ms", "client_ms", "agent_ms",
    "wall_ms", "cpu_s", "peak_anon_mb", "overhead_ms",
)  # fmt: skip
#: And those that only some runs have.
ALL = (*NAMES, "fault_lost_ms", "cancel_to_stop_ms")
#: Those that say nothing of a run that worked outside its turn.
TIMES = frozenset(name for name in ALL if name.endswith("_ms") and name != "overhead_ms")
#: Phases before the prompt in which we wait of our own accord.
_WAITS = frozenset({"mcp_connected", "settle", "look"})


def cost(
    record: Record, conversation: Conversation, entries: Sequence[JournalEntry], cli: CliResult | None
) -> dict[str, float | None]:
    """All of NAMES for one run, `fault_lost_ms` where it met faults of the model, `cancel_to_stop_ms` where a turn was
    cancelled.

    A turn that ended in an error, or never, has no figures: its time would be the time to a failure, not to a result.
    Nor has a run that worked outside its turn: none of TIMES would be that of its work.
    """
    values = _cost(record, conversation, entries, cli)
    if any(finding.id in UNTIMED for finding in record.findings):
        values.update(dict.fromkeys(TIMES & values.keys()))
    return values


def _cost(
    record: Record, conversation: Conversation, entries: Sequence[JournalEntry], cli: CliResult | None
) -> dict[str, float | None]:
    values: dict[str, float | None] = dict.fromkeys(NAMES)
    agent = record.agent
    if agent is None:
        return values
    values["cpu_s"] = agent.cpu_s
    values["peak_anon_mb"] = agent.peak_anon_mb
    values["active_ms"] = _active_ms(entries)
    if met := incidents(entries):
        values["fault_lost_ms"] = sum(incident.lost_ms for incident in met)
    if agent.exit_ns is not None:
        wall = ms(agent.spawn_ns, agent.exit_ns)
        verifying = record.verdict.duration_ms if record.verdict is not None else 0.0
        values["wall_ms"] = wall
        values["overhead_ms"] = ms(record.start_ns, record.end_ns) - wall - verifying

    for cancelled in cancellations(conversation)[:1]:
        values["cancel_to_stop_ms"] = cancelled.to_stop_ms
    turns = _turns(conversation, cli, agent.spawn_ns)
    offset = record.clock_offset_ns
    model = clip([(start - offset, end - offset) for start, end in spans(entries, ("main", "side", "fault"))], turns)
    if turns:
        # Waiting is the surface's, and over a command line there is none.
        waited = [(phase.start_ns, phase.end_ns) for phase in record.phases if phase.name in _WAITS]
        values["to_result_ms"] = ms(agent.spawn_ns, turns[-1][1]) - length_ms(waited)
        values["model_ms"] = length_ms(model)
    if cli is not None:
        values["turn_ms"] = cli.duration_ms
        return values

    opened_ns = handshake(conversation).opened_ns
    values["handshake_ms"] = ms(agent.spawn_ns, opened_ns) if opened_ns is not None else None
    if turns:
        turn_ms = length_ms(turns)
        client = clip(waits(callbacks(conversation), turns[-1][1]), turns)
        values["turn_ms"] = turn_ms
        values["client_ms"] = length_ms(client)
        # One instant may be the model's and the client's (parallel calls): it is taken off once.
        values["agent_ms"] = turn_ms - length_ms(union(model + client))
    return values


def _active_ms(entries: Sequence[JournalEntry]) -> float | None:
    """First main request in to last main response out."""
    main = [entry for entry in entries if entry.kind == "main"]
    return ms(min(e.t_request_ns for e in main), max(e.t_response_end_ns for e in main)) if main else None


def _turns(conversation: Conversation, cli: CliResult | None, spawn_ns: int) -> list[Span]:
    """The turns of a run, in order: prompt sent to its result; a CLI's one turn starts with the process.

    [] where one has no result.
    """
    if cli is not None:
        return [(spawn_ns, cli.result_ns)] if cli.result_ns is not None else []
    turns = conversation.requests("client", "session/prompt")
    answered = [
        (turn.request.t_ns, turn.response.t_ns)
        for turn in turns
        if turn.response is not None and turn.response.kind == "result"
    ]
    return answered if len(answered) == len(turns) else []
