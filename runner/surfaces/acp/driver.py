"""The ACP surface: one session, one prompt, every callback served, every ask answered by policy."""

from __future__ import annotations

import contextlib
from collections import Counter
from concurrent.futures import Future
from typing import Literal

from runner import __version__
from runner.acp.client import Client
from runner.acp.events import (
    CallDone,
    ClientRequest,
    Event,
    Initialized,
    PeerError,
    PermissionRequest,
    PromptDone,
    RequestCancelled,
    SessionCreated,
    Update,
)
from runner.acp.findings import CANCEL_NOT_HONOURED, DUPLICATE_OPTION_ID, OVERSIZE
from runner.acp.policy import decide
from runner.acp.state import OpenRequest
from runner.config.policy import Cancel
from runner.errors import AgentError, AgentGaveUp, InfraError, PhaseTimeout
from runner.records.schema import Finding, Turn
from runner.sandbox.channel import GuestRefused, Reply
from runner.surfaces.acp.authentication import Method, advice, named, offered
from runner.surfaces.acp.callbacks import Answer, Callbacks
from runner.surfaces.acp.documents import Documents
from runner.surfaces.acp.probes import Prober
from runner.surfaces.driver import Driver, DriverContext, exit_words
from runner.wire.frames import OVERSIZE as OVERSIZE_FLAG
from runner.wire.frames import Frame
from runner.wire.jsonrpc import AUTH_REQUIRED, Id

CLIENT_INFO = {"name": "acpbench", "title": "acpbench", "version": __version__}
#: What an agent without a login answers with `auth required`.
_WANT_LOGIN = frozenset({"session/new", "session/prompt"})
_CONFIGURING = frozenset({"session/set_mode", "session/set_config_option"})
#: Seconds for a look at the workspace; an agent may have filled it.
_LOOK_S = 10
#: Updates that are held for probes.
_UPDATES = 100_000
#: Characters of a session's id, or of a kind, that are held for them.
_MAX_ID = 1000
#: Kind of session/update -> the moment it is, for a policy that cancels.
_MOMENTS = {"agent_message_chunk": "text", "tool_call": "tool", "tool_call_update": "tool"}


