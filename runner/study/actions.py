"""What the model had the agent do: each served call with what became of it at the client, on the disk and at the model.

An action is one tool call that the gateway served. It is joined with the agent's own announcement (by call id, else by
what it is about), the ask for it, and the request in which its result came back. The *distinct* action is the unit of
every rate: a script's replicates repeat it, they do not try again.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from runner.acp.toolcalls import ToolCall
from runner.evidence.permissions import Ask
from runner.evidence.toolcalls import kind_of
from runner.gateway.journal import JournalEntry, ServedCall
from runner.study import shell
from runner.study.model import Reference
from runner.study.runs import LoadedRun
from runner.study.shell import Line, absolute, within
from runner.wire.values import as_list, as_object, as_text

#: Names under which tools take a path, and a command.
_PATHS = ("file_path", "filePath", "path", "absolute_path", "dir_path", "notebook_path")
_COMMANDS = ("command", "cmd")
#: Where a freeform patch names its file.
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)

Verb = Literal["read", "write", "run", "other"]
#: Meaning of a scripted call -> what it does to a file system.
_VERBS: dict[str, Verb] = {"read": "read", "edit": "write", "write": "write", "run": "run"}


@dataclass(frozen=True)
class Action:
    """One served call. None: the agent did not say, or it never happened."""

    run: LoadedRun
    served: ServedCall
    #: Seq of the journal's entry that served it.
    entry: int
    label: str | None
    #: Name of the sub-agent whose conversation it belongs to.
    subagent: str | None
    verb: Verb
    #: ACP tool kind.
    kind: str
    #: Absolute, normalised, by name alone; of a `run`, see `line`.
    path: str | None
    command: str | None
    line: Line | None
    call: ToolCall | None
    ask: Ask | None
    #: Seq of the first model request that carried its result, and the result as JSON text.
    result: tuple[int, str] | None
    #: The result says, in the adapter's words (`results:` of its configuration), that it was refused or blocked.
    declined: bool
    #: An answer "always allow" to an earlier ask of the same kind stands in this run, or the run began pre-authorised.
    granted: bool

    @property
    def key(self) -> tuple[str, str]:
        """The distinct action: what it does, to what."""
        what = self.command if self.command is not None else self.path
        return self.verb, what if what is not None else f"{self.served.tool} {self.served.arguments}"

    @property
    def surfaced(self) -> bool:
        return self.ask is not None

    @property
    def allowed(self) -> bool | None:
        """How the ask was answered; None: not asked, or not answered."""
        if self.ask is None or self.ask.answer is None:
            return None
        return self.ask.answer.startswith("allow")

    @property
    def settled(self) -> bool:
        """It was asked for, or its result came back to the model: only then something is known of it."""
        return self.ask is not None or self.result is not None

    @property
    def mediated(self) -> bool:
        """A read that the agent left to the client, which may refuse it: nobody is asked, yet the client decides."""
        return self.verb == "read" and self.path in self.run.read_through_client

    @property
    def blocked(self) -> bool:
        """Nobody was asked, and what came back to the model says, in the adapter's words, that it was not done."""
        return self.ask is None and self.declined

    @property
    def what(self) -> str:
        """For a reader."""
        return self.command if self.command is not None else self.path or self.served.tool

    def reference(self, shows: str, what: str | None = None) -> Reference:
        """The frame where the client saw it: the ask, else its announcement; without either, the journal's entry."""
        named = self.what if what is None else what
        if self.ask is not None:
            return self.run.frame(self.ask.seq, shows, named)
        if self.call is not None:
            return self.run.frame(self.call.first_seq, shows, named)
        return self.run.model(self.entry, shows, named)

    def outside(self) -> bool | None:
        """Whether it names something outside the session's directories; by name alone. None: it cannot be told."""
        if self.line is not None:
            if self.line.dynamic:
                return None
            return bool(self.line.reaches(self.run.cwd, self.run.home, self.run.additional))
        if self.path is None:
            return None
        return not any(within(self.path, posixpath.normpath(root)) for root in (self.run.cwd, *self.run.additional))


def actions(run: LoadedRun) -> list[Action]:
    """The actions of a run in the order they were served. A retried answer is served once."""
    found: list[Action] = []
    asks = {ask.tool_call: ask for ask in reversed(run.asks)}
    announced = _Announced(run)
    always: dict[str, int] = {}
    for ask in run.asks:
        if ask.answer == "allow_always":
            always.setdefault(ask.kind, ask.answered_seq if ask.answered_seq is not None else ask.seq)
    words = as_object(run.program.get("results"))
    declines = [re.compile(text) for word in ("rejected", "blocked") for text in as_list(words.get(word))]
    seen: set[str] = set()
    for entry in run.journal.entries:
        if entry.kind != "main":
            continue
        for served in entry.calls:
            if served.id in seen:
                continue
            seen.add(served.id)
            found.append(_action(run, entry, served, announced, asks, always, declines))
    return found


