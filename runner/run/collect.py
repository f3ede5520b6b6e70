"""What is fetched of the agent's container once the agent is dead: by its guest, or else by the engine."""

from __future__ import annotations

import base64
import hashlib

from runner.errors import InfraError
from runner.evidence.metrics import LeftoverFiles
from runner.evidence.work import ChangeTime
from runner.records.schema import Finding
from runner.records.store import AttemptDir
from runner.run.agent_container import AgentContainer
from runner.run.archive import as_file, from_engine
from runner.run.collect_findings import cap_findings
from runner.run.failure import agents_fault_at_collect, blame_for_lost_guest, guest_losses
from runner.run.inputs import RunInputs
from runner.run.observed import Observed
from runner.sandbox.channel import GuestGone, GuestRefused, GuestSilent, Reply
from runner.sandbox.container import HOME
from runner.sandbox.guest_client import GuestClient

#: Of the deadline for collecting, what the guest may use before it says that there is too much.
_GUEST_SHARE = 0.8
#: Seconds for the times of what has changed in the workspace; an agent may have filled it.
_LOOK_S = 10
#: Where an agent may write outside its workspace.
_WRITABLE = (HOME, "/workspace", "/tmp", "/var/tmp", "/dev/shm")
_MB = 10**6


def collect(inputs: RunInputs, agent: AgentContainer, attempt: AttemptDir, observed: Observed) -> None:
    """Fill `observed.collected` and write fsdiff.json (and names.json) into the attempt.

    :raises RunError: it cannot be had, or only in part; what was fetched before stays.
    """
    if not guest_losses(observed.errors):  # a guest that does not answer is not waited for again
        try:
            _collect_by_guest(inputs, agent.guest, attempt, observed)
        except (GuestGone, GuestSilent) as problem:
            observed.errors.append(problem)
        else:
            return
    _collect_by_engine(inputs, agent, observed)


def _collect_by_guest(inputs: RunInputs, guest: GuestClient, attempt: AttemptDir, observed: Observed) -> None:
    limit_s, collected = inputs.knobs.deadlines.collect, observed.collected
    if inputs.surface.resolver is not None:
        _take_names(guest.queried_names(limit_s), attempt, observed)
    skip = [".git", *inputs.adapter.state_dirs]
    changed = guest.change_times(limit_s, inputs.workspace, skip, _LOOK_S)
    if changed["steady"]:
        collected.changes = [
            ChangeTime(str(change["path"]), str(change["kind"]), int(change["t_ns"]) - observed.offset_ns)
            for change in changed["changes"]
        ]
    try:
        reply = guest.collect(
            limit_s,
            workspace=inputs.workspace,
            cap_bytes=inputs.knobs.collect_cap_mb * _MB,
            writable=_WRITABLE,
            guest_s=limit_s * _GUEST_SHARE,
        )
    except GuestRefused as refusal:
        guest.stop()  # nothing more is asked of it: its container must not be waited for
        if (error := agents_fault_at_collect(refusal, limit_s)) is not None:
            raise error from refusal
        raise
    guest.stop()
    collected.archive = reply.pop("tar")
    collected.differing = reply.pop("differing")
    collected.left_out = reply["left_out"]
    observed.findings += cap_findings(reply, inputs.knobs.collect_cap_mb)
    reply["changed"] = {name: changed[name] for name in ("changes", "more", "steady")}
    attempt.write_json("fsdiff.json", {key: value for key, value in reply.items() if key not in ("id", "ok")})
    given = _files_given(inputs, observed)
    collected.leftovers = LeftoverFiles(reply["outside"], given, inputs.adapter.fleeting_files)


def _take_names(reply: Reply, attempt: AttemptDir, observed: Observed) -> None:
    """The host names that were asked for; of a resolver that ended before the agent nothing is counted."""
    exit_event = (observed.driven.exit if observed.driven else None) or {}
    exit_ns = exit_event.get("exit_ns")
    attempt.write_json("names.json", reply["names"])
    if reply["ended_ns"] is not None and exit_ns is not None and reply["ended_ns"] < exit_ns:
        message = "the resolver on loopback ended during the run"
        observed.findings.append(Finding(id="resolver-died", message=message))
    else:
        observed.collected.names = reply["names"]


def _files_given(inputs: RunInputs, observed: Observed) -> dict[str, str | None]:
    """What lay outside the workspace before the start, path -> sha256."""
    home = {f"{HOME}/{path}": hashlib.sha256(text.encode()).hexdigest() for path, text in inputs.home.items()}
    planted = observed.start.planted if observed.start else []
    return {**home, **{item.path: item.sha256 for item in planted}}


def _collect_by_engine(inputs: RunInputs, agent: AgentContainer, observed: Observed) -> None:
    """The guest is gone or silent: say whose doing it was, and fetch what is left through the engine."""
    exited = observed.driven is not None and observed.driven.exit is not None
    errors = blame_for_lost_guest(observed.errors, agent.container, exited=exited)
    if errors is not None:
        observed.errors = errors
    agent.container.kill()
    agent.end_streams(inputs.knobs.deadlines.collect)
    cap_mb = inputs.knobs.collect_cap_mb
    try:
        with agent.workspace_archive() as pieces:
            packed, left_out = from_engine(as_file(pieces), inputs.fixture.id, cap_mb * _MB)
    except InfraError:
        if errors is None:
            raise
        return  # evidence is missing, but how the run ended is known
    observed.collected.left_out = left_out
    observed.collected.archive = base64.b64encode(packed).decode("ascii")
    reply = {"left_out": left_out, "odd": 0, "outside_cut": False}
    observed.findings += cap_findings(reply, cap_mb)
