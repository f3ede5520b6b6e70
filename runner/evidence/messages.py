"""A frame log decoded: JSON-RPC messages with who sent them, when, and which request each response answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from runner.wire import jsonrpc
from runner.wire.frames import Frame
from runner.wire.jsonrpc import Id

Party = Literal["client", "agent"]
Kind = Literal["request", "notification", "result", "error", "invalid"]

#: Which channel carries which party's messages; stderr carries none.
_SENDERS: dict[str, Party] = {"stdin": "client", "stdout": "agent"}


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Exchange:
    """A request and its response; None where none came."""

    request: Message
    response: Message | None

    @property
    def result(self) -> dict[str, Any] | None:
        """The result, None where there is none or it is an error."""
        return self.response.payload if self.response is not None and self.response.kind == "result" else None


@dataclass(frozen=True)
class Update:
    """One session/update: `kind` is its `sessionUpdate` ('' where it has none), `body` the update object."""

    message: Message
    session: str
    kind: str
    body: dict[str, Any]


def decode(frames: Iterable[Frame]) -> list[Message]:
    """Every stdin and stdout frame as a message, in the log's order. Never raises for what a frame holds."""
    messages: list[Message] = []
    #: (who asked, id) -> open requests, latest last: the two parties' ids are apart.
    waiting: dict[tuple[Party, Id], list[Message]] = {}
    for frame in frames:
        sender = _SENDERS.get(frame.channel)
        if sender is None:
            continue
        message = _message(frame, sender)
        if message.kind == "request":
            waiting.setdefault((sender, message.id), []).append(message)
        elif message.kind in ("result", "error"):
            requests = waiting.get(("agent" if sender == "client" else "client", message.id))
            if requests:
                request = requests.pop()
                message = replace(message, method=request.method, answers=request.seq)
        messages.append(message)
    return messages


def exchanges(messages: Sequence[Message], sender: Party, method: str | None = None) -> list[Exchange]:
    """The requests of `sender` (of one method), each with its response, in the order they were sent."""
    responses = {message.answers: message for message in messages if message.answers is not None}
    return [
        Exchange(message, responses.get(message.seq))
        for message in messages
        if message.kind == "request" and message.sender == sender and method in (None, message.method)
    ]


def updates(messages: Iterable[Message]) -> list[Update]:
    """The agent's session/update notifications in order."""
    found: list[Update] = []
    for message in messages:
        if message.sender == "agent" and message.kind == "notification" and message.method == "session/update":
            body = as_object(message.payload.get("update"))
            found.append(
                Update(
                    message=message,
                    session=as_text(message.payload.get("sessionId")) or "",
                    kind=as_text(body.get("sessionUpdate")) or "",
                    body=body,
                )
            )
    return found


def as_object(value: Any) -> dict[str, Any]:
    """The value if it is a JSON object, else {}."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """The value if it is a JSON array, else []."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def as_count(value: Any) -> int | None:
    """The value if it is an integer (true and false are not)."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _message(frame: Frame, sender: Party) -> Message:
    plain = Message(seq=frame.seq, t_ns=frame.t_ns, sender=sender, kind="invalid", length=frame.length)
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