class AcpDriver(Driver):
    """initialize -> authenticate (where the adapter says so) -> session/new -> mode and options -> session/prompt ->
    quiet window -> probes."""

    def __init__(self, scene: DriverContext) -> None:
        super().__init__(scene)
        self.client = Client(scene.surface.client_capabilities.as_json())
        self.callbacks = Callbacks(scene.guest, self.when_done, scene.policy, scene.cwd, scene.roots)
        self.documents = Documents(scene, self.callbacks.buffers)
        self._session: SessionCreated | None = None
        self._turn_over = False
        self._configured = 0
        #: Every session/update, for the probes after the turn: seq, session, kind.
        self.updates: list[tuple[int, str, str]] = []
        #: What our requests were answered, by their ids.
        self.answers: dict[Id, CallDone | SessionCreated | PromptDone | PeerError] = {}
        #: Frames of the last session/prompt: sent, answered.
        self.prompt_seqs: tuple[int | None, int | None] = (None, None)
        self._turn_updates = 0
        #: Asks that the policy never answers: they are open, but we owe nothing.
        self._ignored: list[OpenRequest] = []
        #: When the user cancels, while that moment has not come.
        self._awaited: Cancel | None = scene.policy.cancel
        #: Session of the last prompt; whether its turn was cancelled.
        self._prompted = ""
        self._cancelled = False

    def play(self) -> None:
        scene, limits = self.scene, self.scene.deadlines
        self.documents.open()
        with scene.phases.phase("initialize"):
            self.send(self.client.initialize(CLIENT_INFO))
            self.wait("initialize", limits.initialize, lambda: self.client.initialized is not None)
        if scene.session.authenticate is not None:
            with scene.phases.phase("authenticate"):
                self._authenticate(scene.session.authenticate)
        with scene.phases.phase("session_new"):
            new = self.client.session_new(scene.cwd, scene.surface.mcp_servers, scene.additional_directories)
            self.send(new)
            self.wait("session_new", limits.session_new, lambda: self._session is not None)
        assert self._session is not None
        with scene.phases.phase("configure"):
            self._configure(self._session)
        if scene.awaited:
            with scene.phases.phase("mcp_connected"):
                self._await_servers()
        if scene.surface.settle_s:
            with scene.phases.phase("settle"):
                self.read_on(scene.surface.settle_s)
        with scene.phases.phase("look"):
            self._look()
        with scene.phases.phase("prompt"):
            self.prompt(self._session, scene.prompt)
        with scene.phases.phase("quiet"):
            self.read_on(limits.quiet)
        if scene.surface.probes:
            with scene.phases.phase("probe"):
                Prober(self, self._session).play(scene.surface.probes)

    @property
    def owes_answer(self) -> bool:
        return len(self.client.open_requests) > len(self._ignored)

    # sending

    def send(self, line: bytes) -> Frame | None:
        return self.scene.pipe.send(line) if line else None

    def _authenticate(self, wanted: str) -> None:
        """Send what the adapter names where the agent offers it; else say so and go on: it may want none after all.

        :raises AgentError: it was answered with an error.
        """
        methods = self._auth_methods()
        method = next((one for one in methods if one.id == wanted), None)
        if method is None:
            self._note(
                "auth-method-not-offered",
                f"authentication method {wanted!r} is not offered (offered: {named(methods)}), so it was not sent",
            )
        elif not method.supported:
            self._note(
                "auth-method-not-supported", f"authentication method {method} needs a person, so it was not sent"
            )
        else:
            self._ask_once(self.client.call("authenticate", {"methodId": wanted}), "authenticate")

    def _auth_methods(self) -> list[Method]:
        hello = self.client.initialized
        return offered(hello.result) if hello is not None else []

    def _configure(self, session: SessionCreated) -> None:
        """Pin the mode and the options explicitly, so that an agent's default never decides a comparison."""
        scene = self.scene
        mode = scene.surface.mode or scene.session.mode
        offered = session.result.get("modes")
        modes = offered.get("availableModes") if isinstance(offered, dict) else None
        if mode is not None and any(isinstance(one, dict) and one.get("id") == mode for one in modes or []):
            self._ask_once(self.client.set_mode(session.session_id, mode))
        elif mode is not None:
            self._note("mode-not-offered", f"mode {mode!r} is not offered: the agent's default stays")
        for option, value in {**scene.session.config_options, **scene.surface.config_options}.items():
            self._ask_once(self.client.set_config_option(session.session_id, option, value))

    def _await_servers(self) -> None:
        """Until the session's servers are ready; one that is not in time is the run's to show, not ours to end."""
        try:
            self.wait("mcp_connected", self.scene.deadlines.mcp_connected, lambda: self.scene.awaited <= self.ready)
        except PhaseTimeout:
            missing = len(self.scene.awaited - self.ready)
            told = f"{missing} of {len(self.scene.awaited)} MCP servers not ready"
            self._note(
                "mcp-not-connected", f"{told} within {self.scene.deadlines.mcp_connected:g} s; prompted all the same"
            )

    def _look(self) -> None:
        """What has changed in the workspace already: a change within the turn would hide an earlier one."""
        seen: list[str] | None = None

        def ready(reply: Future[Reply]) -> None:
            nonlocal seen
            with contextlib.suppress(GuestRefused, InfraError):
                seen = [one["path"] for one in reply.result()["changes"] if one["kind"] == "file"]
            seen = seen or []

        scene = self.scene
        skip = [".git", *scene.adapter.state_dirs]
        self.when_done(scene.guest.submit_change_times(scene.cwd, skip, _LOOK_S), ready)
        try:
            self.wait("look", 2 * _LOOK_S, lambda: seen is not None)
        except PhaseTimeout:
            self._note("not-looked-at", "the workspace could not be looked at in time before the prompt")
        self.played.early_changes = seen or []

    def _ask_once(self, line: bytes, phase: Literal["authenticate", "configure"] = "configure") -> None:
        seen = self._configured
        self.send(line)
        self.wait(phase, getattr(self.scene.deadlines, phase), lambda: self._configured > seen)

    def prompt(self, session: SessionCreated, text: str) -> None:
        """One turn, cancelled where the policy says so.

        :raises PhaseTimeout: a deadline passed, and it was cancelled; or the cancel's own.
        :raises AgentError: it was answered with an error, or the agent ended.
        """
        limits = self.scene.deadlines
        self._turn_over, self._turn_updates, self._cancelled = False, 0, False
        self._prompted = session.session_id
        frame = self.send(self.client.session_prompt(session.session_id, text))
        assert frame is not None
        self.prompt_seqs = (frame.seq, None)
        self.played.turns.append(Turn(sent_ns=frame.t_ns))
        self._has_come("start")
        try:
            self.wait("first_update", limits.first_update, lambda: self._turn_updates > 0 or self._stopping)
            self.wait("turn", limits.turn, lambda: self._stopping, silence=True)
        except PhaseTimeout:
            self._cancel()
            try:
                self._grace()
            except PhaseTimeout:
                pass  # noted; the deadline that passed first is the run's outcome
            except AgentError as problem:
                self._note("cancel-ended-agent", f"after session/cancel the agent {problem}")
            raise
        self._grace()

    @property
    def _stopping(self) -> bool:
        return self._turn_over or self._cancelled

    def _grace(self) -> None:
        """The time after session/cancel in which the agent still gets every answer and has to end its turn."""
        try:
            self.wait("cancel_grace", self.scene.deadlines.cancel_grace, lambda: self._turn_over)
        except PhaseTimeout:
            self._note(CANCEL_NOT_HONOURED, "no response to session/prompt within the grace after session/cancel")
            raise

    def _cancel(self) -> None:
        """Send session/cancel, with the answers it owes to open asks; nothing where the turn is over."""
        if self._turn_over:
            return
        self._cancelled = self.played.turns[-1].cancelled = True
        self.played.unreachable = "the turn was cancelled"
        for line in self.client.session_cancel(self._prompted):
            self.send(line)
        self._ignored.clear()

    def _has_come(self, moment: str) -> bool:
        """Whether this is the moment at which the user cancels; then the turn is cancelled, now or a little later."""
        awaited = self._awaited
        if awaited is None or awaited.at != moment or self._turn_over or not self.played.turns:
            return False
        self._awaited = None
        if awaited.after_s:
            self.later(awaited.after_s, self._cancel)
        else:
            self._cancel()
        return True

    # receiving

    def on_frame(self, frame: Frame) -> None:
        if OVERSIZE_FLAG in frame.flags:
            self.client.note(OVERSIZE, f"a line of {frame.length} bytes", frame.seq)
            return
        for event in self.client.receive(frame.raw, frame.seq, frame.t_ns):
            self.send(event.reply)
            self._react(event)

    def _react(self, event: Event) -> None:
        match event:
            case Update():
                if self.scene.surface.probes and len(self.updates) < _UPDATES:
                    self.updates.append((event.seq, event.session_id[:_MAX_ID], event.kind[:_MAX_ID]))
                self._turn_updates += event.phase == "turn"
                if event.phase == "turn" and event.kind in _MOMENTS:
                    self._has_come(_MOMENTS[event.kind])
            case PermissionRequest(reply=b""):
                self._permission(event)
            case ClientRequest():
                self.callbacks.serve(
                    event.method, event.params, event.seq, event.t_ns, lambda answer: self._respond(event, answer)
                )
                if event.method == "terminal/wait_for_exit":
                    self._has_come("terminal")
            case RequestCancelled():
                self._ignored = [request for request in self._ignored if request in self.client.open_requests]
            case Initialized():
                self.played.protocol_version = event.version
                info = event.result.get("agentInfo")
                self.played.agent_info = info if isinstance(info, dict) else None
            case SessionCreated():
                self.answers[event.id] = event
                self._session = self._session or event
            case PromptDone():
                self.answers[event.id] = event
                self._turn_over = True
                self._end_turn(event)
            case CallDone():
                self.answers[event.id] = event
                self._configured += 1
            case PeerError():
                self.answers[event.id] = event
                self._peer_error(event)

    def _peer_error(self, event: PeerError) -> None:
        words = f"{event.method} was answered with an error: {event.message}"
        if event.code == AUTH_REQUIRED and event.method in _WANT_LOGIN and self._auth_methods():
            words += f"; {advice(self._auth_methods(), self.scene.session.authenticate)}"
        if self.played.turns and event.method != "session/prompt":
            return  # a probe's, which reports it itself
        if event.method in _CONFIGURING:
            self._note("configure-refused", words, event.seq)
            self._configured += 1
        elif event.method == "session/prompt":
            self._turn_over = True
            raise AgentGaveUp(words)
        elif event.method in ("authenticate", "session/new"):
            raise AgentGaveUp(words)

    def _end_turn(self, event: PromptDone) -> None:
        self.prompt_seqs = (self.prompt_seqs[0], event.seq)
        turn = self.played.turns[-1]
        turn.result_ns = event.t_ns
        turn.stop_reason = event.stop_reason
        turn.turn_ms = (event.t_ns - turn.sent_ns) / 1e6
        usage = event.result.get("usage")
        turn.usage = usage if isinstance(usage, dict) else None

    def _permission(self, event: PermissionRequest) -> None:
        if self._has_come("ask"):
            return  # it stays open until the cancel, which answers it
        self._has_come("tool")
        decision = decide(self.scene.policy, event.params, self.client.tool_calls.calls)
        if decision.duplicate is not None:
            self.client.note(DUPLICATE_OPTION_ID, f"several options have the id {decision.duplicate!r}", event.seq)
        if decision.note:
            self._note("policy-fallback", decision.note, event.seq)
        answer = decision.kind or decision.outcome
        if not answer.startswith("allow"):
            self.played.unreachable = self.played.unreachable or f"an ask was answered {answer}"
        if decision.outcome == "never":
            self._ignored += [request for request in self.client.open_requests if request.seq == event.seq]
            return

        def reply() -> None:
            self.send(self.client.answer_permission(event.id, decision))

        if decision.delay_s:
            self.later(decision.delay_s, reply)
        else:
            reply()

    def _respond(self, event: ClientRequest, answer: Answer) -> None:
        if answer.code is None:
            line = self.client.respond(event.id, answer.result)
        else:
            line = self.client.respond_error(event.id, answer.code, answer.message)
        self.send(line)

    # the end

    def note(self, finding: Finding) -> None:
        self.played.findings.append(finding)

    def _note(self, finding: str, message: str, seq: int | None = None) -> None:
        self.note(Finding(id=finding, message=message, seq=seq))

    def conclude(self) -> None:
        if self.scene.policy.cancel is not None and not any(turn.cancelled for turn in self.played.turns):
            told = f"no turn was cancelled: {self.scene.policy.cancel.at} never came, or too late"
            self._note("cancel-moment-missed", told)
        self._note_crash()
        self.played.ledger, self.played.buffers = self.documents.close()
        if left_out := self.callbacks.buffers.left_out:
            self._note("evidence-cut", f"{left_out} writes through the client are beyond those in the ledger")
        self.client.finish()
        log = self.client.findings
        for found in log.kept:
            self._note(found.id, found.message, found.seq)
        for finding, count in (log.counts - Counter(found.id for found in log.kept)).items():
            self.played.findings.more(finding, count)

    def _note_crash(self) -> None:
        """An agent that answered well and then died is no agent-error, and its death is worth knowing."""
        event = self.played.exit
        if event is None or not self.played.turns or self.played.turns[-1].result_ns is None:
            return
        if self.played.ended_by == "itself" and (event.get("signal") or event.get("code") != 0):
            self._note("crash-after-answer", f"after its last answer it ended with {exit_words(event)}")
        elif event.get("oom"):
            self._note("out-of-memory", "memory ran out during the run, and one of its processes was killed")
