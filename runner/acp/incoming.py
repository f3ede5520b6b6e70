"""Requests and notifications of the agent: gate, check, record, and the event they become."""

from __future__ import annotations

from typing import Any, Final

from runner.acp import findings as f
from runner.acp import methods
from runner.acp.events import (
    ClientRequest,
    Event,
    Notified,
    PermissionRequest,
    Phase,
    Refused,
    RequestCancelled,
    SessionUpdate,
)
from runner.acp.findings import MAX_WORDS
from runner.acp.state import CANCELLED, OPENING, REOPENING, ConnectionState, OpenRequest, SessionState, Stamp
from runner.acp.toolcalls import Source
from runner.wire import jsonrpc

#: Kinds of session/update that tell of a tool call.
_SOURCES: Final[dict[str, Source]] = {"tool_call": "tool_call", "tool_call_update": "tool_call_update"}


def on_request(state: ConnectionState, message: jsonrpc.Request, stamp: Stamp) -> Event:
    """Gate, then params, then the event of the method."""
    _note_oddities(state, message, stamp.seq)
    method, params = message.method, message.params
    refusal = _refusal(state, method, params)
    if refusal is not None:
        return _refuse(state, message, refusal, stamp)
    session = _check_session(state, params.get("sessionId"), method, stamp.seq)
    request = OpenRequest(message.id, method, params.get("sessionId"), stamp.seq, stamp.t_ns)
    state.open.setdefault(message.id, []).append(request)
    if method == "session/request_permission":
        return _on_permission(state, request, params, session, stamp)
    return ClientRequest(
        seq=stamp.seq,
        t_ns=stamp.t_ns,
        id=message.id,
        method=method,
        session_id=request.session_id,
        params=params,
    )


def _note_oddities(state: ConnectionState, message: jsonrpc.Request, seq: int) -> None:
    if message.id is None:
        state.note(f.NULL_ID, f"{message.method} with the id null", seq)
    if message.id in state.open:
        state.note(f.DUPLICATE_REQUEST_ID, f"{message.method}: id {message.id!r} is open already", seq)
    if state.initialized is None:
        state.note(f.REQUEST_BEFORE_INITIALIZE, f"{message.method} before initialize was answered", seq)


def _refusal(state: ConnectionState, method: str, params: Any) -> tuple[int, str, str] | None:
    """Code, finding and words where the request is not to be served; None where it is."""
    if method not in methods.METHODS:
        finding = f.EXTENSION_REQUEST if method.startswith("_") else f.UNKNOWN_METHOD
        return jsonrpc.METHOD_NOT_FOUND, finding, f"no such method: {method}"
    path = methods.needed_capability(method, params)
    if path is not None and not methods.declared(state.capabilities, path):
        return jsonrpc.METHOD_NOT_FOUND, f.UNDECLARED_METHOD, f"{method} needs {path}, which was not declared"
    problem = methods.bad_param(method, params)
    return None if problem is None else (jsonrpc.INVALID_PARAMS, f.BAD_PARAMS, f"{method}: {problem}")


def _refuse(state: ConnectionState, message: jsonrpc.Request, refusal: tuple[int, str, str], stamp: Stamp) -> Refused:
    code, finding, words = refusal
    state.note(finding, words, stamp.seq)
    return Refused(
        seq=stamp.seq,
        t_ns=stamp.t_ns,
        reply=jsonrpc.error(message.id, code, words[:MAX_WORDS]),
        id=message.id,
        method=message.method,
        code=code,
        finding=finding,
    )


def _check_session(state: ConnectionState, session_id: Any, method: str, seq: int) -> SessionState | None:
    """The session named; noted where it is not open. Such a request is served: sub-agents may have ids of their own."""
    session = state.sessions.get(session_id) if isinstance(session_id, str) else None
    if session is None and session_id is not None:
        state.note(f.WRONG_SESSION, f"{method} names session {session_id!r}, which is not open", seq)
    return session


def _on_permission(
    state: ConnectionState, request: OpenRequest, params: dict[str, Any], session: SessionState | None, stamp: Stamp
) -> PermissionRequest:
    """After session/cancel the answer is `cancelled`, as the spec demands of every open ask."""
    call = params["toolCall"]
    state.observe("permission", params["sessionId"], call, stamp)
    if session is not None and not session.running:
        state.note(f.REQUEST_OUTSIDE_TURN, "session/request_permission while no prompt runs", stamp.seq)
    cancelled = session is not None and session.cancelling
    return PermissionRequest(
        seq=stamp.seq,
        t_ns=stamp.t_ns,
        reply=state.respond(request.id, CANCELLED) if cancelled else b"",
        id=request.id,
        session_id=params["sessionId"],
        tool_call_id=call["toolCallId"],
        params=params,
    )


