"""The conversation of one run: its messages with the indexes that metrics, findings and the study's rules ask.

Each index is built once, when it is first asked for. `Message`s are shared with the indexes, never copied, so that an
index costs memory by the number of messages alone; how many are held is bounded where they are decoded.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, wraps
from typing import Any, NamedTuple, TypeVar, overload

from runner.acp.toolcalls import Source, ToolCall, ToolCalls
from runner.evidence.messages import Exchange, Message, Messages, Party, Update, decode
from runner.wire.frames import Frame
from runner.wire.values import as_object, as_text

_Figure = TypeVar("_Figure")

#: Updates that tell of a tool call, as the state of a call names its sources.
_SOURCES: dict[str, Source] = {"tool_call": "tool_call", "tool_call_update": "tool_call_update"}


class Sighting(NamedTuple):
    """A message that tells of a tool call: an update, or a permission request. `body` is the call's part of it."""

    message: Message
    source: Source
    body: dict[str, Any]


class Conversation(Sequence[Message]):
    """The messages of one run in the log's order; `left_out`: how many more the log has than are held."""

    def __init__(self, messages: Iterable[Message] = (), left_out: int = 0) -> None:
        self._messages = tuple(messages)
        self.left_out = left_out
        self._figures: dict[Callable[..., Any], Any] = {}

    @classmethod
    def of(cls, frames: Iterable[Frame], *, as_kept: bool = False) -> Conversation:
        """The conversation in a frame log; `as_kept`: see `runner.evidence.messages.decode`."""
        messages: Messages = decode(frames, as_kept=as_kept)
        return cls(messages, messages.left_out)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        return self._messages[index]

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    def message(self, seq: int) -> Message | None:
        """The message of that frame, None where the frame is none or was left out."""
        place = bisect_left(self._messages, seq, key=_seq)
        return self._messages[place] if place < len(self) and self._messages[place].seq == seq else None

    def between(self, after: int, before: int) -> Conversation:
        """What was said between two frames, these left out."""
        start = bisect_right(self._messages, after, key=_seq)
        return Conversation(self._messages[start : bisect_left(self._messages, before, key=_seq)])

    def requests(self, sender: Party, method: str | None = None) -> Sequence[Exchange]:
        """The requests of `sender` (of one method), each with its response, in the order they were sent."""
        return self._requests.get((sender, method), ())

    def first(self, sender: Party, method: str) -> Exchange | None:
        """The first request of that method."""
        return next(iter(self.requests(sender, method)), None)

    @cached_property
    def updates(self) -> Sequence[Update]:
        """The agent's session/update notifications."""
        return tuple(_updates(self._messages))

    @cached_property
    def cancels(self) -> Sequence[Message]:
        """The client's session/cancel notifications."""
        return tuple(
            message
            for message in self._messages
            if message.sender == "client" and message.method == "session/cancel" and message.kind == "notification"
        )

    @cached_property
    def sightings(self) -> Sequence[Sighting]:
        """Everything that tells of a tool call."""
        told = [
            Sighting(update.message, source, update.body)
            for update in self.updates
            if (source := _SOURCES.get(update.kind)) is not None
        ]
        asked = [
            Sighting(ask.request, "permission", as_object(ask.request.payload.get("toolCall")))
            for ask in self.requests("agent", "session/request_permission")
        ]
        return tuple(sorted([*told, *asked], key=lambda sighting: sighting.message.seq))

    @cached_property
    def tool_calls(self) -> dict[str, ToolCall]:
        """The distinct toolCallIds over tool_call, tool_call_update and permission requests, in the order they first
        appear.
        """
        state = ToolCalls()
        for message, source, body in self.sightings:
            session = as_text(message.payload.get("sessionId")) or ""
            state.observe(source, session, body, message.seq, size=message.length)
        return state.calls

    @cached_property
    def _requests(self) -> dict[tuple[Party, str | None], list[Exchange]]:
        responses = {message.answers: message for message in self._messages if message.answers is not None}
        indexed: dict[tuple[Party, str | None], list[Exchange]] = {}
        for message in self._messages:
            if message.kind == "request":
                exchange = Exchange(message, responses.get(message.seq))
                indexed.setdefault((message.sender, message.method), []).append(exchange)
                indexed.setdefault((message.sender, None), []).append(exchange)
        return indexed

    def figure(self, compute: Callable[[Conversation], _Figure]) -> _Figure:
        """What `compute` makes of this conversation, computed once."""
        if compute not in self._figures:
            self._figures[compute] = compute(self)
        figure: _Figure = self._figures[compute]
        return figure


def computed_once(compute: Callable[[Conversation], _Figure]) -> Callable[[Conversation], _Figure]:
    """For a function of a conversation that several metrics ask for: its value is kept with the conversation."""

    @wraps(compute)
    def kept(conversation: Conversation) -> _Figure:
        return conversation.figure(compute)

    return kept


def _seq(message: Message) -> int:
    return message.seq


def _updates(messages: Iterable[Message]) -> Iterator[Update]:
    for message in messages:
        if message.sender == "agent" and message.kind == "notification" and message.method == "session/update":
            body = as_object(message.payload.get("update"))
            yield Update(
                message=message,
                session=as_text(message.payload.get("sessionId")) or "",
                kind=as_text(body.get("sessionUpdate")) or "",
                body=body,
            )
