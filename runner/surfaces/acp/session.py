"""One ACP session on a driver's loop: sending, a prompt's turn, cancelling it, answering its asks, what was answered.

The driver (`runner.surfaces.acp.driver`) and the probes after the turn (`runner.surfaces.acp.probes`) stand on it.
"""

from __future__ import annotations

from typing import Literal

from runner.acp.client import Client
from runner.acp.events import CallDone, PeerError, PermissionRequest, PromptDone, SessionCreated, SessionUpdate
from runner.acp.findings import CANCEL_NOT_HONOURED, DUPLICATE_OPTION_ID
from runner.acp.policy import decide
from runner.acp.state import OpenRequest
from runner.config.policy import Cancel
from runner.errors import AgentError, InternalError, PhaseTimeout
from runner.records.schema import Finding, Turn
from runner.surfaces.driver import Driver
from runner.wire.frames import Frame
from runner.wire.jsonrpc import Id
from runner.wire.values import as_list, as_object

#: What answers a request of ours.
Answered = CallDone | SessionCreated | PromptDone | PeerError
#: Updates that are held for probes.
_UPDATES = 100_000
#: Characters of a session's id, or of a kind, that are held for them.
_MAX_ID = 1000
#: Kind of session/update -> the moment it is, for a policy that cancels.
_MOMENTS = {"agent_message_chunk": "text", "tool_call": "tool", "tool_call_update": "tool"}


