"""The client's half of ACP v1, sans-IO: lines in, events out; calls in, lines out. No socket, clock or thread.

How a driver uses it (every `bytes` that comes out is one whole line, LF included, to be logged and written as it is)::

    client = Client(surface.client_capabilities)
    send(client.initialize({"name": "acpbench", "version": "1"}))
    for frame in frames:                                  # stamped lines of the agent's stdout, without LF
        for event in client.receive(frame.raw, frame.seq, frame.t_ns):
            if event.reply:                               # refusals and answers that leave nothing to decide
                send(event.reply)
            match event:
                case Initialized():                send(client.session_new(cwd))
                case SessionCreated():             send(client.session_prompt(event.session_id, text))
                case PermissionRequest(reply=b""): send(client.answer_permission(event.id, decide(policy, ...)))
                case ClientRequest():              guest.call(..., then=lambda r: send(client.respond(event.id, r)))
                case PromptDone():                 stop = event.stop_reason
                case PeerError(method="session/prompt"): stop = None
    for line in client.session_cancel(session_id):        # the notification, then an answer for each open ask
        send(line)

Rules:
- `receive` raises `ProtocolViolation` only for what makes going on meaningless: no valid answer to initialize, another
  protocol version, a session without an id. Everything else an agent does wrong is a finding, never fatal.
- A response of ours may come too late (the ask was cancelled meanwhile): `respond`, `respond_error` and
  `answer_permission` give b"" for an id that is not open. `send(b"")` must do nothing.
- Requests are answered in any order, at any time: during a turn, after session/cancel, after the prompt's response.
- A wrong call of *ours* raises `LocalProtocolError` and changes nothing.
- `client.owes_answer` is true while the agent waits for us (pause the silence deadline); `open_requests` says for what.
- For lines that the framer did not keep whole call `note(findings.OVERSIZE or UNTERMINATED, ...)`.
- When the stream has ended call `finish()`: unanswered requests and unfinished tool calls become findings.
- Findings are data: `client.findings.kept` (bounded) and `client.findings.counts` (all).

Sources: the ACP v1 schema (methods, sides, capabilities) and the protocol's pages on prompt turns and cancellation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runner.acp import findings as f
from runner.acp import incoming, responses
from runner.acp.events import Event, Initialized
from runner.acp.findings import FindingLog
from runner.acp.policy import Decision
from runner.acp.state import CANCELLED, PROTOCOL_VERSION, ConnectionState, OpenRequest, Pending, SessionState, Stamp
from runner.acp.toolcalls import ToolCalls
from runner.errors import InfraError
from runner.wire import jsonrpc
from runner.wire.jsonrpc import MAX_MESSAGE_BYTES, Id


class LocalProtocolError(InfraError):
    """We asked the client for something that the protocol's state does not allow: our fault, not the agent's."""


class Client:
    """One connection. `capabilities` is sent as clientCapabilities and decides what the agent may call."""

    def __init__(self, capabilities: Mapping[str, Any], *, max_message_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._state = ConnectionState(capabilities)
        self._max_message_bytes = max_message_bytes
        #: Id of the last request of ours; its event carries the same. None before the first.
        self.last_id: Id = None

    # -- what we send ------------------------------------------------------------------------------------------

    def initialize(self, client_info: Mapping[str, Any]) -> bytes:
        """`client_info`: name, version and optionally title. Event: Initialized."""
        params = {
            "protocolVersion": PROTOCOL_VERSION,
            "clientCapabilities": self._state.capabilities,
            "clientInfo": dict(client_info),
        }
        return self.call("initialize", params)

    def session_new(
        self,
        cwd: str,
        mcp_servers: Sequence[Mapping[str, Any]] = (),
        additional_directories: Sequence[str] = (),
    ) -> bytes:
        """`cwd` is absolute. additionalDirectories is sent only where not empty. Event: SessionCreated."""
        if self._state.initialized is None:
            raise LocalProtocolError("session/new before initialize was answered")
        params: dict[str, Any] = {"cwd": cwd, "mcpServers": [dict(server) for server in mcp_servers]}
        if additional_directories:
            params["additionalDirectories"] = list(additional_directories)
        return self.call("session/new", params)

    def session_prompt(self, session_id: str, text: str) -> bytes:
        """One text block. Allowed while another prompt runs (agents queue, refuse or drop). Event: PromptDone."""
        self._session(session_id)
        return self.call("session/prompt", {"sessionId": session_id, "prompt": [{"type": "text", "text": text}]})

    def session_cancel(self, session_id: str) -> list[bytes]:
        """Lines: session/cancel, then outcome `cancelled` for each open ask of the session (a MUST of the spec).

        Open tool calls of the session count as cancelled (a SHOULD).
        """
        session = self._session(session_id)
        self._state.tool_calls.cancel(session_id)
        session.cancelling = bool(session.running)
        lines = [self.notify("session/cancel", {"sessionId": session_id})]
        asks = [ask for ask in self.open_requests if ask.method == "session/request_permission"]
        lines += [self.respond(ask.id, CANCELLED) for ask in asks if ask.session_id == session_id]
        return lines

    def set_mode(self, session_id: str, mode_id: str) -> bytes:
        """Event: CallDone(method='session/set_mode')."""
        self._session(session_id)
        return self.call("session/set_mode", {"sessionId": session_id, "modeId": mode_id})

    def set_config_option(self, session_id: str, config_id: str, value: str | bool) -> bytes:
        """A boolean goes as `type: boolean`, a string as the id of a select's value. Event: CallDone."""
        self._session(session_id)
        params: dict[str, Any] = {"sessionId": session_id, "configId": config_id, "value": value}
        if isinstance(value, bool):
            params["type"] = "boolean"
        return self.call("session/set_config_option", params)

    def call(self, method: str, params: Mapping[str, Any] | None = None) -> bytes:
        """Any request, in any state (probes). Answers give the method's own event, CallDone otherwise, or PeerError."""
        fields: Mapping[str, Any] = params if params is not None else {}
        session_id = fields.get("sessionId")
        id = self._state.next_id
        session = self._state.sessions.get(session_id) if isinstance(session_id, str) else None
        version = fields.get("protocolVersion", PROTOCOL_VERSION)
        line = jsonrpc.request(id, method, params)
        self._state.next_id += 1
        self._state.pending[id] = Pending(
            id,
            method,
            session_id if isinstance(session_id, str) else None,
            session.turns if session else 0,
            version if isinstance(version, int) else PROTOCOL_VERSION,
        )
        if method == "session/prompt" and session is not None:
            session.running.append(id)
            session.turns += 1
        self.last_id = id
        return line

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> bytes:
        """Any notification, `$/cancel_request` of a request of ours included."""
        return jsonrpc.notification(method, params)

    def answer_permission(self, id: Id, decision: Decision) -> bytes:
        """What `decide` chose; b"" for the outcome `never` (the ask stays open) and for an id that is not open."""
        result = decision.result()
        return b"" if result is None else self.respond(id, result)

    def respond(self, id: Id, result: Any) -> bytes:
        """A result for an open request of the agent's; b"" where it is not open (any more)."""
        return self._state.respond(id, result)

    def respond_error(self, id: Id, code: int, message: str, data: Any = None) -> bytes:
        """An error for an open request of the agent's; b"" where it is not open (any more)."""
        return self._state.respond_error(id, code, message, data)

    # -- what comes in -----------------------------------------------------------------------------------------

    def receive(self, raw: bytes, seq: int, t_ns: int) -> list[Event]:
        """One line of the agent's stdout, without LF. Raises ProtocolViolation (see above), after noting why."""
        if len(raw) > self._max_message_bytes:
            self.note(
                f.MESSAGE_TOO_LARGE, f"a line of {len(raw)} bytes; at most {self._max_message_bytes} are parsed", seq
            )
            return []
        message = jsonrpc.decode(raw)
        for note in message.notes:
            self.note(note, f.DESCRIPTIONS[note], seq)
        stamp = Stamp(seq, t_ns, len(raw))
        match message:
            case jsonrpc.Request():
                return [incoming.on_request(self._state, message, stamp)]
            case jsonrpc.Notification():
                return incoming.on_notification(self._state, message, stamp)
            case jsonrpc.Response():
                return responses.on_response(self._state, message, stamp)
            case jsonrpc.Batch():
                self.note(f.BATCH, f"an array of {len(message.items)} items, not processed", seq)
            case jsonrpc.Invalid():
                self.note(message.reason, message.detail, seq)
        return []

    def note(self, finding: str, message: str, seq: int | None = None) -> None:
        """Records a finding that the client cannot see itself (oversize, unterminated)."""
        self._state.note(finding, message, seq)

    def finish(self) -> None:
        """The stream ended: records unanswered requests and tool calls that never became final. Call once."""
        self._state.finish()

    # -- what we know ------------------------------------------------------------------------------------------

    @property
    def capabilities(self) -> dict[str, Any]:
        return self._state.capabilities

    @property
    def initialized(self) -> Initialized | None:
        """The answer to initialize; None before."""
        return self._state.initialized

    @property
    def sessions(self) -> Mapping[str, SessionState]:
        """The sessions that an answer opened, by id."""
        return self._state.sessions

    @property
    def tool_calls(self) -> ToolCalls:
        return self._state.tool_calls

    @property
    def findings(self) -> FindingLog:
        return self._state.findings

    @property
    def open_requests(self) -> list[OpenRequest]:
        """Requests of the agent's that wait for our answer, oldest first."""
        waiting = [request for requests in self._state.open.values() for request in requests]
        return sorted(waiting, key=lambda request: request.seq)

    @property
    def owes_answer(self) -> bool:
        """Whether the agent waits for us."""
        return bool(self._state.open)

    @property
    def pending(self) -> list[Pending]:
        """Requests of ours that have no response, oldest first."""
        return list(self._state.pending.values())

    def _session(self, session_id: str) -> SessionState:
        session = self._state.sessions.get(session_id)
        if session is None:
            raise LocalProtocolError(f"session {session_id!r} is not open")
        return session
