"""What the agent asked leave for: session/request_permission with what was offered, answered, and how long the agent
waited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from runner.evidence.conversation import Conversation, computed_once
from runner.evidence.intervals import ms
from runner.evidence.messages import Exchange
from runner.evidence.toolcalls import command_of, kind_of
from runner.wire.values import as_list, as_object, as_text


@dataclass(frozen=True)
class Option:
    """One offered answer; policies and we go by `kind`, ids are the agent's own."""

    id: str
    kind: str
    name: str


@dataclass(frozen=True)
class Ask:
    """One permission request.

    `kind` and `title` are the request's own, else those last known of its tool call; kind `other` where nobody said
    one (the protocol's default). `answer` is the kind of the option we chose, `cancelled`, `error`, or None where it
    was never answered.
    """

    seq: int
    tool_call: str
    kind: str
    title: str
    command: str | None
    options: tuple[Option, ...]
    answer: str | None
    option: str | None
    answered_seq: int | None
    wait_ms: float | None


@computed_once
def asks(conversation: Conversation) -> list[Ask]:
    """The permission requests of a run in order."""
    known = conversation.tool_calls
    found: list[Ask] = []
    for exchange in conversation.requests("agent", "session/request_permission"):
        request = exchange.request
        call = as_object(request.payload.get("toolCall"))
        identity = as_text(call.get("toolCallId")) or ""
        state = known.get(identity)
        options = tuple(
            Option(as_text(o.get("optionId")) or "", as_text(o.get("kind")) or "", as_text(o.get("name")) or "")
            for o in map(as_object, as_list(request.payload.get("options")))
        )
        chosen, answer = _answer(exchange, options)
        found.append(
            Ask(
                seq=request.seq,
                tool_call=identity,
                kind=as_text(call.get("kind")) or kind_of(state),
                title=as_text(call.get("title")) or (state.title if state else None) or "",
                command=as_text(as_object(call.get("rawInput")).get("command")) or command_of(state),
                options=options,
                answer=answer,
                option=chosen,
                answered_seq=exchange.response.seq if exchange.response else None,
                wait_ms=ms(request.t_ns, exchange.response.t_ns) if exchange.response else None,
            )
        )
    return found


def by_kind(requests: Iterable[Ask]) -> dict[str, int]:
    """Requests by the tool kind they are about."""
    return dict(Counter(ask.kind for ask in requests))


def _answer(exchange: Exchange, options: tuple[Option, ...]) -> tuple[str | None, str | None]:
    """(option id, answer) of a request; an id that was never offered is answer `not-offered`."""
    if exchange.response is None:
        return None, None
    if exchange.result is None:
        return None, "error"
    outcome = as_object(exchange.result.get("outcome"))
    if outcome.get("outcome") == "cancelled":
        return None, "cancelled"
    chosen = as_text(outcome.get("optionId"))
    return chosen, next((option.kind for option in options if option.id == chosen), "not-offered")