class AcpSession:
    """What is sent over a session and what became of it. Everything runs on the loop of `driver`."""

    def __init__(self, driver: Driver, client: Client) -> None:
        self._driver = driver
        self._context = driver.context
        self._result = driver.result
        self.client = client
        self._created: SessionCreated | None = None
        #: Answers to `authenticate` and to what configures the session, good or bad.
        self._acknowledged = 0
        #: Every session/update, for the probes after the turn: seq, session, kind.
        self.updates: list[tuple[int, str, str]] = []
        #: What our requests were answered, by their ids.
        self.answers: dict[Id, Answered] = {}
        #: Frames of the last session/prompt: sent, answered.
        self.prompt_seqs: tuple[int | None, int | None] = (None, None)
        self._turn_over = False
        self._turn_updates = 0
        self._cancelled = False
        #: Asks that the policy never answers: they are open, but we owe nothing.
        self._ignored: list[OpenRequest] = []
        #: When the user cancels, while that moment has not come.
        self._awaited: Cancel | None = self._context.policy.cancel

    @property
    def created(self) -> SessionCreated:
        """The answer to session/new."""
        if self._created is None:
            raise InternalError("internal error: the session is used before it is there")
        return self._created

    def offers_mode(self, mode: str | bool | None) -> bool:
        """Whether session/new names a mode of this id."""
        modes = as_object(self.created.result.get("modes"))
        return any(
            isinstance(entry, dict) and entry.get("id") == mode for entry in as_list(modes.get("availableModes"))
        )

    @property
    def owes_answer(self) -> bool:
        return len(self.client.open_requests) > len(self._ignored)

    # sending

    def send(self, line: bytes) -> Frame | None:
        """Send a line; None, and nothing sent, where it is empty or the agent's standard input is closed."""
        return self._context.pipe.send(line) if line else None

    def open(self) -> None:
        """session/new, and its answer. :raises PhaseTimeout: there was none in time."""
        context = self._context
        self.send(self.client.session_new(context.cwd, context.surface.mcp_servers, context.additional_directories))
        self._driver.wait("session_new", context.deadlines.session_new, lambda: self._created is not None)

    def request(self, line: bytes, phase: Literal["authenticate", "configure"] = "configure") -> None:
        """Send a request that prepares the session and wait for its answer, whatever that is."""
        before = self._acknowledged
        self.send(line)
        self._driver.wait(phase, getattr(self._context.deadlines, phase), lambda: self._acknowledged > before)

    def prompt(self, text: str) -> None:
        """One turn, cancelled where the policy says so.

        :raises PhaseTimeout: a deadline passed, and it was cancelled; or the cancel's own.
        :raises AgentError: it was answered with an error, or the agent ended.
        """
        limits = self._context.deadlines
        self._turn_over, self._turn_updates, self._cancelled = False, 0, False
        frame = self.send(self.client.session_prompt(self.created.session_id, text))
        if frame is None:
            raise InternalError("internal error: a prompt after standard input was closed")
        self.prompt_seqs = (frame.seq, None)
        self._result.turns.append(Turn(sent_ns=frame.t_ns))
        self.moment_has_come("start")
        try:
            self._driver.wait("first_update", limits.first_update, lambda: self._turn_updates > 0 or self._stopping)
            self._driver.wait("turn", limits.turn, lambda: self._stopping, silence=True)
        except PhaseTimeout:
            self._cancel()
            try:
                self._grace()
            except PhaseTimeout:
                pass  # noted; the deadline that passed first is the run's outcome
            except AgentError as problem:
                self._driver.note("cancel-ended-agent", f"after session/cancel the agent {problem}")
            raise
        self._grace()

    @property
    def _stopping(self) -> bool:
        return self._turn_over or self._cancelled

    # cancelling

    def _grace(self) -> None:
        """The time after session/cancel in which the agent still gets every answer and has to end its turn."""
        try:
            self._driver.wait("cancel_grace", self._context.deadlines.cancel_grace, lambda: self._turn_over)
        except PhaseTimeout:
            message = "no response to session/prompt within the grace after session/cancel"
            self._driver.note(CANCEL_NOT_HONOURED, message)
            raise

    def _cancel(self) -> None:
        """Send session/cancel, with the answers it owes to open asks; nothing where the turn is over."""
        if self._turn_over:
            return
        self._cancelled = self._result.turns[-1].cancelled = True
        self._result.unreachable = "the turn was cancelled"
        for line in self.client.session_cancel(self.created.session_id):
            self.send(line)
        self._ignored.clear()

    def moment_has_come(self, moment: str) -> bool:
        """Whether this is the moment at which the user cancels; then the turn is cancelled, now or a little later."""
        awaited = self._awaited
        if awaited is None or awaited.at != moment or self._turn_over or not self._result.turns:
            return False
        self._awaited = None
        if awaited.after_s:
            self._driver.later(awaited.after_s, self._cancel)
        else:
            self._cancel()
        return True

    # what arrives

    def take_update(self, event: SessionUpdate) -> None:
        if self._context.surface.probes and len(self.updates) < _UPDATES:
            self.updates.append((event.seq, event.session_id[:_MAX_ID], event.kind[:_MAX_ID]))
        self._turn_updates += event.phase == "turn"
        if event.phase == "turn" and event.kind in _MOMENTS:
            self.moment_has_come(_MOMENTS[event.kind])

    def take_answer(self, event: Answered) -> None:
        """An answer to a request of ours; what an error means is the driver's to say."""
        self.answers[event.id] = event
        if isinstance(event, SessionCreated):
            self._created = self._created or event
        elif isinstance(event, CallDone):
            self.acknowledge()
        elif isinstance(event, PromptDone):
            self._end_turn(event)
        elif event.method == "session/prompt":
            self._turn_over = True

    def acknowledge(self) -> None:
        """A request that prepares the session is answered."""
        self._acknowledged += 1

    def forget_cancelled_requests(self) -> None:
        """The agent took a request back: nobody waits for its answer any more."""
        self._ignored = [request for request in self._ignored if request in self.client.open_requests]

    def _end_turn(self, event: PromptDone) -> None:
        self._turn_over = True
        self.prompt_seqs = (self.prompt_seqs[0], event.seq)
        turn = self._result.turns[-1]
        turn.result_ns = event.t_ns
        turn.stop_reason = event.stop_reason
        turn.turn_ms = (event.t_ns - turn.sent_ns) / 1e6
        usage = event.result.get("usage")
        turn.usage = usage if isinstance(usage, dict) else None

    def answer_permission(self, event: PermissionRequest) -> None:
        """Answer session/request_permission as the policy says: now, later, by a cancel, or never."""
        if self.moment_has_come("ask"):
            return  # it stays open until the cancel, which answers it
        self.moment_has_come("tool")
        decision = decide(self._context.policy, event.params, self.client.tool_calls.calls)
        if decision.duplicate is not None:
            self.client.note(DUPLICATE_OPTION_ID, f"several options have the id {decision.duplicate!r}", event.seq)
        if decision.note:
            self._result.findings.append(Finding(id="policy-fallback", message=decision.note, seq=event.seq))
        answer = decision.kind or decision.outcome
        if not answer.startswith("allow"):
            self._result.unreachable = self._result.unreachable or f"an ask was answered {answer}"
        if decision.outcome == "never":
            self._ignored += [request for request in self.client.open_requests if request.seq == event.seq]
            return

        def reply() -> None:
            self.send(self.client.answer_permission(event.id, decision))

        if decision.delay_s:
            self._driver.later(decision.delay_s, reply)
        else:
            reply()
