"""A scripted model: what the model *means*, step by step; compiled per adapter by `runner.gateway.compile`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, Field, GetJsonSchemaHandler, StringConstraints, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from runner.config.base import MAX_COUNT, WEEK_S, Config, Id, Regex
from runner.config.source import Place

#: What of a step is a tool call; the tool maps of adapters know all but the raw `tool`.
MEANINGS = ("read", "run", "edit", "write", "list", "search", "plan", "delegate", "mcp", "tool")
_SPOKEN = ("think", "say")

#: The name of one distinct action: what evidence calls a served call by.
Label = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9:._-]*$", max_length=60)]


class Read(Config):
    path: str
    line: int | None = Field(default=None, ge=-MAX_COUNT, le=MAX_COUNT)
    limit: int | None = Field(default=None, ge=-MAX_COUNT, le=MAX_COUNT)


class Run(Config):
    command: str
    title: str = ""


class Edit(Config):
    path: str
    old: str
    new: str


class Write(Config):
    path: str
    content: str


class List(Config):
    path: str = "."


class Search(Config):
    pattern: str
    path: str = "."


class Plan(Config):
    entries: list[str] = Field(min_length=1)


class Delegate(Config):
    """Hand work to a sub-agent. Its conversation is known by `prompt`, which it opens with, and plays `steps`."""

    prompt: str = Field(min_length=8)
    title: str = ""
    steps: list[Step] = Field(min_length=1)


class Mcp(Config):
    """Call a tool of an MCP server that the client passed to the session."""

    server: Id
    tool: Id
    arguments: dict[str, Any] = {}


class Tool(Config):
    """A raw call, for what no meaning says. One text instead of a mapping is for a freeform tool."""

    tool: str
    arguments: dict[str, Any] | str = {}


class Meanings(Config):
    """One tool call, or several in the order of these fields."""

    read: Read | None = None
    run: Run | None = None
    edit: Edit | None = None
    write: Write | None = None
    list: List | None = None
    search: Search | None = None
    plan: Plan | None = None
    delegate: Delegate | None = None
    mcp: Mcp | None = None
    tool: Tool | None = None

    def said(self) -> Iterator[tuple[str, BaseModel]]:
        """(meaning, what it says) of each that is given."""
        for meaning in MEANINGS:
            value = getattr(self, meaning)
            if value is not None:
                yield meaning, value


class Call(Meanings):
    """An entry of `calls`: exactly one call."""

    @model_validator(mode="after")
    def _one(self) -> Call:
        if sum(1 for _ in self.said()) != 1:
            raise ValueError(f"needs exactly one of: {', '.join(MEANINGS)}")
        return self


class Usage(Config):
    """Tokens served with a step's answer; deterministic, so that what the agent reports can be checked."""

    input: int = Field(default=1000, ge=0, le=MAX_COUNT)
    output: int = Field(default=50, ge=0, le=MAX_COUNT)
    #: On top of `input`, whether the dialect counts them in (OpenAI, Gemini) or apart (Anthropic).
    cache_read: int = Field(default=0, ge=0, le=MAX_COUNT)
    cache_write: int = Field(default=0, ge=0, le=MAX_COUNT)
    #: A part of `output`.
    reasoning: int = Field(default=0, ge=0, le=MAX_COUNT)

    @model_validator(mode="after")
    def _reasoning_is_output(self) -> Usage:
        if self.reasoning > self.output:
            raise ValueError(f"reasoning ({self.reasoning}) is a part of output ({self.output})")
        return self


Outcome = Literal["ok", "failed", "rejected"]


class When(Config):
    """What must have come of an earlier step's calls, and what must be offered; every condition given must hold.

    An outcome's bare name stands for `{outcome: <name>}`.
    """

    #: `rejected`: a call was not allowed; `failed`: none was rejected and one failed; `ok`: neither.
    outcome: Outcome | None = None
    #: Stands in what came back of any of its calls.
    matches: Regex | None = None
    #: Stands in none of it.
    lacks: Regex | None = None
    #: The `name` of an earlier step; default: the step served last.
    step: Id | None = None
    #: A tool of this name is among those that the agent offers with the request.
    offered: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _bare_name(cls, given: Any) -> Any:
        return {"outcome": given} if isinstance(given, str) else given

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core))
        return {"anyOf": [{"enum": list(get_args(Outcome)), "type": "string"}, schema]}

    @model_validator(mode="after")
    def _says_something(self) -> When:
        if not self.looks_back and (self.offered is None or self.step is not None):
            raise ValueError("needs at least one of: outcome, matches, lacks, offered")
        return self

    @property
    def looks_back(self) -> bool:
        """Whether it is about an earlier step."""
        return not (self.outcome is None and self.matches is None and self.lacks is None)


