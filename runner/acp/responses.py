"""Responses of the agent to requests of ours: match, check, record, and the event they become."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from runner.acp import findings as f
from runner.acp.events import CallDone, Event, Initialized, PeerError, PromptDone, SessionCreated
from runner.acp.state import OPENING, REOPENING, ConnectionState, Pending, SessionState, Stamp
from runner.wire import jsonrpc


def on_response(state: ConnectionState, message: jsonrpc.Response, stamp: Stamp) -> list[Event]:
    """Raises ProtocolViolation where going on is meaningless (see `Client`)."""
    pending = state.pending.pop(message.id, None)
    if pending is None:
        return _on_unknown(state, message, stamp)
    if pending.method == "session/prompt":
        _end_turn(state, pending, message, stamp.seq)
    if message.failed:
        return [_on_error(state, pending, message, stamp)]
    handler = _RESULTS.get(pending.method, _on_result)
    return [handler(state, pending, message.result, stamp)]


def _on_unknown(state: ConnectionState, message: jsonrpc.Response, stamp: Stamp) -> list[Event]:
    """An error with the id null is how peers say that they could not read a line of ours."""
    id = message.id
    if id is None and message.failed:
        state.note(f.ERROR_WITHOUT_ID, _error_words(message.error), stamp.seq)
        return [_peer_error(None, message, stamp)]
    ours = isinstance(id, int | float) and id in range(state.next_id)
    finding = f.DUPLICATE_RESPONSE if ours else f.UNKNOWN_RESPONSE_ID
    state.note(finding, f"response with the id {id!r}", stamp.seq)
    return []


def _on_error(state: ConnectionState, pending: Pending, message: jsonrpc.Response, stamp: Stamp) -> Event:
    if pending.method == "initialize":
        words = f"initialize was answered with an error: {_error_words(message.error)}"
        raise state.violation(f.BAD_RESULT, words, stamp.seq)
    return _peer_error(pending, message, stamp)


def _peer_error(pending: Pending | None, message: jsonrpc.Response, stamp: Stamp) -> PeerError:
    return PeerError(
        seq=stamp.seq,
        t_ns=stamp.t_ns,
        id=pending.id if pending else message.id,
        method=pending.method if pending else None,
        session_id=pending.session_id if pending else None,
        code=jsonrpc.error_code(message.error),
        message=_error_words(message.error),
        error=message.error,
    )


def _on_initialized(state: ConnectionState, pending: Pending, result: Any, stamp: Stamp) -> Event:
    """The version must be ours, as a JSON number."""
    if not isinstance(result, dict):
        raise state.violation(f.BAD_RESULT, "initialize was answered without a result object", stamp.seq)
    version = result.get("protocolVersion")
    if not _is_version(version, pending.version):
        words = f"agent answers protocolVersion {version!r}, we speak {pending.version}"
        raise state.violation(f.VERSION_MISMATCH, words, stamp.seq)
    state.initialized = Initialized(
        seq=stamp.seq, t_ns=stamp.t_ns, id=pending.id, version=pending.version, result=result
    )
    return state.initialized


def _on_session(state: ConnectionState, pending: Pending, result: Any, stamp: Stamp) -> Event:
    """session/new and fork answer with the id; load and resume have it in the request and may answer null."""
    fields = result if isinstance(result, dict) else {}
    session_id = pending.session_id if pending.method in REOPENING else fields.get("sessionId")
    if not isinstance(session_id, str):
        raise state.violation(f.BAD_RESULT, f"{pending.method} was answered without a sessionId", stamp.seq)
    state.sessions.setdefault(session_id, SessionState(session_id))
    state.early.pop(session_id, None)
    return SessionCreated(
        seq=stamp.seq,
        t_ns=stamp.t_ns,
        id=pending.id,
        method=pending.method,
        session_id=session_id,
        result=fields,
    )


def _on_prompt(state: ConnectionState, pending: Pending, result: Any, stamp: Stamp) -> Event:
    stop = _stop_reason(result)
    if stop is None:
        state.note(f.BAD_RESULT, "session/prompt was answered without a stopReason", stamp.seq)
    return PromptDone(
        seq=stamp.seq,
        t_ns=stamp.t_ns,
        id=pending.id,
        session_id=pending.session_id or "",
        turn=pending.turn,
        stop_reason=stop,
        result=result if isinstance(result, dict) else {},
    )


def _on_result(state: ConnectionState, pending: Pending, result: Any, stamp: Stamp) -> Event:
    return CallDone(
        seq=stamp.seq,
        t_ns=stamp.t_ns,
        id=pending.id,
        method=pending.method,
        session_id=pending.session_id,
        result=result,
    )


#: Method of ours -> what its result becomes; `_on_result` for the rest.
_RESULTS: Final[dict[str, Callable[[ConnectionState, Pending, Any, Stamp], Event]]] = {
    "initialize": _on_initialized,
    "session/prompt": _on_prompt,
    **dict.fromkeys(OPENING, _on_session),
}


def _end_turn(state: ConnectionState, pending: Pending, message: jsonrpc.Response, seq: int) -> None:
    """Closes the turn and checks what cancellation demands (never an error, stopReason cancelled)."""
    session = state.sessions.get(pending.session_id or "")
    cancelling = session is not None and session.cancelling
    if session is not None:
        session.running = [id for id in session.running if id != pending.id]
        session.cancelling = cancelling and bool(session.running)
    stop = _stop_reason(message.result)
    if cancelling and message.failed:
        state.note(f.CANCEL_ANSWERED_WITH_ERROR, _error_words(message.error), seq)
    elif cancelling and stop is not None and stop != "cancelled":
        state.note(f.CANCEL_NOT_HONOURED, f"stopReason {stop} after session/cancel", seq)
    elif stop == "cancelled" and not cancelling:
        state.note(f.CANCELLED_UNASKED, "stopReason cancelled without session/cancel", seq)


def _is_version(value: Any, wanted: int) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == wanted


def _stop_reason(result: Any) -> str | None:
    stop = result.get("stopReason") if isinstance(result, dict) else None
    return stop if isinstance(stop, str) else None


def _error_words(error: Any) -> str:
    """`-32602: Invalid params`, shortened; whatever there is where the error is malformed."""
    if not isinstance(error, dict):
        return repr(error)[:200]
    return f"{error.get('code')}: {error.get('message')}"[:200]
