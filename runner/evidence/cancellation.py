"""What became of a turn that was cancelled: what it was at, how it ended, how long that took."""

from __future__ import annotations

import math
from dataclasses import dataclass

from runner.acp.methods import TURN_KINDS
from runner.evidence.conversation import Conversation, computed_once
from runner.evidence.intervals import ms
from runner.evidence.messages import Message
from runner.wire.values import as_object, as_text

#: Kinds of session/update that are the model's words.
_TEXT = frozenset({"agent_message_chunk", "agent_thought_chunk"})


@dataclass(frozen=True)
class Cancellation:
    """One session/cancel while a prompt ran.

    `during`: what was under way when it was sent, the first of `terminal` (the agent waited for a command in a
    terminal of the client's), `ask` (for leave), `tool` (a tool call was not final), `text`, `start` (nothing of the
    turn had come), `turn` (none of these).
    `asks`: open asks that were answered `cancelled`.
    `stop`: the stop reason, `error`, or None where the prompt was never answered.
    `to_stop_ms`: from the cancel to the prompt's response. `updates_after`: updates between the two.
    """

    seq: int
    during: str
    asks: int
    stop: str | None
    to_stop_ms: float | None
    updates_after: int


@computed_once
def cancellations(conversation: Conversation) -> list[Cancellation]:
    """The cancels of a run in order; one that no running prompt belongs to is left out."""
    found: list[Cancellation] = []
    for cancel in conversation.cancels:
        for turn in conversation.requests("client", "session/prompt"):
            answered = turn.response.seq if turn.response is not None else None
            if turn.request.seq < cancel.seq and (answered is None or answered > cancel.seq):
                found.append(_cancellation(conversation, cancel, turn.request, turn.response))
    return found


def _cancellation(conversation: Conversation, cancel: Message, prompt: Message, answer: Message | None) -> Cancellation:
    open_asks = [
        request
        for request in conversation.requests("agent")
        if request.request.seq < cancel.seq and (request.response is None or request.response.seq > cancel.seq)
    ]
    asks = [ask for ask in open_asks if ask.request.method == "session/request_permission"]
    waits = any(ask.request.method == "terminal/wait_for_exit" for ask in open_asks)
    before = conversation.between(prompt.seq, cancel.seq)
    calling = any(not call.final for call in before.tool_calls.values())
    kinds = [update.kind for update in before.updates if update.kind in TURN_KINDS]
    words = bool(kinds) and kinds[-1] in _TEXT
    moments = (("terminal", waits), ("ask", bool(asks)), ("tool", calling), ("text", words), ("start", not kinds))
    until = answer.seq if answer is not None else math.inf
    outcomes = [as_object((ask.result or {}).get("outcome")).get("outcome") for ask in asks]
    return Cancellation(
        seq=cancel.seq,
        during=next((name for name, true in moments if true), "turn"),
        asks=outcomes.count("cancelled"),
        stop=None
        if answer is None
        else "error"
        if answer.kind == "error"
        else as_text(answer.payload.get("stopReason")),
        to_stop_ms=ms(cancel.t_ns, answer.t_ns) if answer is not None else None,
        updates_after=sum(cancel.seq < update.message.seq < until for update in conversation.updates),
    )