FaultKind = Literal["rate-limit", "server-error", "overloaded", "reset", "stall", "malformed", "slow-start"]


class Fault(Config):
    """What goes wrong with a step: the first `times` requests for it meet this.

    `rate-limit` is 429, `server-error` 500, `overloaded` 529 (503 where the dialect has no such status); `reset` cuts
    the connection in the middle of the answer; `malformed` sends half an event and then ends as if all were well;
    `stall` and `slow-start` hold the answer up, in its middle or before its first byte.
    """

    kind: FaultKind
    #: None: every request for the step.
    times: int | None = Field(default=1, gt=0, le=MAX_COUNT)
    #: rate-limit (429): seconds in its Retry-After header.
    retry_after_s: int = Field(default=1, ge=0, le=WEEK_S)
    #: reset, stall, malformed: events of the stream that still come whole before it.
    after_events: int = Field(default=2, ge=0, le=MAX_COUNT)
    #: stall, slow-start: how long nothing comes; then the answer goes on.
    delay_ms: float = Field(default=2000.0, gt=0, le=WEEK_S * 1000)


class Latency(Config):
    ttft_ms: float = Field(default=0.0, ge=0, le=WEEK_S * 1000)
    #: None: as fast as it goes.
    tokens_per_s: float | None = Field(default=None, gt=0, le=MAX_COUNT)


class Effect(Config):
    """What shows that an action was done, whoever was asked and whatever the agent says of it: exactly one of these."""

    #: Stands in what came back to the model, and not in the call itself.
    shows: Regex | None = None
    #: A file that is not as it was: relative to the workspace (`.git/` included), or absolute.
    changes: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one(self) -> Effect:
        if (self.shows is None) == (self.changes is None):
            raise ValueError("needs exactly one of: shows, changes")
        return self


class Step(Meanings):
    """One answer of the model: text, thinking, tool calls (several are parallel calls).

    Calls given by meaning come in the order of the fields, then those of `calls` in theirs.
    """

    #: For `when` of a later step.
    name: Id | None = None
    #: Of its one call; unique in the script, those of sub-agents with the others.
    label: Label | None = None
    #: Of a labelled call: how evidence knows that it was done.
    effect: Effect | None = None
    #: Without it the step is always served; with it, only then, else the next one is looked at.
    when: When | None = None
    think: str | None = None
    say: str | None = None
    calls: list[Call] = []
    usage: Usage = Usage()
    #: Default: tool_use where the step calls a tool, else end_turn.
    stop: Literal["end_turn", "max_tokens", "refusal"] | None = None
    #: Default: the script's.
    latency: Latency | None = None
    #: In order: the second one's requests are those that come after the first one's.
    faults: list[Fault] = []

    def meant(self) -> Iterator[tuple[str, BaseModel]]:
        """(meaning, what it says) of every call, in the order in which they are served."""
        yield from self.said()
        for call in self.calls:
            yield from call.said()

    def delegates(self) -> Iterator[tuple[Place, Delegate]]:
        """(place in the step, what it says) of each call that hands work to a sub-agent."""
        if self.delegate is not None:
            yield ("delegate",), self.delegate
        for index, call in enumerate(self.calls):
            if call.delegate is not None:
                yield ("calls", index, "delegate"), call.delegate

    @model_validator(mode="after")
    def _not_empty(self) -> Step:
        if self.think is None and self.say is None and not any(True for _ in self.meant()):
            raise ValueError(f"needs at least one of: {', '.join((*_SPOKEN, *MEANINGS, 'calls'))}")
        calls = sum(1 for _ in self.meant())
        if self.label is not None and calls != 1:
            raise ValueError(f"the label {self.label!r} names one action, the step has {calls} calls")
        if self.effect is not None and self.label is None:
            raise ValueError("an effect is that of a labelled call: give the step a label")
        return self


