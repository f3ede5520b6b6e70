"""A frame log decoded: JSON-RPC messages with who sent them, when, and which request each response answers.

An agent may print millions of messages: what is held of them in memory is bounded, and what is left out is counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from runner.text.encoding import may_hold_surrogate, written_out
from runner.wire import jsonrpc
from runner.wire.frames import Frame
from runner.wire.jsonrpc import MAX_MESSAGE_BYTES, Id
from runner.wire.values import as_object, as_text

Party = Literal["client", "agent"]
Kind = Literal["request", "notification", "result", "error", "invalid"]

#: Which channel carries which party's messages; stderr carries none.
_SENDERS: dict[str, Party] = {"stdin": "client", "stdout": "agent"}
#: Updates that come in pieces. Of a piece its kind, session and message are held, not its text: no evidence reads that.
CHUNKS: Final = frozenset({"agent_message_chunk", "agent_thought_chunk", "user_message_chunk"})

#: What is held of one run, bytes: some 160,000 pieces of text, or 40,000 small messages of other kinds.
_HELD_BYTES: Final = 48_000_000
#: A message by itself; what its payload takes beyond the bytes of its frame.
_MESSAGE_BYTES: Final = 300
_PAYLOAD_BYTES: Final = 900
#: Shared by all that have none.
_EMPTY: Final[dict[str, Any]] = {}
#: Distinct payloads of pieces that are shared.
_SHARED: Final = 10_000


@dataclass(frozen=True, slots=True)
class Message:
    """One frame of the conversation.

    `payload`: params of a request or notification, the result, the error object; {} where it is no JSON object, and
    for `invalid` (not JSON, a batch, no JSON-RPC shape). `method` of a response is its request's, `answers` the
    request's seq; both None for a response to nothing.
    """

    seq: int
    t_ns: int
    sender: Party
    kind: Kind
    length: int
    id: Id = None
    method: str | None = None
    payload: dict[str, Any] = field(default_factory=dict)
    answers: int | None = None


class Messages(list[Message]):
    """Messages in the log's order; `left_out`: how many more the log has than are held."""

    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its response; None where none came."""

    request: Message
    response: Message | None

    @property
    def result(self) -> dict[str, Any] | None:
        """The result, None where there is none or it is an error."""
        return self.response.payload if self.response is not None and self.response.kind == "result" else None


@dataclass(frozen=True, slots=True)
class Update:
    """One session/update: `kind` is its `sessionUpdate` ('' where it has none), `body` the update object."""

    message: Message
    session: str
    kind: str
    body: dict[str, Any]


def decode(
    frames: Iterable[Frame], *, held_bytes: int = _HELD_BYTES, whole: bool = False, as_kept: bool = False
) -> Messages:
    """Every stdin and stdout frame as a message, in the log's order. Never raises for what a frame holds.

    What goes beyond `held_bytes` is left out; responses to requests that are held never are. `whole`: everything is
    held, the text of pieces too. `as_kept`: text that is no Unicode as records have it (`runner.text.encoding`), for
    whoever holds messages against a record that was read.
    """
    messages = Messages()
    pieces = _Pieces()
    #: (who asked, id) -> open requests, latest last: the two parties' ids are apart.
    waiting: dict[tuple[Party, Id], list[Message]] = {}
    for frame in frames:
        sender = _SENDERS.get(frame.channel)
        if sender is None:
            continue
        message = _message(frame, sender)
        if as_kept and message.payload and may_hold_surrogate(frame.raw):
            message = replace(message, payload=written_out(message.payload))
        if not whole:
            message = pieces.slim(message)
        if message.kind in ("result", "error"):
            requests = waiting.get(("agent" if sender == "client" else "client", message.id))
            if requests:
                request = requests.pop()
                message = replace(message, method=request.method, answers=request.seq)
        held_bytes -= _MESSAGE_BYTES
        if message.payload and not pieces.shared(message):
            held_bytes -= _PAYLOAD_BYTES + message.length
        if held_bytes < 0 and message.answers is None and not whole:
            messages.left_out += 1
            continue
        if message.kind == "request":
            waiting.setdefault((sender, message.id), []).append(message)
        messages.append(message)
    return messages


class _Pieces:
    """Payloads of the pieces of one message, which differ in their text alone: one for all of them."""

    def __init__(self) -> None:
        self._payloads: dict[tuple[str, str, str | None], dict[str, Any]] = {}

    def slim(self, message: Message) -> Message:
        """The message, without the text where it is a piece."""
        key = _piece(message)
        if key is None or (key not in self._payloads and len(self._payloads) >= _SHARED):
            return message
        session, kind, identity = key
        named = {} if identity is None else {"messageId": identity}
        payload = {"sessionId": session, "update": {"sessionUpdate": kind, **named}}
        return replace(message, payload=self._payloads.setdefault(key, payload))

    def shared(self, message: Message) -> bool:
        key = _piece(message)
        return key is not None and self._payloads.get(key) is message.payload


def _piece(message: Message) -> tuple[str, str, str | None] | None:
    """(session, kind, message) of a piece of text; None for every other message."""
    if message.method != "session/update" or message.kind != "notification":
        return None
    session, update = as_text(message.payload.get("sessionId")), as_object(message.payload.get("update"))
    kind = as_text(update.get("sessionUpdate"))
    if session is None or kind not in CHUNKS:
        return None
    return session, kind, as_text(update.get("messageId"))


def _message(frame: Frame, sender: Party) -> Message:
    # What the client does not parse counts for no more here: a line of that size is no message.
    plain = Message(frame.seq, frame.t_ns, sender, "invalid", frame.length, payload=_EMPTY)
    if frame.length > MAX_MESSAGE_BYTES:
        return plain
    match jsonrpc.decode(frame.raw):
        case jsonrpc.Request(id=identity, method=method, params=params):
            return replace(plain, kind="request", id=identity, method=method, payload=as_object(params))
        case jsonrpc.Notification(method=method, params=params):
            return replace(plain, kind="notification", method=method, payload=as_object(params))
        case jsonrpc.Response(id=identity, failed=True, error=error):
            return replace(plain, kind="error", id=identity, payload=as_object(error))
        case jsonrpc.Response(id=identity, result=result):
            return replace(plain, kind="result", id=identity, payload=as_object(result))
        case _:
            return plain
