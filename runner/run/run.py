"""One cell -> one record: the heart, readable top to bottom.

    open      both containers are created and started side by side; the guest prepares the fixture, proves the sandbox
    drive     go: the surface plays one turn and brings the agent to its end
    collect   the agent is dead: its files, its streams and the gateway's journal are fetched
    verify    the verdict, in the other container, while what is left of the agent is settled
    record    facts, metrics and the outcome, written last

Whatever goes wrong becomes an outcome; nothing that was seen before is lost.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from runner.config.outcome import UNMEASURED
from runner.config.plan import Cell
from runner.errors import InfraError, LastingError, RunError
from runner.gateway.container import socket_name
from runner.gateway.limits import limits_of
from runner.records.bounds import bounded
from runner.records.disk import DiskFull
from runner.records.schema import Finding, Record
from runner.records.store import AttemptDir
from runner.run.agent_container import AgentContainer, container_labels, container_name
from runner.run.collect import collect
from runner.run.collect_findings import with_missing
from runner.run.context import SweepContext
from runner.run.failure import TRACEBACK, agents_fault_at_start
from runner.run.inputs import MODEL_PORT, RunInputs
from runner.run.model_log import collect_model_log
from runner.run.observed import Observed
from runner.run.prepare import prepare
from runner.run.record import bare_record, build_record
from runner.run.verifier import Verifier, verifier_spec
from runner.sandbox.channel import GuestRefused
from runner.sandbox.clock import clock_offset_ns
from runner.sandbox.guest_client import GuestClient
from runner.sandbox.reused import ReusedContainer
from runner.sandbox.volumes import MODEL_TARGET
from runner.surfaces.acp.driver import AcpDriver
from runner.surfaces.cli.driver import CliDriver
from runner.surfaces.driver import Driver, DriverContext
from runner.surfaces.phases import PhaseClock
from runner.surfaces.pipe import AgentPipe, Inbox
from runner.text.encoding import written_out
from runner.wire.frames import Frame
from runner.wire.log import LoggedFrames

_MB = 10**6


class Run:
    """One attempt at one cell. `inbox` takes a `Stop` from outside at any moment.

    `reused`: the arm's container, where it keeps one; None: a container of its own.
    """

    def __init__(
        self, context: SweepContext, cell: Cell, attempt: AttemptDir, reused: ReusedContainer | None = None
    ) -> None:
        self.inbox = Inbox()
        self._context = context
        self._attempt = attempt
        self._inputs = RunInputs.of(context, cell, attempt.number)
        self._agent = AgentContainer(context, self._inputs, reused)
        self._verifier = _verifier(context, self._inputs)
        self._observed = Observed()

    @property
    def token(self) -> str:
        """By which the model gateway knows it."""
        return self._inputs.token

    @property
    def hopeless(self) -> bool:
        """Whether another attempt would end the same way, or pay for a run again that only we could not keep."""
        return self._observed.is_hopeless(self._inputs.cell)

    def execute(self) -> Record:
        """Run the cell and commit its record.

        :raises DiskFull: something of the run could not be written; no other run would fare better.
        """
        observed = self._observed
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="verifier") as beside:
            verifier_ready = beside.submit(self._verifier.start)
            try:
                observed.guarded(lambda: self._open_and_drive(verifier_ready))
                if observed.spawn_ns is not None:
                    observed.guarded(self._collect)
                # The verdict needs the agent's files alone: what is left of the agent is settled meanwhile.
                verifying = beside.submit(observed.guarded, self._verify)
                if observed.spawn_ns is not None:
                    observed.guarded(self._settle)
                verifying.result()
            finally:
                observed.guarded(lambda: self._remove(verifier_ready))
        observed.end_ns = time.monotonic_ns()
        record = self._commit()
        full = next((error for error in observed.errors if isinstance(error, DiskFull)), None)
        if full is not None:
            raise full
        return record

    # open, drive

    def _open_and_drive(self, verifier_ready: Future[None]) -> None:
        inputs, agent, observed = self._inputs, self._agent, self._observed
        gateway = self._context.gateway()
        limits = limits_of(inputs.knobs)
        gateway.register(inputs.token, inputs.program, limits=limits, canaries=inputs.fixture.canaries)
        if "steps" in inputs.program:  # a tape stands in its cassette
            self._attempt.write_json("program.json", inputs.program)
        with observed.phases.phase("create"):
            agent.create(self.inbox, self._attempt.path)
        with observed.phases.phase("start"):
            agent.start()
        with observed.phases.phase("prepare"):
            self._prepare(agent.connect(self.inbox))
            verifier_ready.result(inputs.knobs.deadlines.prepare + inputs.knobs.deadlines.start)
        observed.driven = self._go(agent.guest).run()
        observed.errors += observed.driven.errors

    def _prepare(self, guest: GuestClient) -> None:
        inputs, limit_s = self._inputs, self._inputs.knobs.deadlines.prepare
        self._observed.offset_ns = clock_offset_ns(guest, limit_s)
        self._observed.start = start = prepare(
            guest,
            inputs.fixture,
            inputs.tar,
            home=inputs.home,
            state_dirs=inputs.adapter.state_dirs,
            reset=inputs.cell.reset if self._agent.runs_before else None,
            limit_s=limit_s,
        )
        if failed := start.failed:
            raise LastingError("not started: " + "; ".join(f"{proof.name}: {proof.detail}" for proof in failed))
        guest.forward(limit_s, port=MODEL_PORT, socket=f"{MODEL_TARGET}/{socket_name(inputs.token)}")
        if (resolver := inputs.surface.resolver) is not None:
            guest.resolve(limit_s, command=resolver.command, query=resolver.query)
        if inputs.readiness_addresses:
            guest.listen_for_readiness(limit_s, inputs.readiness_addresses)

    def _go(self, guest: GuestClient) -> Driver:
        """Start the agent.

        :raises AgentError: its program cannot be executed.
        """
        inputs, observed = self._inputs, self._observed
        context = _driver_context(inputs, self._agent.pipe, guest, self.inbox, observed.phases)
        # From here on the agent may have run, whatever becomes of the reply.
        observed.spawn_ns = time.monotonic_ns()
        try:
            spawn_ns = guest.go(
                inputs.knobs.deadlines.start,
                argv=inputs.argv,
                env=inputs.env,
                cwd=inputs.workspace,
                disk_bytes=inputs.adapter.limits.disk_mb * _MB,
                sample_ms=inputs.knobs.sample_ms,
            )
        except GuestRefused as refusal:
            if (error := agents_fault_at_start(refusal)) is not None:
                raise error from refusal
            raise
        observed.spawn_ns = spawn_ns - observed.offset_ns
        return AcpDriver(context) if inputs.surface.transport == "acp" else CliDriver(context)

    # collect, verify, settle

    def _collect(self) -> None:
        with self._observed.phases.phase("collect"):
            collect(self._inputs, self._agent, self._attempt, self._observed)

    def _verify(self) -> None:
        inputs, observed, collected = self._inputs, self._observed, self._observed.collected
        if collected.archive is None:
            return
        cap_mb = inputs.knobs.collect_cap_mb
        with observed.phases.phase("verify"):
            verified = self._verifier.verify(
                inputs.fixture,
                inputs.tar,
                collected.archive,
                inputs.knobs.deadlines.verify + inputs.fixture.verify.timeout_s,
                differing=collected.differing,
                cap_mb=cap_mb,
                tests=inputs.tests,
            )
        observed.verdict = with_missing(verified.verdict, collected.left_out, cap_mb)
        observed.findings += verified.findings
        self._attempt.write_bytes("workspace.patch", verified.patch)

    def _settle(self) -> None:
        """The agent's last bytes, its container, and what the gateway wrote of it."""
        observed = self._observed
        if not self._agent.end_streams(self._inputs.knobs.deadlines.collect):
            observed.errors.append(InfraError("the container's streams did not end"))
        observed.guarded(self._release)
        collect_model_log(self._context.gateway(), self._inputs, self._attempt, observed)

    def _remove(self, verifier_ready: Future[None]) -> None:
        with self._observed.phases.phase("remove"):
            verifier_ready.exception()
            self._agent.end_streams(0)
            self._agent.disconnect()
            self._observed.guarded(self._verifier.remove)
            self._release()

    def _release(self) -> None:
        failed = any(error.outcome in UNMEASURED for error in self._observed.errors)
        self._agent.release(ours_failed=failed)

    # record

    def _commit(self) -> Record:
        observed = self._observed
        observed.container_id = self._agent.id
        frames: Iterable[Frame] = ()
        if self._agent.attached:
            frames = LoggedFrames(self._attempt.path / "frames.jsonl")
            observed.streams_cut = self._agent.pipe.cut()
        try:
            record = build_record(self._inputs, observed, frames, self._context.schemas[self._inputs.adapter.image])
            return self._keep(record)
        except RunError:
            raise
        except Exception as problem:  # noqa: BLE001 - what an agent sent must not end the sweep: its logs are kept
            observed.add(problem, "no record could be made")
        return self._keep(bare_record(self._inputs, observed))

    def _keep(self, record: Record) -> Record:
        """Commit the record, and before it all files of the attempt, without keys and with its text written out."""
        if self._observed.tracebacks:
            self._attempt.write_lines(TRACEBACK, written_out(self._observed.tracebacks))
        if (redactor := self._context.redactor) is not None:
            for name in redactor.files(self._attempt.path):
                record.findings.append(Finding(id="redacted", message=f"{name} held what looks like a key"))
            record = Record.model_validate(redactor.value(record.model_dump()))
        # Keys first: none may be cut in the middle.
        record = bounded(record).written_out()
        self._attempt.commit(record)
        return record


def _driver_context(
    inputs: RunInputs, pipe: AgentPipe, guest: GuestClient, inbox: Inbox, phases: PhaseClock
) -> DriverContext:
    return DriverContext(
        pipe=pipe,
        guest=guest,
        inbox=inbox,
        phases=phases,
        deadlines=inputs.knobs.deadlines,
        adapter=inputs.adapter,
        launch=inputs.launch,
        surface=inputs.surface,
        session=inputs.adapter.session,
        policy=inputs.policy,
        prompt=inputs.fixture.prompt,
        cwd=inputs.workspace,
        roots=(inputs.workspace, *inputs.additional_directories),
        additional_directories=inputs.additional_directories,
        buffers=inputs.open_buffers,
        awaited=frozenset(inputs.readiness_addresses),
    )


def _verifier(context: SweepContext, inputs: RunInputs) -> Verifier:
    spec = verifier_spec(
        inputs.fixture.verify.limits,
        name=container_name(context, inputs, "verifier"),
        image=context.images[inputs.adapter.image],
        labels=container_labels(context, inputs),
        guest_volume=context.volumes.guest,
    )
    return Verifier(context.client, spec, context.gate)