def _action(
    run: LoadedRun,
    entry: JournalEntry,
    served: ServedCall,
    announced: _Announced,
    asks: dict[str, Ask],
    always: dict[str, int],
    declines: Sequence[re.Pattern[str]],
) -> Action:
    path, command = _path(served.arguments, run), _command(served.arguments)
    call = announced.of(entry, served, path, command)
    ask = asks.get(call.id) if call is not None else asks.get(served.id)
    verb = _VERBS.get(served.meaning, "other")
    if verb == "other":
        verb = "run" if command is not None else "other"
    kind = ask.kind if ask is not None else kind_of(call)
    since = always.get(kind)
    granted = run.record.pristine is False or (
        since is not None and call is not None and call.last_seq > since and (ask is None or ask.seq > since)
    )
    result = run.journal.results.get(served.id)
    return Action(
        run=run,
        served=served,
        entry=entry.seq,
        label=_label(run, entry),
        subagent=entry.subagent,
        verb=verb,
        kind=kind,
        path=path,
        command=command,
        line=shell.read(command) if command is not None else None,
        call=call,
        ask=ask,
        result=result,
        declined=result is not None and any(pattern.search(result[1]) for pattern in declines),
        granted=granted,
    )


class _Announced:
    """The agent's own tool calls, each given to one served call."""

    def __init__(self, run: LoadedRun) -> None:
        self._calls = run.tool_calls
        self._free = dict(run.tool_calls)
        self._times = {message.seq: message.t_ns for message in run.conversation}
        offset = run.record.clock_offset_ns
        #: Seq of a main request -> when it was asked, in the frames' clock.
        self._asked = {e.seq: e.t_request_ns - offset for e in run.journal.entries if e.kind == "main"}

    def of(self, entry: JournalEntry, served: ServedCall, path: str | None, command: str | None) -> ToolCall | None:
        """By id; an agent with ids of its own: the first free call of that moment that is about the same."""
        own = self._calls.get(served.id)
        if own is not None:
            self._free.pop(served.id, None)
            return own
        about = command if command is not None else path
        if about is None:
            return None
        after, before = self._asked[entry.seq], self._until(entry.seq)
        for identity, call in self._free.items():
            if after <= self._times[call.first_seq] <= before and _about(call, about):
                del self._free[identity]
                return call
        return None

    def _until(self, seq: int) -> float:
        """When the second next request came: an announcement may come a little after the result went to the model.

        A call that is about the same is told apart by it: agents do not announce all that they are served.
        """
        later = sorted(t_ns for other, t_ns in self._asked.items() if other > seq)
        return later[1] if len(later) > 1 else math.inf


def _about(call: ToolCall, what: str) -> bool:
    named = [as_text(as_object(item).get("path")) for item in call.locations]
    named += [as_text(value) for value in as_object(call.raw_input).values()]
    if what in named:
        return True
    title = call.title or ""
    return bool(title) and (what in title or title.strip("`") == posixpath.basename(what))


def _label(run: LoadedRun, entry: JournalEntry) -> str | None:
    steps = as_list(run.program.get("steps"))
    if entry.subagent is not None:
        agents = map(as_object, as_list(run.program.get("subagents")))
        steps = next((as_list(agent.get("steps")) for agent in agents if agent.get("name") == entry.subagent), [])
    step = entry.step
    return as_text(as_object(steps[step]).get("label")) if step is not None and step < len(steps) else None


def _path(arguments: dict[str, Any] | str, run: LoadedRun) -> str | None:
    if isinstance(arguments, str):
        header = _PATCHED.search(arguments)
        named = header.group(1) if header is not None else None
    else:
        named = _named(arguments, _PATHS)
    return absolute(named, run.cwd, run.home) if named is not None else None


def _command(arguments: dict[str, Any] | str) -> str | None:
    return None if isinstance(arguments, str) else _named(arguments, _COMMANDS)


def _named(arguments: dict[str, Any], names: Sequence[str]) -> str | None:
    """The first argument of one of these names, also where a tool takes a list of them and got one."""
    found = next((value for name in names if isinstance(value := arguments.get(name), str)), None)
    if found is not None:
        return found
    for name, value in arguments.items():
        if isinstance(value, list) and len(value) == 1:
            if isinstance(value[0], dict):
                return _named(value[0], names)
            if isinstance(value[0], str) and name.removesuffix("s") in names:
                return value[0]
    return None


def distinct(found: Iterable[Action]) -> dict[tuple[str, str], list[Action]]:
    """Actions by what they are, in order of appearance."""
    by_key: dict[tuple[str, str], list[Action]] = {}
    for action in found:
        by_key.setdefault(action.key, []).append(action)
    return by_key


def usual(runs: Sequence[LoadedRun]) -> list[LoadedRun]:
    """The runs as an editor's user has them: plain sessions, in the mode that most of them run in."""
    plain = [run for run in runs if run.acp and run.plain and run.prompt_seq is not None]
    modes = [run.mode for run in plain]
    usual_mode = max(dict.fromkeys(modes), key=modes.count, default=None)
    return [run for run in plain if run.mode == usual_mode]
