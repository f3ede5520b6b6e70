"""What `Client.receive` reports. Every event carries the frame it came from and, where one is due, a line to send.

`reply` is a complete line (LF included) or empty. A driver sends it as it is; the request is then closed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from runner.wire.jsonrpc import Id

#: Where an update falls. early: before the response that opens its session; idle: after it, before the first prompt;
#: turn: while a prompt runs; late: after a prompt's response, none running; stray: no such session.
Phase = Literal["early", "idle", "turn", "late", "stray"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """`seq` and `t_ns` (CLOCK_MONOTONIC) of the frame."""

    seq: int
    t_ns: int
    reply: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Initialized(Event):
    """initialize was answered with our version."""

    id: Id
    version: int
    result: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCreated(Event):
    """session/new, load, resume or fork (`method`) was answered; the session can be prompted."""

    id: Id
    method: str
    session_id: str
    result: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptDone(Event):
    """A turn ended. `turn` counts the session's prompts from 0; `stop_reason` is None where the result has none."""

    id: Id
    session_id: str
    turn: int
    stop_reason: str | None
    result: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDone(Event):
    """Any other request of ours succeeded (set_mode, set_config_option, `call`). `result` is as received."""

    id: Id
    method: str
    session_id: str | None
    result: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerError(Event):
    """A request of ours failed (`method`), or an error without id came (`method` None). Never fatal by itself.

    `code` is None where the error has no numeric code; `error` is as received.
    """

    id: Id
    method: str | None
    session_id: str | None
    code: int | None
    message: str
    error: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionUpdate(Event):
    """session/update. `update` is params.update; `turn` is the turn it is attributed to, None before the first."""

    session_id: str
    kind: str
    params: dict[str, Any]
    update: dict[str, Any]
    phase: Phase
    turn: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionRequest(Event):
    """session/request_permission, params checked: `toolCall.toolCallId` and `options[].optionId / kind` are strings.

    `reply` is set where the turn was cancelled already: the answer is `cancelled` and nothing is left to decide.
    """

    id: Id
    session_id: str
    tool_call_id: str
    params: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRequest(Event):
    """fs/*, terminal/* or elicitation/create that passed the capability gate and whose params have the needed types."""

    id: Id
    method: str
    session_id: str | None
    params: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(Event):
    """A request that `reply` refuses: -32601 (undeclared, unknown) or -32602 (params). `finding` says which."""

    id: Id
    method: str
    code: int
    finding: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCancelled(Event):
    """$/cancel_request for an open request of the agent's; `reply` answers that request with -32800."""

    id: Id
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Notified(Event):
    """Any other notification (extensions, elicitation/complete), recorded only."""

    method: str
    params: Any