def on_notification(state: ConnectionState, message: jsonrpc.Notification, stamp: Stamp) -> list[Event]:
    """session/update and $/cancel_request have events of their own; the rest is `Notified`."""
    method, params = message.method, message.params
    if method == "session/update":
        return _on_update(state, params, stamp)
    if method == "$/cancel_request":
        return [_on_cancel_request(state, params, stamp)]
    if method == "elicitation/complete":
        if not methods.declared(state.capabilities, "elicitation.url"):
            state.note(f.UNDECLARED_METHOD, f"{method} needs elicitation.url, which was not declared", stamp.seq)
    elif not method.startswith(("_", "$/")):
        state.note(f.UNKNOWN_NOTIFICATION, f"no such notification: {method}", stamp.seq)
    return [Notified(seq=stamp.seq, t_ns=stamp.t_ns, method=method, params=params)]


def _on_update(state: ConnectionState, params: Any, stamp: Stamp) -> list[Event]:
    fields = params if isinstance(params, dict) else {}
    session_id, update = fields.get("sessionId"), fields.get("update")
    kind = update.get("sessionUpdate") if isinstance(update, dict) else None
    if not isinstance(session_id, str) or not isinstance(update, dict) or not isinstance(kind, str):
        state.note(f.BAD_PARAMS, "session/update without sessionId, update or sessionUpdate", stamp.seq)
        return []
    phase = _phase(state, session_id, kind, stamp.seq)
    capability = methods.UPDATES.get(kind)
    if capability is not None and not methods.declared(state.capabilities, capability):
        state.note(f.UNDECLARED_UPDATE, f"{kind} needs {capability}, which was not declared", stamp.seq)
    source = _SOURCES.get(kind)
    if source is not None and not _replays(state, session_id):
        state.observe(source, session_id, update, stamp)
    session = state.sessions.get(session_id)
    return [
        SessionUpdate(
            seq=stamp.seq,
            t_ns=stamp.t_ns,
            session_id=session_id,
            kind=kind,
            params=fields,
            update=update,
            phase=phase,
            turn=session.turn if session else None,
        )
    ]


def _replays(state: ConnectionState, session_id: str) -> bool:
    """Whether an update of this session tells the past again, as session/load demands."""
    pending = state.pending.values()
    return any(request.session_id == session_id for request in pending if request.method in REOPENING)


def _phase(state: ConnectionState, session_id: str, kind: str, seq: int) -> Phase:
    """The update's phase; noted where it is out of order."""
    opening = [pending for pending in state.pending.values() if pending.method in OPENING]
    if _replays(state, session_id):
        return "early"
    session = state.sessions.get(session_id)
    if session is not None:
        if session.phase == "late" and kind in methods.TURN_KINDS:
            state.note(f.LATE_UPDATE, f"{kind} after the prompt's response", seq)
        return session.phase
    if opening:
        state.note(f.EARLY_UPDATE, f"{kind} before the session's answer", seq)
        state.remember_early(session_id, seq)
        return "early"
    state.note(f.WRONG_SESSION, f"{kind} names session {session_id!r}, which is not open", seq)
    return "stray"


def _on_cancel_request(state: ConnectionState, params: Any, stamp: Stamp) -> Event:
    """The request it names gets -32800: the agent is owed an answer all the same."""
    id = params.get("requestId") if isinstance(params, dict) else None
    if isinstance(id, dict | list | bool) or id not in state.open:
        state.note(f.CANCEL_UNKNOWN_REQUEST, f"$/cancel_request names {id!r}, which is not open", stamp.seq)
        return Notified(seq=stamp.seq, t_ns=stamp.t_ns, method="$/cancel_request", params=params)
    method = state.open[id][0].method
    reply = state.respond_error(id, jsonrpc.REQUEST_CANCELLED, "cancelled by $/cancel_request")
    return RequestCancelled(seq=stamp.seq, t_ns=stamp.t_ns, reply=reply, id=id, method=method)
