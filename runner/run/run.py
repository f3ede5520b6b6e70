"""One cell -> one record: the heart, readable top to bottom.

    open      both containers are created and started side by side; the guest prepares the fixture, proves the sandbox
    drive     go: the surface plays one turn and brings the agent to its end
    collect   the agent is dead: its files, its streams and the gateway's journal are fetched
    verify    the verdict, in the other container, while what is left of the agent is settled
    record    facts, metrics and the outcome, written last

Whatever goes wrong becomes an outcome; nothing that was seen before is lost.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from docker import DockerClient

from runner.config.adapter import Adapter, Launch, Started
from runner.config.loaded_sweep import LoadedSweep
from runner.config.plan import Cell
from runner.config.surface import OpenBuffer
from runner.errors import AgentError, InfraError, InternalError, LastingError, RunError, UsageError
from runner.evidence.messages import decode
from runner.evidence.metrics import Left, compute
from runner.evidence.tokens import bad_numbers
from runner.evidence.validate import schema_findings, tail_findings
from runner.evidence.work import Change, Changed, work_outside
from runner.gateway.capture import TAPE
from runner.gateway.cassette import drift, dump, tape_of
from runner.gateway.container import Collected, Gateway, socket_name
from runner.gateway.journal import Entry, LoggedEntries
from runner.gateway.limits import limit_findings, limits_of
from runner.gateway.program import model_failures, model_problems, program_for
from runner.records.bounds import bounded
from runner.records.findings import Findings
from runner.records.outcome import decide
from runner.records.schema import AgentExit, Finding, Record, Verdict
from runner.records.store import AttemptDir, DiskFull
from runner.redaction.redact import Redactor
from runner.run.collected import as_file, cap_findings, from_engine, with_missing
from runner.run.prepare import Start, prepare
from runner.run.verifier import Verifier, guest_command, verifier_spec
from runner.sandbox.channel import GuestChannel, GuestGone, GuestRefused, GuestSilent, Reply
from runner.sandbox.clock import clock_offset_ns
from runner.sandbox.container import (
    BASE_ENV,
    GUEST_CAPABILITIES,
    GUEST_RESERVE_MB,
    GUEST_USER,
    HOME,
    OUT_OF_MEMORY,
    Container,
    Gate,
    Spec,
)
from runner.sandbox.fixture import fixture_tar
from runner.sandbox.labels import labels
from runner.sandbox.reused import Kept
from runner.sandbox.volumes import GUEST_TARGET, MODEL_TARGET, TOOLBOX_TARGET, Volumes
from runner.surfaces.acp.driver import AcpDriver
from runner.surfaces.cli.driver import CliDriver, output_lines, turn_of
from runner.surfaces.cli.parsers import CliResult, kinds_of, parse
from runner.surfaces.driver import Driver, Played, Scene
from runner.surfaces.phases import PhaseClock
from runner.surfaces.pipe import AgentPipe, GuestEvent, Inbox
from runner.wire.frames import Frame
from runner.wire.log import LoggedFrames

MODEL_PORT = 4010
#: The model's journal, in an attempt's folder.
MODEL_LOG = "model.jsonl"
EVIDENCE_CUT = "evidence-cut"
#: Seconds that a container may take to end after its guest has.
_ENDING_S = 2.0
#: An agent wants some key; this one opens nothing.
DUMMY_KEY = "sk-acpbench-no-key"
_BRIDGE = ["socat", "-t", "3600", "-", "ABSTRACT-CONNECT:acpbench-guest,retry=200,interval=0.01"]
#: Its own: neither the agent nor a helper whom the agent talks to can trace, kill or read it.
_BRIDGE_USER = "65532:65532"
#: Of the deadline for collecting, what the guest may use before it says that there is too much.
_COLLECTING = 0.8
#: Above its disk limit, so that whoever fills one file up to the kernel's bound has written too much already.
_FILE_SLACK_BYTES = 1 << 20
_MB = 10**6
#: Seconds for the times of what has changed in the workspace; an agent may have filled it.
_LOOK_S = 10
#: Models whose requests cost money.
_PAID = ("capture/", "live/")


@dataclass(frozen=True, slots=True)
class Bench:
    """What all runs of a sweep share."""

    client: DockerClient
    #: Short name for containers and volumes.
    sweep: str
    loaded: LoadedSweep
    #: Image folder -> image id (`sha256:...`).
    images: Mapping[str, str]
    volumes: Volumes
    #: Of the containers that may come up at once.
    gate: Gate
    #: The living gateway; raises `InfraError` if none can be had.
    gateway: Callable[[], Gateway]
    #: Image folder -> version of the ACP schema -> its file.
    schemas: Mapping[str, Mapping[str, Any]]
    #: Strikes keys out of what is kept; None: no key is near.
    redactor: Redactor | None = None


class Run:
    """One attempt at one cell. `inbox` takes a `Stop` from outside at any moment.

    `kept`: the arm's container, where it keeps one; None: a container of its own.
    """

    def __init__(self, bench: Bench, cell: Cell, attempt: AttemptDir, kept: Kept | None = None) -> None:
        self.inbox = Inbox()
        self._bench = bench
        self._cell = cell
        self._attempt = attempt
        self._kept = kept
        self._knobs = bench.loaded.knobs(cell.matrix)
        self._adapter: Adapter = bench.loaded.adapters[cell.adapter]
        self._fixture = bench.loaded.fixtures[cell.fixture]
        surface = bench.loaded.surfaces[cell.surface]
        servers = json.loads(self._fixture.fill(json.dumps(surface.mcp_servers)))
        surface = surface.model_copy(update={"mcp_servers": servers})
        servers, self._notified = surface.notifying()
        self._surface = surface.model_copy(update={"mcp_servers": servers})
        self._policy = bench.loaded.policies[cell.policy]
        self._token = secrets.token_hex(16)
        self._workspace = f"/workspace/{self._fixture.id}"
        self._tar = fixture_tar(bench.loaded.fixture_folder(cell.fixture))
        tests = bench.loaded.tests.get(cell.fixture)
        self._tests = None if tests is None else fixture_tar(tests)
        self._program = program_for(bench.loaded, cell, self._workspace)
        self._clock = PhaseClock()
        self._errors: list[RunError] = []
        self._start: Start | None = None
        self._findings = Findings()
        self._played: Played | None = None
        self._spawn_ns: int | None = None
        self._offset_ns = 0
        self._agent_tar: str | None = None
        #: The fixture's paths that are not as they were; None: the archive is whole.
        self._differing: list[str] | None = None
        #: Kind of file -> how many, and bytes, that were not collected.
        self._left_out: dict[str, dict[str, int]] = {}
        self._left: Left | None = None
        self._changes: list[Change] = []
        #: Host name -> questions for it; None: nobody listened.
        self._names: dict[str, int] | None = None
        #: Of the model's journal, without what is large in them.
        self._entries: list[Entry] = []
        #: Whether a model that costs money was asked; None: nobody knows yet.
        self._asked: bool | None = None
        self._journal: Collected | None = None
        self._verdict: Verdict | None = None
        self._container_id: str | None = None
        self._pipe: AgentPipe | None = None
        self._guest: GuestChannel | None = None
        self._container: Container | None = None
        self._verifier = Verifier(bench.client, self._verifier_spec(), bench.gate)

    def execute(self) -> Record:
        """Run the cell and commit its record.

        :raises DiskFull: something of the run could not be written; no other run would fare better.
        """
        started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        start_ns = time.monotonic_ns()
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="verifier") as beside:
            verifier = beside.submit(self._verifier.start)
            try:
                self._guarded(lambda: self._open_and_drive(verifier))
                if self._spawn_ns is not None:
                    self._guarded(self._collect)
                # The verdict needs the agent's files alone: what is left of the agent is settled meanwhile.
                judging = beside.submit(self._guarded, self._judge)
                if self._spawn_ns is not None:
                    self._guarded(self._settle)
                judging.result()
            finally:
                self._guarded(lambda: self._remove(verifier))
        end_ns = time.monotonic_ns()
        try:
            record = self._commit(started_at, start_ns, end_ns)
        except RunError:
            raise
        except Exception as problem:  # noqa: BLE001 - what an agent sent must not end the sweep: its logs are kept
            record = self._commit_bare(started_at, start_ns, end_ns, problem)
        full = next((error for error in self._errors if isinstance(error, DiskFull)), None)
        if full is not None:
            raise full
        return record

    @property
    def token(self) -> str:
        """By which the model gateway knows it."""
        return self._token

    @property
    def hopeless(self) -> bool:
        """Whether another attempt would end the same way, or pay for a run again that only we could not keep."""
        paid = self._cell.model.startswith(_PAID) and self._spawn_ns is not None and self._asked is not False
        hopeless = (LastingError, InternalError) if paid else LastingError
        return any(isinstance(error, hopeless) for error in self._errors)

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except RunError as problem:
            self._errors.append(problem)
        except GuestRefused as problem:
            self._errors.append(LastingError(f"the guest refused: {problem}"))
        except Exception as problem:  # noqa: BLE001 - one bad run must not take the others with it, nor its own evidence
            self._errors.append(InternalError(f"internal error: {type(problem).__name__}: {problem}"))

    # open

    def _spec(self) -> Spec:
        """The agent's container."""
        bench, limits = self._bench, self._adapter.limits
        mounts = {bench.volumes.guest: GUEST_TARGET, bench.volumes.model: MODEL_TARGET}
        if self._surface.toolbox is not None:
            mounts[bench.volumes.toolboxes[self._surface.toolbox]] = TOOLBOX_TARGET
        return Spec(
            command=guest_command("unix"),
            mounts=mounts,
            user=GUEST_USER,
            capabilities=GUEST_CAPABILITIES,
            memory_bytes=(limits.memory_mb + GUEST_RESERVE_MB) * _MB,
            cpus=limits.cpus,
            pids=limits.pids,
            file_bytes=limits.disk_mb * _MB + _FILE_SLACK_BYTES,
            **self._common("agent"),
        )

    def _verifier_spec(self) -> Spec:
        guest_volume = self._bench.volumes.guest
        return verifier_spec(self._fixture.verify.limits, guest_volume=guest_volume, **self._common("verifier"))

    def _common(self, role: str) -> dict[str, Any]:
        """What the run's two containers have in common."""
        bench = self._bench
        return {
            "name": f"acpbench-{bench.sweep}-{self._cell.order}-{self._attempt.number}-{role}",
            "image": bench.images[self._adapter.image],
            "labels": labels(bench.sweep, f"{self._cell.name}/{self._attempt.number}"),
        }

    def _open_and_drive(self, verifier: Future[None]) -> None:
        gateway = self._bench.gateway()
        gateway.register(self._token, self._program, limits=limits_of(self._knobs), canaries=self._fixture.canaries)
        if "steps" in self._program:  # a tape stands in its cassette
            self._attempt.write_json("program.json", self._program)
        with self._clock.phase("create"):
            container = self._take_container()
            stream = container.attach()
        knobs = self._knobs
        self._pipe = AgentPipe(
            stream, self.inbox, self._attempt.path, knobs.frames_cap_mb * _MB, knobs.stderr_cap_mb * _MB
        )
        self._pipe.start()
        with self._clock.phase("start"):
            container.start()
        with self._clock.phase("prepare"):
            self._prepare(container)
            verifier.result(self._knobs.deadlines.prepare + self._knobs.deadlines.start)
        driver = self._go()
        self._played = driver.run()
        self._errors += self._played.errors

    def _take_container(self) -> Container:
        def make() -> Container:
            return Container(self._bench.client, self._spec(), self._bench.gate)

        self._container = container = make() if self._kept is None else self._kept.take(make)
        if not container.id:
            container.create()
        return container

    def _prepare(self, container: Container) -> None:
        limits = self._knobs.deadlines
        events = self.inbox
        self._guest = guest = GuestChannel(
            container.execute(_BRIDGE, _BRIDGE_USER),
            lambda body: events.put(GuestEvent(body)),
            name="guest-channel",
        )
        self._offset_ns = clock_offset_ns(guest, limits.prepare)
        again = self._kept is not None and self._kept.runs > 0
        self._start = prepare(
            guest,
            self._fixture,
            self._tar,
            home=self._home(),
            state_dirs=self._adapter.state_dirs,
            reset=self._cell.reset if again else None,
            limit_s=limits.prepare,
        )
        failed = self._start.failed
        if failed:
            raise LastingError("not started: " + "; ".join(f"{proof.name}: {proof.detail}" for proof in failed))
        socket = f"{MODEL_TARGET}/{socket_name(self._token)}"
        guest.call("forward", limits.prepare, listen=MODEL_PORT, socket=socket)
        if (resolver := self._surface.resolver) is not None:
            guest.call("resolve", limits.prepare, argv=resolver.command, query=resolver.query)
        if self._notified:
            guest.call("readiness", limits.prepare, addresses=self._notified)

    @property
    def _launch(self) -> Launch:
        launch = self._adapter.acp if self._surface.transport == "acp" else self._adapter.cli
        assert launch is not None, "the catalog refuses a surface whose transport the adapter lacks"
        return launch

    def _started(self) -> Started:
        """What is started, all placeholders filled in."""
        values = {
            "prompt": self._fixture.prompt,
            "workspace": self._workspace,
            "home": HOME,
            "model_url": f"http://127.0.0.1:{MODEL_PORT}/r/{self._token}",
            "model_key": DUMMY_KEY,
        }
        return self._launch.filled(values, self._adapter)

    def _home(self) -> dict[str, str]:
        """Files for HOME, path below it -> content."""
        return self._started().home

    def _argv(self) -> list[str]:
        return self._started().argv

    def _env(self) -> dict[str, str]:
        return {**BASE_ENV, **self._started().env}

    # drive

    def _go(self) -> Driver:
        assert self._guest is not None
        assert self._pipe is not None
        extra = tuple(
            directory.replace("{workspace}", self._workspace) for directory in self._surface.additional_directories
        )
        fill = self._fixture.fill
        buffers = tuple(
            OpenBuffer(
                path=f"{self._workspace}/{one.path}",
                text=None if one.text is None else fill(one.text),
                append=None if one.append is None else fill(one.append),
            )
            for one in self._surface.open_buffers
        )
        scene = Scene(
            pipe=self._pipe,
            guest=self._guest,
            inbox=self.inbox,
            phases=self._clock,
            deadlines=self._knobs.deadlines,
            adapter=self._adapter,
            launch=self._launch,
            surface=self._surface,
            session=self._adapter.session,
            policy=self._policy,
            prompt=self._fixture.prompt,
            cwd=self._workspace,
            roots=(self._workspace, *extra),
            additional_directories=extra,
            buffers=buffers,
            awaited=frozenset(self._notified),
        )
        # From here on the agent may have run, whatever becomes of the reply.
        self._spawn_ns = time.monotonic_ns()
        try:
            started = self._guest.call(
                "go",
                self._knobs.deadlines.start,
                argv=self._argv(),
                env=self._env(),
                cwd=self._workspace,
                disk_bytes=self._adapter.limits.disk_mb * _MB,
                sample_ms=self._knobs.sample_ms,
            )
        except GuestRefused as problem:
            if problem.code == "spawn_failed":  # nobody else's program is the agent's fault
                raise AgentError(f"cannot be started: {problem.message}") from problem
            raise
        self._spawn_ns = int(started["spawn_ns"]) - self._offset_ns
        return AcpDriver(scene) if self._surface.transport == "acp" else CliDriver(scene)

    # collect

    def _collect(self) -> None:
        assert self._guest is not None
        with self._clock.phase("collect"):
            if not self._lost():  # a guest that does not answer is not waited for again
                try:
                    self._collect_by_guest(self._guest)
                except (GuestGone, GuestSilent) as problem:
                    self._errors.append(problem)
                else:
                    return
            self._collect_by_engine()

    def _collect_by_guest(self, guest: GuestChannel) -> None:
        limits = self._knobs.deadlines
        if self._surface.resolver is not None:
            self._take_names(guest.call("names", limits.collect))
        skip = [".git", *self._adapter.state_dirs]
        changed = guest.call("change_times", limits.collect, workspace=self._workspace, skip=skip, within_s=_LOOK_S)
        if changed["steady"]:
            self._changes = [
                Change(str(one["path"]), str(one["kind"]), int(one["t_ns"]) - self._offset_ns)
                for one in changed["changes"]
            ]
        try:
            collected = guest.call(
                "collect",
                limits.collect,
                workspace=self._workspace,
                cap_bytes=self._knobs.collect_cap_mb * _MB,
                writable=[HOME, "/workspace", "/tmp", "/var/tmp", "/dev/shm"],
                changes_only=True,
                within_s=limits.collect * _COLLECTING,
            )
        except GuestRefused as problem:
            guest.submit("stop")  # nothing more is asked of it: its container must not be waited for
            if problem.code == "too_much":
                told = f"left more in the workspace than {limits.collect:g} s suffice for (knobs.deadlines.collect)"
                raise AgentError(told) from problem
            raise
        guest.submit("stop")
        self._agent_tar = collected.pop("tar")
        collected["changed"] = {name: changed[name] for name in ("changes", "more", "steady")}
        self._differing = collected.pop("differing")
        self._left_out = collected["left_out"]
        self._findings += cap_findings(collected, self._knobs.collect_cap_mb)
        collected["changed"] = {name: changed[name] for name in ("changes", "more", "steady")}
        self._attempt.write_json("fsdiff.json", {k: v for k, v in collected.items() if k not in ("id", "ok")})
        self._left = Left(collected["outside"], self._given(), self._adapter.fleeting_files)

    def _take_names(self, told: Reply) -> None:
        """The host names that were asked for; of a resolver that ended before the agent nothing is counted."""
        exit_ns = ((self._played.exit if self._played else None) or {}).get("exit_ns")
        self._attempt.write_json("names.json", told["names"])
        if told["ended_ns"] is not None and exit_ns is not None and told["ended_ns"] < exit_ns:
            message = "the resolver on loopback ended during the run"
            self._findings.append(Finding(id="resolver-died", message=message))
        else:
            self._names = told["names"]

    def _given(self) -> dict[str, str | None]:
        """What lay outside the workspace before the start, path -> sha256."""
        ours = {f"{HOME}/{path}": hashlib.sha256(text.encode()).hexdigest() for path, text in self._home().items()}
        return {**ours, **{one.path: one.sha256 for one in (self._start.planted if self._start else [])}}

    def _collect_by_engine(self) -> None:
        """The guest is gone or silent: say whose doing it was, and fetch what is left through the engine."""
        assert self._pipe is not None
        assert self._container is not None
        lost = self._lost()
        exited = self._played is not None and self._played.exit is not None
        # Its end is the agent's doing where memory ran out: what the guest takes lies within what it is given beyond
        # the agent's limit. Nothing else of a guest's end can be: an agent is another user.
        starved = bool(lost) and not exited and self._container.ending(_ENDING_S) == OUT_OF_MEMORY
        if starved:
            self._errors = [error for error in self._errors if error not in lost]
            self._errors.append(AgentError("ran out of memory, and had the kernel end the container's guest for it"))
        self._container.kill()
        self._pipe.finish(self._knobs.deadlines.collect)
        cap_mb = self._knobs.collect_cap_mb
        try:
            with self._container.archive(self._workspace) as parts:
                packed, self._left_out = from_engine(as_file(parts), self._fixture.id, cap_mb * _MB)
        except InfraError:
            if not starved:
                raise
            return  # evidence is missing, but how the run ended is known
        self._agent_tar = base64.b64encode(packed).decode("ascii")
        reply = {"left_out": self._left_out, "odd": 0, "outside_cut": False}
        self._findings += cap_findings(reply, cap_mb)

    def _lost(self) -> list[RunError]:
        return [error for error in self._errors if isinstance(error, GuestGone | GuestSilent)]

    # verify, settle, remove

    def _judge(self) -> None:
        if self._agent_tar is None:
            return
        limit_s = self._knobs.deadlines.verify + self._fixture.verify.timeout_s
        with self._clock.phase("verify"):
            judged = self._verifier.judge(
                self._fixture,
                self._tar,
                self._agent_tar,
                limit_s,
                differing=self._differing,
                cap_mb=self._knobs.collect_cap_mb,
                tests=self._tests,
            )
        self._verdict = with_missing(judged.verdict, self._left_out, self._knobs.collect_cap_mb)
        self._findings += judged.findings
        self._attempt.write_bytes("workspace.patch", judged.patch)

    def _settle(self) -> None:
        """The agent's last bytes, its container, and what the gateway wrote of it."""
        assert self._pipe is not None
        if not self._pipe.finish(self._knobs.deadlines.collect):
            self._errors.append(InfraError("the container's streams did not end"))
        self._guarded(self._release_container)
        self._collect_journal()
        self._errors += model_failures(self._entries)
        self._findings.extend(drift(self._entries))
        self._findings.extend(limit_findings(self._entries))
        if self._program.get("mode") == "capture":
            try:
                entries = LoggedEntries(self._attempt.path / MODEL_LOG)
                self._attempt.write_pieces(TAPE, dump(tape_of(entries)))
            except UsageError as problem:
                self._findings.append(Finding(id="no-tape", message=str(problem)))

    def _collect_journal(self) -> None:
        """From the gateway into its file, piece by piece; then its entries from there, without their bodies.

        :raises InfraError: the gateway is dead, or gave less than it said.
        """
        attempt = self._attempt
        journal = self._bench.gateway().collect(self._token, lambda pieces: attempt.write_pieces(MODEL_LOG, pieces))
        self._journal = journal
        self._entries = LoggedEntries(attempt.path / MODEL_LOG).bare()
        self._asked = any(entry.kind in ("main", "side") for entry in self._entries)
        if journal.entries is not None and journal.entries != len(self._entries):
            told = f"it wrote {journal.entries} entries, {len(self._entries)} came here"
            raise InfraError(f"model gateway: {told}")

    def _remove(self, verifier: Future[None]) -> None:
        with self._clock.phase("remove"):
            verifier.exception()
            if self._pipe is not None:
                self._pipe.finish(0)
            if self._guest is not None:
                self._guest.close()
            self._guarded(self._verifier.remove)
            self._release_container()

    def _release_container(self) -> None:
        """Twice is harmless. A kept container stays for the next run, unless this one failed for our own reasons."""
        container, self._container = self._container, None
        if container is None:
            return
        self._container_id = container.id
        if self._kept is None:
            container.remove()
        elif any(error.outcome in ("infra", "aborted") for error in self._errors):
            self._kept.discard()
        else:
            self._kept.give_back()

    # record

    def _commit(self, started_at: str, start_ns: int, end_ns: int) -> Record:
        played = self._played
        cli: CliResult | None = None
        frames: Iterable[Frame] = ()
        if self._pipe is not None:
            frames = LoggedFrames(self._attempt.path / "frames.jsonl")
        turns = list(played.turns) if played else []
        findings = Findings(self._findings)
        findings.extend(played.findings if played else ())
        if self._surface.transport == "cli" and self._spawn_ns is not None:
            cli = parse(self._launch.parser, output_lines(frames, findings), kinds_of(self._adapter))
            findings.extend(cli.findings)
            if cut := self._cut().get("frames"):
                told = f"{cut} lines of output are beyond what is kept (knob frames_cap_mb): nothing is known of them"
                findings.append(Finding(id=EVIDENCE_CUT, message=told))
            turns.append(turn_of(cli, self._spawn_ns))
        else:
            findings.extend(schema_findings(frames, self._bench.schemas[self._adapter.image]))
            findings.extend(tail_findings(frames))
        messages = decode(frames)
        if messages.left_out:
            told = f"{messages.left_out} messages are in the log and beyond what the metrics are made of"
            findings.append(Finding(id=EVIDENCE_CUT, message=told))
        if cli is None:
            findings.extend(bad_numbers(messages))
        changed = Changed(played.early_changes if played else [], self._changes)
        findings.extend(work_outside(turns, messages, self._entries, changed, self._verdict, self._offset_ns))
        problems = model_problems(self._entries, self._program, stopped=played.unreachable if played else None)
        missed = any(entry.kind == "miss" for entry in self._entries)
        outcome = decide(self._errors, problems if played else [], self._verdict, missed=missed)
        record = Record(
            **self._identity(),
            outcome=outcome.word,
            reason=outcome.reason,
            started_at=started_at,
            start_ns=start_ns,
            end_ns=end_ns,
            phases=sorted(self._clock.done, key=lambda phase: phase.start_ns),
            proofs=self._start.proofs if self._start else [],
            findings=findings.listed(),
            container=self._container_id,
            pristine=self._start.pristine if self._start else None,
            found_at_start=self._start.found if self._start else [],
            canaries=self._fixture.canaries,
            planted=self._start.planted if self._start else [],
            agent=self._agent_exit(),
            turns=turns,
            probes=played.probes if played else [],
            ledger=played.ledger if played else [],
            buffers=played.buffers if played else [],
            verdict=self._verdict,
            agent_env={name: value.replace(self._token, "<run>") for name, value in self._env().items()},
            agent_argv=[word.replace(self._token, "<run>") for word in self._argv()],
            protocol_version=played.protocol_version if played else None,
            agent_info=played.agent_info if played else None,
            clock_offset_ns=self._offset_ns,
            cut=self._cut(),
        )
        exact, sampled = compute(record, messages, self._entries, cli, self._left, self._names, findings.counts)
        return self._keep(record.model_copy(update={"exact": exact, "sampled": sampled}))

    def _cut(self) -> dict[str, int]:
        """What the caps left out of the logs."""
        cut = self._pipe.cut() if self._pipe else {}
        if self._journal is not None:
            cut |= {"model_bodies": self._journal.cut_bodies, "model_bytes": self._journal.cut_bytes}
        return cut

    def _identity(self) -> dict[str, Any]:
        """Which attempt at which cell a record is of."""
        names = ("arm", "replicate", "warmup", "adapter", "surface", "fixture", "policy", "model", "reset", "expect")
        of_the_cell = {name: getattr(self._cell, name) for name in names}
        sweep = self._bench.loaded.sweep.id
        return {"sweep": sweep, "cell": self._cell.name, "attempt": self._attempt.number, **of_the_cell}

    def _commit_bare(self, started_at: str, start_ns: int, end_ns: int, problem: Exception) -> Record:
        """Commit a record that only says why there is no other: our fault, whatever the agent did to bring it about."""
        self._errors.append(
            InternalError(f"internal error: no record could be made: {type(problem).__name__}: {problem}")
        )
        outcome = decide(self._errors, [], None, missed=False)
        times: dict[str, Any] = {"started_at": started_at, "start_ns": start_ns, "end_ns": end_ns}
        return self._keep(Record(**self._identity(), outcome=outcome.word, reason=outcome.reason, **times))

    def _keep(self, record: Record) -> Record:
        """Commit the record, and before it all files of the attempt, without keys and with its text written out."""
        if (redactor := self._bench.redactor) is not None:
            for name in redactor.files(self._attempt.path):
                record.findings.append(Finding(id="redacted", message=f"{name} held what looks like a key"))
            record = Record.model_validate(redactor.value(record.model_dump()))
        # Keys first: none may be cut in the middle.
        record = bounded(record).written_out()
        self._attempt.commit(record)
        return record

    def _agent_exit(self) -> AgentExit | None:
        if self._spawn_ns is None:
            return None
        event: Reply = (self._played.exit if self._played else None) or {}
        ended_by: Any = self._played.ended_by if self._played and event else "container"
        return AgentExit(
            spawn_ns=self._spawn_ns,
            exit_ns=int(event["exit_ns"]) - self._offset_ns if event else None,
            ended_by=ended_by,
            **{name: event.get(name) for name in ("code", "signal", "cpu_s", "peak_anon_mb", "bytes_written")},
            oom=bool(event.get("oom")),
            disk_exceeded=bool(event.get("disk_exceeded")),
            survivors=list(event.get("survivors", [])),
        )