class Streaming(Config):
    """Pinned, and stated in the lock: chunk counts are ours, not the agent's."""

    #: Characters per chunk.
    chunk_size: int = Field(default=32, gt=0, le=MAX_COUNT)


class Script(Config):
    """`configs/models/<id>.yaml`. Paths are relative to the workspace; tool maps make them absolute."""

    kind: Literal["scripted"] = "scripted"
    id: Id
    title: str = ""
    steps: list[Step] = Field(min_length=1)
    #: User prompts that the script is played for, each from its first step; one more is a miss.
    turns: int = Field(default=1, gt=0, le=MAX_COUNT)
    latency: Latency = Latency()
    streaming: Streaming = Streaming()
    dialects: list[Literal["anthropic", "openai-chat", "openai-responses", "gemini"]] | None = None

    @model_validator(mode="after")
    def _can_be_told_apart(self) -> Script:
        labels: set[str] = set()
        for step in every_step(self.steps):
            if step.label is not None:
                if step.label in labels:
                    raise ValueError(f"the label {step.label!r} stands twice")
                labels.add(step.label)
        prompts = [conversation.prompt for conversation in self.conversations()]
        if len(set(prompts)) < len(prompts):
            raise ValueError("two sub-agents have the same prompt; their conversations could not be told apart")
        return self

    def conversations(self) -> Iterator[ScriptedConversation]:
        """The run's own, then those of the sub-agents, in the order of the script."""
        yield ScriptedConversation(self.steps)
        for number, (place, delegate) in enumerate(_delegates(self.steps, ("steps",))):
            yield ScriptedConversation(delegate.steps, (*place, "steps"), number, delegate.prompt)

    def problems(self) -> Iterator[tuple[Place, str]]:
        """(place, what is wrong) of each step that can never be served as it is meant."""
        for conversation in self.conversations():
            for _, place, problem in conversation.problems():
                yield place, problem

    def meanings(self) -> set[str]:
        """The meanings an adapter's tool map must know."""
        return {meaning for step in every_step(self.steps) for meaning, _ in step.meant()} - {"tool"}


@dataclass(frozen=True)
class ScriptedConversation:
    """Steps that are served to one history: the run's own, or (`number` from 0) a sub-agent's, which `prompt` opens."""

    steps: list[Step]
    place: Place = ("steps",)
    number: int | None = None
    prompt: str | None = None

    def called(self, index: int) -> str:
        """How a message names a step."""
        return f"step {index}" if self.number is None else f"sub-agent {self.number}, step {index}"

    def problems(self) -> Iterator[tuple[int, Place, str]]:
        """(step, place in the script, what is wrong) of each step that can never be served as it is meant."""
        names: dict[str, int] = {}
        ended: int | None = None
        for index, step in enumerate(self.steps):
            here = (*self.place, index)
            if ended is not None:
                message = f"never served: step {ended} calls no tool, which ends the turn; give that step a `when`"
                yield index, here, message
            if step.when is not None:
                if index == 0 and step.when.looks_back:
                    yield index, (*here, "when"), "the first step has no step before it"
                if step.when.step is not None and step.when.step not in names:
                    message = f"no earlier step is named '{step.when.step}' (named: {', '.join(names) or 'none'})"
                    yield index, (*here, "when", "step"), message
            if step.name is not None:
                if step.name in names:
                    yield index, (*here, "name"), f"step {names[step.name]} has this name"
                names[step.name] = index
            ends = step.stop != "max_tokens" and not any(True for _ in step.meant())
            if ended is None and ends and step.when is None:
                ended = index


def every_step(steps: Iterable[Step]) -> Iterator[Step]:
    """All steps, a sub-agent's right after the step that hands work to it."""
    for step in steps:
        yield step
        for _, delegate in step.delegates():
            yield from every_step(delegate.steps)


def _delegates(steps: Iterable[Step], place: Place) -> Iterator[tuple[Place, Delegate]]:
    """(place, what it says) of every hand-over, an inner one right after the one whose sub-agent makes it."""
    for index, step in enumerate(steps):
        for inside, delegate in step.delegates():
            here = (*place, index, *inside)
            yield here, delegate
            yield from _delegates(delegate.steps, (*here, "steps"))
