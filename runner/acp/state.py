"""What one ACP connection knows: sessions, open requests on both sides, tool calls, findings. No behaviour of its own.

`Client` is the door to it; `incoming` and `responses` change it when a line comes in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from runner.acp import findings as f
from runner.acp.events import Initialized, Phase
from runner.acp.findings import FindingLog
from runner.acp.toolcalls import Source, ToolCalls
from runner.errors import ProtocolViolation
from runner.wire import jsonrpc
from runner.wire.jsonrpc import Id

PROTOCOL_VERSION: Final = 1

#: Requests of ours whose result opens a session, and those of them that name it themselves.
OPENING: Final = frozenset({"session/new", "session/load", "session/resume", "session/fork"})
REOPENING: Final = frozenset({"session/load", "session/resume"})

#: The result of an ask that is over.
CANCELLED: Final[dict[str, Any]] = {"outcome": {"outcome": "cancelled"}}

#: Sessions remembered that nobody opened (yet), and the longest id among them.
_MAX_EARLY: Final = 1000
_MAX_ID: Final = 1000


@dataclass(slots=True)
class SessionState:
    """One session as the client knows it."""

    id: str
    #: Ids of the prompts that have no response yet (agents may queue), oldest first.
    running: list[Id] = field(default_factory=list)
    #: Prompts sent so far.
    turns: int = 0
    #: session/cancel was sent while a prompt ran; until no prompt runs.
    cancelling: bool = False

    @property
    def phase(self) -> Phase:
        if self.running:
            return "turn"
        return "late" if self.turns else "idle"

    @property
    def turn(self) -> int | None:
        """The turn an update belongs to: the oldest that runs, else the last that ran; None before the first."""
        return self.turns - max(len(self.running), 1) if self.turns else None


@dataclass(frozen=True, slots=True)
class Pending:
    """A request of ours without a response. `turn` counts a session's prompts from 0."""

    id: Id
    method: str
    session_id: str | None
    turn: int = 0
    version: int = PROTOCOL_VERSION


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """A request of the agent's that we have not answered. `t_ns`: when it came."""

    id: Id
    method: str
    session_id: str | None
    seq: int
    t_ns: int


@dataclass(frozen=True, slots=True)
class Stamp:
    """Where an event comes from; `size` is the frame's bytes."""

    seq: int
    t_ns: int
    size: int


class ConnectionState:
    """The state of one connection."""

    def __init__(self, capabilities: Mapping[str, Any]) -> None:
        self.capabilities: dict[str, Any] = dict(capabilities)
        self.findings = FindingLog()
        self.tool_calls = ToolCalls()
        #: Sessions that an answer opened, by id.
        self.sessions: dict[str, SessionState] = {}
        self.initialized: Initialized | None = None
        #: terminalIds we gave out (the results of terminal/create).
        self.terminals: set[str] = set()
        self.next_id = 0
        self.pending: dict[Id, Pending] = {}
        self.open: dict[Id, list[OpenRequest]] = {}
        #: Sessions named by updates that came before the answer that opens them -> first seq.
        self.early: dict[str, int] = {}

    def note(self, finding: str, message: str, seq: int | None = None) -> None:
        self.findings.add(finding, message, seq)

    def violation(self, finding: str, words: str, seq: int) -> ProtocolViolation:
        """Notes it and gives the error to raise."""
        self.note(finding, words, seq)
        return ProtocolViolation(words)

    def observe(self, source: Source, session_id: str, fields: Mapping[str, Any], stamp: Stamp) -> None:
        """Takes one sighting of a tool call in."""
        calls = self.tool_calls
        found = calls.observe(source, session_id, fields, stamp.seq, size=stamp.size, terminals=self.terminals)
        self.findings.extend(found)

    def remember_early(self, session_id: str, seq: int) -> None:
        if len(self.early) < _MAX_EARLY and len(session_id) <= _MAX_ID:
            self.early.setdefault(session_id, seq)

    def take(self, id: Id) -> OpenRequest | None:
        """Closes the oldest open request with this id; None where none is open."""
        requests = self.open.get(id)
        if not requests:
            return None
        request = requests.pop(0)
        if not requests:
            del self.open[id]
        return request

    def respond(self, id: Id, result: Any) -> bytes:
        """The line that answers the oldest open request with this id, in the id's own form; b"" where none is open."""
        request = self.take(id)
        if request is None:
            return b""
        if request.method == "terminal/create" and isinstance(result, dict):
            self.terminals.add(str(result.get("terminalId")))
        return jsonrpc.result(request.id, result)

    def respond_error(self, id: Id, code: int, message: str, data: Any = None) -> bytes:
        request = self.take(id)
        return b"" if request is None else jsonrpc.error(request.id, code, message, data)

    def finish(self) -> None:
        """Records what only the end of the stream can tell."""
        for pending in self.pending.values():
            self.note(f.UNANSWERED_REQUEST, f"{pending.method} (id {pending.id}) has no response")
        for session_id, seq in self.early.items():
            self.note(f.WRONG_SESSION, f"updates for session {session_id!r}, which was never opened", seq)
        self.early.clear()
        self.findings.extend(self.tool_calls.finish())
