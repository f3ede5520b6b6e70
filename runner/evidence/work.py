"""Work outside the turn: before the prompt was sent or after it was answered. Its run's times say nothing.

What counts as work: a main request to the model, a tool call or a callback that changes something, and a file that
differs from the fixture at the end. Side requests (titles, suggestions, probes) are no work, nor is the agent's state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from runner.evidence.conversation import Conversation
from runner.gateway.journal import JournalEntry
from runner.records.schema import Finding, Turn, Verdict
from runner.wire.values import as_object, as_text

AFTER: Final = "works-after-answer"
BEFORE: Final = "works-before-prompt"
#: Findings after which the times of a run are compared with nothing.
UNTIMED: Final = frozenset({AFTER, BEFORE})

Place = Literal["before", "turn", "after"]

#: What an agent asks of the client that changes something, or is about to.
_WORKING = frozenset({"session/request_permission", "fs/write_text_file", "terminal/create"})
#: After these an agent may tell of the past again.
_REPLAYING = frozenset({"session/load", "session/resume", "session/fork"})
_CALLS = frozenset({"tool_call", "tool_call_update"})
#: Two kernels' clocks are known to each other no better than this.
_APART_NS = 5_000_000
#: A file's stamp may be this much too early.
_TICK_NS = 20_000_000
_SHOWN = 3
_PATH_SHOWN = 120


@dataclass(frozen=True, slots=True)
class ChangeTime:
    """When a path of the workspace was last changed, our clock. `kind`: see the guest's `change_times`."""

    path: str
    kind: str
    t_ns: int


@dataclass(frozen=True, slots=True)
class ChangesSeen:
    """What the guest saw: just before the prompt, and after the agent's end."""

    early: Sequence[str] = ()
    last: Sequence[ChangeTime] = ()


@dataclass(slots=True)
class _Seen:
    """What was found on one side of the turn. `distances`: how far from it, ns."""

    requests: list[int] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    distances: list[int] = field(default_factory=list)
    seq: int | None = None


def work_outside(
    turns: Sequence[Turn],
    conversation: Conversation,
    entries: Iterable[JournalEntry],
    changed: ChangesSeen,
    verdict: Verdict | None,
    offset_ns: int,
) -> list[Finding]:
    """At most one finding a side. `offset_ns`: the engine's clock minus ours, for what the gateway stamped.

    A turn without an answer has no end: nothing comes after it.
    """
    if not turns:
        return []
    sides: dict[Place, _Seen] = {"before": _Seen(), "after": _Seen()}
    where = _places(turns)
    _look_at_requests(sides, where, turns, entries, offset_ns)
    _look_at_messages(sides, where, conversation)
    _look_at_files(sides, where, turns[0].sent_ns, changed, verdict)
    names: tuple[tuple[Place, str, str], ...] = (("before", BEFORE, "before the prompt"), ("after", AFTER, "after it"))
    return [
        Finding(id=name, message=_words(sides[side], words), seq=sides[side].seq)
        for side, name, words in names
        if sides[side].requests or sides[side].calls or sides[side].files
    ]


def _places(turns: Sequence[Turn]) -> Callable[[int], tuple[Place, int]]:
    """Where an instant lies, and how far from the prompt before which, or the answer after which, it is."""

    def where(t_ns: int) -> tuple[Place, int]:
        if t_ns < turns[0].sent_ns:
            return "before", turns[0].sent_ns - t_ns
        begun = [turn for turn in turns if turn.sent_ns <= t_ns]
        ends = [turn.result_ns for turn in begun]
        closed = [end for end in ends if end is not None and end < t_ns]
        return ("after", t_ns - max(closed)) if len(closed) == len(ends) else ("turn", 0)

    return where


def _look_at_requests(
    sides: dict[Place, _Seen],
    where: Callable[[int], tuple[Place, int]],
    turns: Sequence[Turn],
    entries: Iterable[JournalEntry],
    offset_ns: int,
) -> None:
    slack = _APART_NS if offset_ns else 0
    cancelled = any(turn.cancelled for turn in turns)
    for entry in entries:
        if entry.kind not in ("main", "fault"):
            continue
        place, distance = where(entry.t_request_ns - offset_ns)
        if place == "turn" and not entry.aborted and not cancelled:
            # Asked in the turn, and answered for before the model had said a word. (A cancel may leave one behind.)
            place, distance = where(entry.t_first_byte_ns - offset_ns)
        if place != "turn" and distance > slack:
            sides[place].requests.append(distance)
            sides[place].distances.append(distance)


def _look_at_messages(
    sides: dict[Place, _Seen], where: Callable[[int], tuple[Place, int]], conversation: Conversation
) -> None:
    told = {update.message.seq: update.body for update in conversation.updates if update.kind in _CALLS}
    granted = {asked.request.seq for asked in conversation.requests("agent") if asked.result is not None}
    known: set[str] = set()
    for message in conversation:
        if message.sender == "client" and message.method in _REPLAYING:
            return
        if message.seq in told:
            name = as_text(told[message.seq].get("toolCallId")) or ""
        elif message.sender == "agent" and message.method in _WORKING and message.seq in granted:
            name = as_text(as_object(message.payload.get("toolCall")).get("toolCallId")) or f"#{message.seq}"
        else:
            continue
        place, distance = where(message.t_ns)
        if name not in known and place != "turn":
            sides[place].calls.append(name)
            sides[place].distances.append(distance)
            sides[place].seq = sides[place].seq if sides[place].seq is not None else message.seq
        known.add(name)


def _look_at_files(
    sides: dict[Place, _Seen],
    where: Callable[[int], tuple[Place, int]],
    prompted_ns: int,
    changed: ChangesSeen,
    verdict: Verdict | None,
) -> None:
    paths = {change.path for change in verdict.changes} if verdict is not None else set()
    gone = {change.path.rpartition("/")[0] for change in verdict.changes if change.status == "D"} if verdict else set()
    early = set(changed.early) & paths
    for change in changed.last:
        place, distance = where(change.t_ns)
        if change.kind == "replaced":
            counts = bool(paths)
        elif change.kind == "folder":
            # The workspace's own folder changes with every file that comes or goes in it, an agent's state too.
            counts = change.path in gone or (change.path != "" and any(p.startswith(f"{change.path}/") for p in paths))
        else:
            counts = change.path in paths
        if place == "after" and counts:
            sides["after"].files.append(change.path or ".")
            sides["after"].distances.append(distance)
        elif change.kind == "file" and counts and change.t_ns < prompted_ns - _TICK_NS:
            early.add(change.path)
    sides["before"].files += sorted(early)


def _words(seen: _Seen, side: str) -> str:
    parts = []
    if seen.requests:
        parts.append(f"{len(seen.requests)} model request{_s(seen.requests)}")
    if seen.calls:
        parts.append(f"{len(seen.calls)} tool call{_s(seen.calls)}")
    if seen.files:
        more = f" and {len(seen.files) - _SHOWN} more" if len(seen.files) > _SHOWN else ""
        parts.append(f"changed {', '.join(_shown(path) for path in seen.files[:_SHOWN])}{more}")
    message = f"{side}: {', '.join(parts)}"
    if not seen.distances:
        return message
    return f"{message}; up to {max(seen.distances) / 1e6:.1f} ms {side.partition(' ')[0]}"


def _s(items: Sequence[Any]) -> str:
    return "" if len(items) == 1 else "s"


def _shown(path: str) -> str:
    return path.encode("utf-8", "backslashreplace").decode("utf-8")[:_PATH_SHOWN]
