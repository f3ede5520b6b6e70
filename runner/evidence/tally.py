"""What crossed the wire, counted: methods per direction, update kinds, late updates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from runner.acp.methods import TURN_KINDS
from runner.evidence.conversation import Conversation, computed_once
from runner.evidence.messages import CHUNKS, Message, Party, Update
from runner.wire.values import as_text

#: Kinds that are coalesced.
_PIECES = CHUNKS | {"tool_call_update"}
#: Updates after which the next piece without a messageId starts a new message. Usage, titles, modes and announcements
#: are left out: agents send them beside the text, at any moment.
_BREAKS = CHUNKS | {"tool_call", "tool_call_update", "plan", "plan_update"}
#: Client requests during which turn updates may arrive.
_CARRIERS = frozenset({"session/prompt", "session/load"})


@dataclass(frozen=True)
class Tally:
    """Counts of one run. Responses stand as `<result>` and `<error>`, what is no message as `<invalid>`."""

    client: dict[str, int]
    agent: dict[str, int]
    #: By `sessionUpdate`; the pieces of one message count as one, and so do the refinements of a call with its next
    #: status.
    updates: dict[str, int]
    #: The same kinds, every piece counted: information, since the size of the pieces is the model's and the
    #: transport's, and an agent may race with itself over the details of a call (seen: the same call is refined once or
    #: twice before its ask, depending on which of two paths announces it).
    chunks: dict[str, int]
    #: Updates after the last prompt's response: information. Whether they still come depends on how soon we hang up.
    late_updates: int

    @property
    def frames(self) -> int:
        return sum(self.client.values()) + sum(self.agent.values())


@computed_once
def tally(conversation: Conversation) -> Tally:
    """Counts the messages of one run."""
    counted: dict[Party, Counter[str]] = {"client": Counter(), "agent": Counter()}
    for message in conversation:
        counted[message.sender][_label(message)] += 1
    news = conversation.updates
    until = _last_answer(conversation)
    in_time = [update for update in news if until is None or update.message.seq < until]
    return Tally(
        client=dict(counted["client"]),
        agent=dict(counted["agent"]),
        updates=dict(_coalesced(in_time, _prompts(conversation))),
        chunks=dict(Counter(update.kind for update in in_time if update.kind in _PIECES)),
        late_updates=len(news) - len(in_time),
    )


def _last_answer(conversation: Conversation) -> int | None:
    """Seq of the last response to a prompt, None where one is still open at the end."""
    answers = [exchange.response for exchange in conversation.requests("client", "session/prompt")]
    return answers[-1].seq if answers and answers[-1] is not None else None


def late_updates(conversation: Conversation) -> list[Update]:
    """Updates that are part of a turn although a prompt of their session was answered and none is running.

    What a session/load replays is not late.
    """
    sessions = {update.message.seq: update for update in conversation.updates if update.kind in TURN_KINDS}
    answered: set[str] = set()
    running: dict[int, str] = {}
    late: list[Update] = []
    for message in conversation:
        if message.sender == "client" and message.method in _CARRIERS and message.kind == "request":
            running[message.seq] = as_text(message.payload.get("sessionId")) or ""
        elif message.sender == "agent" and message.answers in running:
            session = running.pop(message.answers)
            if message.method == "session/prompt":
                answered.add(session)
        elif (update := sessions.get(message.seq)) and update.session in answered - set(running.values()):
            late.append(update)
    return late


def _label(message: Message) -> str:
    return message.method or "<invalid>" if message.kind in ("request", "notification") else f"<{message.kind}>"


def _prompts(conversation: Conversation) -> list[int]:
    """Seqs of the client's prompts: a message never runs on past one."""
    return [
        message.seq for message in conversation if message.sender == "client" and message.method == "session/prompt"
    ]


def _coalesced(news: Sequence[Update], prompts: Sequence[int]) -> Counter[str]:
    """Updates by kind, pieces of a message counted once, refinements of a call counted with the status they lead to.

    With a `messageId`, a message is all its pieces, whatever comes between. Without one it is the pieces in a row in
    one session, where only other content or a prompt ends the row.
    """
    counts: Counter[str] = Counter()
    seen: set[tuple[str, str, str]] = set()
    #: session -> kind of the anonymous row that runs there.
    running: dict[str, str] = {}
    #: (session, toolCallId) of calls that were refined since their last status.
    refining: set[tuple[str, str]] = set()
    later = list(prompts)
    for update in news:
        while later and later[0] < update.message.seq:
            later.pop(0)
            running.clear()
        if update.kind in CHUNKS:
            identity = as_text(update.body.get("messageId"))
            if identity is not None:
                key = (update.session, update.kind, identity)
                fresh = key not in seen
                seen.add(key)
                running.pop(update.session, None)
            else:
                fresh = running.get(update.session) != update.kind
                running[update.session] = update.kind
            counts[update.kind] += fresh
        else:
            counts[update.kind or "<none>"] += 1 if update.kind != "tool_call_update" else _opens(update, refining)
            if update.kind in _BREAKS:
                running.pop(update.session, None)
    return counts


def _opens(update: Update, refining: set[tuple[str, str]]) -> bool:
    """Whether a tool_call_update is the first since its call's last status."""
    call = (update.session, as_text(update.body.get("toolCallId")) or "")
    first = call not in refining
    if update.body.get("status") is None:
        refining.add(call)
    else:
        refining.discard(call)
    return first
