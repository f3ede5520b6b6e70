"""The shape of what a run leaves behind (`runs/<cell>/<attempt>/record.json`).

Times are CLOCK_MONOTONIC nanoseconds, durations milliseconds.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

from runner.acp.buffers import MediatedWrite
from runner.config.outcome import outcome_names
from runner.text.encoding import written_out
from runner.wire.numbers import bounded

SCHEMA_VERSION = 1

#: The phases of a run, in order.
PHASES = (
    "create", "start", "prepare", "initialize", "session_new", "configure",
    "look", "prompt", "quiet", "exit", "collect", "verify", "remove",
)  # fmt: skip


class Schema(BaseModel):
    """Root of all record models: unknown keys are errors, so that a reader never overlooks what a writer meant."""

    # What is no number has no median: it is refused with the record's name, where a report would fall over it.
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


#: What an agent sent. Numbers that a reader of the record may have no word for (1e999, thousands of digits) are kept as
#: text, and what is nested deeper than readers go is left out.
Sent = Annotated[dict[str, Any], BeforeValidator(bounded)]


def _closed(outcome: str) -> str:
    if outcome not in outcome_names():
        raise ValueError(f"no such outcome: {outcome}")
    return outcome


#: One of the closed set (`runner.config.outcome`).
Outcome = Annotated[str, AfterValidator(_closed)]


class Finding(Schema):
    """One fact worth naming; `id` is stable (`undeclared-method`, `not-json`, `late-update`, ...)."""

    id: str
    message: str
    #: Frame it rests on.
    seq: int | None = None


class Phase(Schema):
    name: str
    start_ns: int
    end_ns: int


class Proof(Schema):
    """One check the guest made before *go*."""

    name: str
    ok: bool
    detail: str = ""


class FoundAtStart(Schema):
    """Something at the start that a pristine start would not have. `path`: below the workspace for the first four."""

    kind: Literal["untracked", "ignored", "modified", "deleted", "state", "home"]
    path: str
    sha256: str | None = None


class Planted(Schema):
    """A file or link outside the workspace as it was before the start; what it was afterwards: fsdiff.json."""

    path: str
    kind: Literal["file", "link"]
    sha256: str | None = None
    target: str | None = None
    #: Canaries in its content.
    canaries: list[str] = []


class Probe(Schema):
    """A request of ours after the turn. Counts are of session/update frames of its session with content."""

    name: str
    method: str
    #: Whether the agent offers it; what is not offered is not sent.
    advertised: bool
    params: Sent = {}
    sent_seq: int | None = None
    answered_seq: int | None = None
    ok: bool | None = None
    error: str | None = None
    #: Between request and answer; in the quiet window after the answer.
    updates_before: int = 0
    updates_after: int = 0


class Buffer(Schema):
    """A document that the editor held open with text that was not on disk. Hashes are git blob hashes."""

    path: str
    text: str
    blob: str
    disk_blob: str | None
    unsaved_at_end: bool = True
    blob_at_end: str


class AgentExit(Schema):
    """The agent's own process. `signal` is set where it died by one."""

    spawn_ns: int
    exit_ns: int | None = None
    code: int | None = None
    signal: int | None = None
    #: Who ended it: itself (stdin EOF or done), or our terminate / kill.
    ended_by: Literal["itself", "terminate", "kill", "container"] = "itself"
    oom: bool = False
    disk_exceeded: bool = False
    cpu_s: float | None = None
    peak_anon_mb: float | None = None
    bytes_written: int | None = None
    #: Command lines of processes that outlived the agent (killed by the guest).
    survivors: list[str] = []


class Change(Schema):
    """One path of the workspace that differs from the fixture. `before` and `after` are git blob hashes."""

    path: str
    status: Literal["A", "M", "D", "T"]
    before: str | None = None
    after: str | None = None
    protected: bool = False


class Verdict(Schema):
    """What the verifier said, in its own container."""

    passed: bool
    tests: int | None = None
    passes: int | None = None
    failures: int | None = None
    exit_code: int | None = None
    duration_ms: float = 0.0
    #: Why not, in one line.
    reason: str = ""
    output: str = ""
    changes: list[Change] = []
    #: Changes beyond those listed.
    changes_cut: int = 0
    #: Name that git gives the tree that was judged: the agent's files as collected, before protected paths were put
    #: back. Equal names are equal workspaces, so that their verdicts must be equal too. None: an older record's.
    workspace: str | None = None
    #: `git status --porcelain` of the agent's tree against the fixture.
    status: str = ""


class Turn(Schema):
    """One prompt. ACP: sent / answered; CLI: spawn / result line."""

    # It is filled in as the turn goes on: `usage` is bounded then, too.
    model_config = ConfigDict(validate_assignment=True)

    sent_ns: int
    result_ns: int | None = None
    stop_reason: str | None = None
    #: We sent session/cancel while it ran.
    cancelled: bool = False
    #: A CLI's self-report (`duration_ms`); ACP: round trip.
    turn_ms: float | None = None
    usage: Sent | None = None


class Record(Schema):
    """One attempt at one cell."""

    schema_version: int = SCHEMA_VERSION
    sweep: str
    cell: str
    arm: str
    replicate: int
    attempt: int
    #: Warm-up runs are outside the statistics.
    warmup: bool = False
    adapter: str
    surface: str
    fixture: str
    policy: str
    model: str
    reset: str
    expect: str
    outcome: Outcome
    #: One line: what made it end so.
    reason: str = ""
    started_at: str
    start_ns: int
    end_ns: int
    phases: list[Phase] = []
    proofs: list[Proof] = []
    findings: list[Finding] = []
    #: Engine's id of the agent's container: one for all replicates of an arm that keeps its container.
    container: str | None = None
    #: Nothing of an earlier run was there; None: never looked.
    pristine: bool | None = None
    found_at_start: list[FoundAtStart] = []
    #: The fixture's, name -> string.
    canaries: dict[str, str] = {}
    planted: list[Planted] = []
    agent: AgentExit | None = None
    turns: list[Turn] = []
    probes: list[Probe] = []
    #: Writes that went through the client.
    ledger: list[MediatedWrite] = []
    buffers: list[Buffer] = []
    verdict: Verdict | None = None
    #: Names and values of the agent's environment (the run's own token is masked).
    agent_env: dict[str, str] = {}
    agent_argv: list[str] = []
    protocol_version: int | None = None
    agent_info: Sent | None = None
    clock_offset_ns: int = 0
    #: Load of the controller's machine when the attempt began (average of a minute, as the system counts it).
    load: float | None = None
    #: Bytes and frames that the caps cut away.
    cut: dict[str, int] = {}
    exact: dict[str, Any] = {}
    sampled: dict[str, float | None] = {}

    def written_out(self) -> Record:
        """The record as it is kept (`runner.text.encoding`); once, by whoever made it."""
        return Record.model_validate(written_out(self.model_dump()))
