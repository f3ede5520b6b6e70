"""The ACP surface: one session, one prompt, every callback served, every ask answered by policy."""

from __future__ import annotations

from collections import Counter

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
    SessionUpdate,
)
from runner.acp.findings import OVERSIZE
from runner.errors import AgentGaveUp
from runner.surfaces.acp.authentication import advice
from runner.surfaces.acp.callbacks import Answer, Callbacks
from runner.surfaces.acp.documents import Documents
from runner.surfaces.acp.probes import Prober
from runner.surfaces.acp.session import AcpSession
from runner.surfaces.acp.setup import SessionSetup
from runner.surfaces.driver import Driver, DriverContext, exit_words
from runner.wire.frames import OVERSIZE as OVERSIZE_FLAG
from runner.wire.frames import Frame
from runner.wire.jsonrpc import AUTH_REQUIRED

CLIENT_INFO = {"name": "acpbench", "title": "acpbench", "version": __version__}
#: What an agent without a login answers with `auth required`.
_WANT_LOGIN = frozenset({"session/new", "session/prompt"})
_CONFIGURING = frozenset({"session/set_mode", "session/set_config_option"})


class AcpDriver(Driver):
    """initialize -> authenticate (where the adapter says so) -> session/new -> mode and options -> session/prompt ->
    quiet window -> probes."""

    def __init__(self, context: DriverContext) -> None:
        super().__init__(context)
        self._client = Client(context.surface.client_capabilities.as_json())
        self._callbacks = Callbacks(context.guest, self.when_done, context.policy, context.cwd, context.roots)
        self._documents = Documents(context, self._callbacks.buffers)
        self._session = AcpSession(self, self._client)
        self._setup = SessionSetup(self, self._session)

    def play(self) -> None:
        context, session, setup, phase = self.context, self._session, self._setup, self.context.phases.phase
        self._documents.open()
        with phase("initialize"):
            session.send(self._client.initialize(CLIENT_INFO))
            self.wait("initialize", context.deadlines.initialize, lambda: self._client.initialized is not None)
        if context.session.authenticate is not None:
            with phase("authenticate"):
                setup.authenticate(context.session.authenticate)
        with phase("session_new"):
            session.open()
        with phase("configure"):
            setup.configure()
        if context.awaited:
            with phase("mcp_connected"):
                setup.await_servers()
        if context.surface.settle_s:
            with phase("settle"):
                self.read_on(context.surface.settle_s)
        with phase("look"):
            setup.look_at_workspace()
        with phase("prompt"):
            session.prompt(context.prompt)
        with phase("quiet"):
            self.read_on(context.deadlines.quiet)
        if context.surface.probes:
            with phase("probe"):
                Prober(self, session).play(context.surface.probes)

    @property
    def owes_answer(self) -> bool:
        return self._session.owes_answer

    # receiving

    def on_frame(self, frame: Frame) -> None:
        if OVERSIZE_FLAG in frame.flags:
            self._client.note(OVERSIZE, f"a line of {frame.length} bytes", frame.seq)
            return
        for event in self._client.receive(frame.raw, frame.seq, frame.t_ns):
            self._session.send(event.reply)
            self._react(event)

    def _react(self, event: Event) -> None:
        session = self._session
        match event:
            case SessionUpdate():
                session.take_update(event)
            case PermissionRequest(reply=b""):
                session.answer_permission(event)
            case ClientRequest():
                self._callbacks.serve(
                    event.method, event.params, event.seq, event.t_ns, lambda answer: self._respond(event, answer)
                )
                if event.method == "terminal/wait_for_exit":
                    session.moment_has_come("terminal")
            case RequestCancelled():
                session.forget_cancelled_requests()
            case Initialized():
                self.result.protocol_version = event.version
                info = event.result.get("agentInfo")
                self.result.agent_info = info if isinstance(info, dict) else None
            case SessionCreated() | PromptDone() | CallDone():
                session.take_answer(event)
            case PeerError():
                session.take_answer(event)
                self._peer_error(event)

    def _peer_error(self, event: PeerError) -> None:
        """:raises AgentGaveUp: the run cannot go on without what was refused."""
        message = f"{event.method} was answered with an error: {event.message}"
        methods = self._setup.auth_methods()
        if event.code == AUTH_REQUIRED and event.method in _WANT_LOGIN and methods:
            message += f"; {advice(methods, self.context.session.authenticate)}"
        if event.method == "session/prompt":
            raise AgentGaveUp(message)
        if self.result.turns:
            return  # a probe's, which reports it itself
        if event.method in _CONFIGURING:
            self.note("configure-refused", message, event.seq)
            self._session.acknowledge()
        elif event.method in ("authenticate", "session/new"):
            raise AgentGaveUp(message)

    def _respond(self, event: ClientRequest, answer: Answer) -> None:
        if answer.code is None:
            line = self._client.respond(event.id, answer.result)
        else:
            line = self._client.respond_error(event.id, answer.code, answer.message)
        self._session.send(line)

    # the end

    def conclude(self) -> None:
        cancel = self.context.policy.cancel
        if cancel is not None and not any(turn.cancelled for turn in self.result.turns):
            self.note("cancel-moment-missed", f"no turn was cancelled: {cancel.at} never came, or too late")
        self._note_crash()
        self.result.ledger, self.result.buffers = self._documents.close()
        if left_out := self._callbacks.buffers.left_out:
            self.note(
                "evidence-cut",
                f"{left_out} writes through the client are above the number that a record lists",
            )
        self._client.finish()
        log = self._client.findings
        for finding in log.kept:
            self.note(finding.id, finding.message, finding.seq)
        for identity, count in (log.counts - Counter(finding.id for finding in log.kept)).items():
            self.result.findings.more(identity, count)

    def _note_crash(self) -> None:
        """An agent that answered well and then died is no agent-error, and its death is worth knowing."""
        event = self.result.exit
        if event is None or not self.result.turns or self.result.turns[-1].result_ns is None:
            return
        if self.result.ended_by == "itself" and (event.get("signal") or event.get("code") != 0):
            self.note("crash-after-answer", f"after its last answer it ended with {exit_words(event)}")
        elif event.get("oom"):
            self.note("out-of-memory", "memory ran out during the run, and one of its processes was killed")
