"""The record of an attempt, from what was known before it and what was seen of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from runner.evidence.conversation import Conversation
from runner.evidence.metrics import compute
from runner.evidence.tokens import bad_numbers
from runner.evidence.validate import schema_findings, tail_findings
from runner.evidence.work import ChangesSeen, work_outside
from runner.gateway.program import model_problems
from runner.records.findings import Findings
from runner.records.outcome import decide
from runner.records.schema import AgentExit, Finding, Record, Turn
from runner.run.inputs import RunInputs
from runner.run.observed import Observed
from runner.sandbox.channel import Reply
from runner.surfaces.cli.driver import output_lines, turn_of
from runner.surfaces.cli.parsers import CliResult, kinds_of, parse
from runner.surfaces.driver import DriverResult
from runner.wire.frames import Frame

EVIDENCE_CUT = "evidence-cut"


def build_record(inputs: RunInputs, observed: Observed, frames: Iterable[Frame], schemas: Mapping[str, Any]) -> Record:
    """The whole record, with its metrics and its outcome.

    frames: the attempt's frame log, which is read more than once. schemas: version of the ACP schema -> its file.
    """
    driven = observed.driven or DriverResult()
    findings = Findings(observed.findings)
    findings.extend(driven.findings)
    turns = list(driven.turns)
    cli = _read_cli(inputs, observed, frames, findings, turns)
    if cli is None:
        findings.extend(schema_findings(frames, schemas))
        findings.extend(tail_findings(frames))
    conversation = Conversation.of(frames)
    findings.extend(_cut_findings(conversation))
    if cli is None:
        findings.extend(bad_numbers(conversation))
    changed = ChangesSeen(driven.early_changes, observed.collected.changes)
    findings.extend(work_outside(turns, conversation, observed.entries, changed, observed.verdict, observed.offset_ns))
    record = _facts(inputs, observed, driven, findings, turns)
    exact, sampled = compute(
        record,
        conversation,
        observed.entries,
        cli,
        observed.collected.leftovers,
        observed.collected.names,
        findings.counts,
    )
    return record.model_copy(update={"exact": exact, "sampled": sampled})


def bare_record(inputs: RunInputs, observed: Observed) -> Record:
    """A record that only says why there is no other: our fault, whatever the agent did to bring it about."""
    outcome = decide(observed.errors, [], None, missed=False)
    return Record(
        **inputs.identity,
        outcome=outcome.word,
        reason=outcome.reason,
        started_at=observed.started_at,
        start_ns=observed.start_ns,
        end_ns=observed.end_ns,
    )


def _facts(
    inputs: RunInputs, observed: Observed, driven: DriverResult, findings: Findings, turns: list[Turn]
) -> Record:
    """The record without its metrics."""
    start = observed.start
    problems = model_problems(observed.entries, inputs.program, stopped=driven.unreachable)
    missed = any(entry.kind == "miss" for entry in observed.entries)
    # Of an agent that was never driven nobody asks what its model saw.
    outcome = decide(observed.errors, problems if observed.driven else [], observed.verdict, missed=missed)
    return Record(
        **inputs.identity,
        outcome=outcome.word,
        reason=outcome.reason,
        started_at=observed.started_at,
        start_ns=observed.start_ns,
        end_ns=observed.end_ns,
        phases=sorted(observed.phases.done, key=lambda phase: phase.start_ns),
        proofs=start.proofs if start else [],
        findings=findings.listed(),
        container=observed.container_id,
        pristine=start.pristine if start else None,
        found_at_start=start.found if start else [],
        canaries=inputs.fixture.canaries,
        planted=start.planted if start else [],
        agent=_agent_exit(observed),
        turns=turns,
        probes=driven.probes,
        ledger=driven.ledger,
        buffers=driven.buffers,
        verdict=observed.verdict,
        agent_env={name: inputs.without_token(value) for name, value in inputs.env.items()},
        agent_argv=[inputs.without_token(word) for word in inputs.argv],
        protocol_version=driven.protocol_version,
        agent_info=driven.agent_info,
        clock_offset_ns=observed.offset_ns,
        load=observed.load,
        cut=observed.cut,
    )


def _read_cli(
    inputs: RunInputs, observed: Observed, frames: Iterable[Frame], findings: Findings, turns: list[Turn]
) -> CliResult | None:
    """What a command line's output says, its turn added to `turns`; None: the run spoke ACP, or never began."""
    if inputs.surface.transport != "cli" or observed.spawn_ns is None:
        return None
    cli = parse(inputs.launch.parser, output_lines(frames, findings), kinds_of(inputs.adapter))
    findings.extend(cli.findings)
    if lines := observed.cut.get("frames"):
        message = (
            f"{lines} lines of output were not kept (knobs.frames_cap_mb raises the limit), so nothing is known of them"
        )
        findings.append(Finding(id=EVIDENCE_CUT, message=message))
    turns.append(turn_of(cli, observed.spawn_ns))
    return cli


def _cut_findings(conversation: Conversation) -> list[Finding]:
    if not conversation.left_out:
        return []
    why = "above the memory that metrics may take"
    message = f"{conversation.left_out} messages are in the log and in no metric: they are {why}"
    return [Finding(id=EVIDENCE_CUT, message=message)]


def _agent_exit(observed: Observed) -> AgentExit | None:
    if observed.spawn_ns is None:
        return None
    driven = observed.driven
    event: Reply = (driven.exit if driven else None) or {}
    ended_by: Any = driven.ended_by if driven and event else "container"
    return AgentExit(
        spawn_ns=observed.spawn_ns,
        exit_ns=int(event["exit_ns"]) - observed.offset_ns if event else None,
        ended_by=ended_by,
        **{name: event.get(name) for name in ("code", "signal", "cpu_s", "peak_anon_mb", "bytes_written")},
        oom=bool(event.get("oom")),
        disk_exceeded=bool(event.get("disk_exceeded")),
        survivors=list(event.get("survivors", [])),
    )
