"""A scripted model: what the model *means*, step by step; compiled per adapter by `runner.gateway.compile`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, model_validator

from runner.config.base import Config, Id

#: The name of one distinct action: what evidence calls a served call by.
Label = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9:._-]*$", max_length=60)]


class Read(Config):
    path: str
    line: int | None = None
    limit: int | None = None


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
    """A raw call, for what no meaning says."""

    tool: str
    arguments: dict[str, Any] = {}


class Usage(Config):
    """Tokens served with a step's answer; deterministic, so that what the agent reports can be checked."""

    input: int = Field(default=1000, ge=0)
    output: int = Field(default=50, ge=0)


#: Fields of a step that are calls, in the order in which they are made.
CALLS = ("read", "run", "edit", "write", "list", "search", "plan", "delegate", "mcp", "tool")


class Step(Config):
    """One answer of the model: text, thinking, tool calls (several given are parallel calls, in field order)."""

    #: Unique in the script; only on a step of one call.
    label: Label | None = None
    think: str | None = None
    say: str | None = None
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
    usage: Usage = Usage()

    @model_validator(mode="after")
    def _not_empty(self) -> Step:
        if not (self.model_fields_set - {"usage", "label"}):
            raise ValueError(f"a step needs at least one of: think, say, {', '.join(CALLS)}")
        if self.label is not None and len(self.calls) != 1:
            raise ValueError(f"the label {self.label!r} names one action, the step has {len(self.calls)} calls")
        return self

    @property
    def calls(self) -> dict[str, Config]:
        """Meaning (or `tool`) -> what is called, in field order."""
        return {name: call for name in CALLS if (call := getattr(self, name)) is not None}


class Latency(Config):
    ttft_ms: float = Field(default=0.0, ge=0)
    #: None: as fast as it goes.
    tokens_per_s: float | None = Field(default=None, gt=0)


class Streaming(Config):
    """Pinned, and stated in the lock: chunk counts are ours, not the agent's."""

    #: Characters per chunk.
    chunk_size: int = Field(default=32, gt=0)


class Script(Config):
    """`configs/models/<id>.yaml`. Paths are relative to the workspace; tool maps make them absolute."""

    id: Id
    title: str = ""
    steps: list[Step] = Field(min_length=1)
    latency: Latency = Latency()
    streaming: Streaming = Streaming()
    dialects: list[Literal["anthropic", "openai-chat", "openai-responses", "gemini"]] | None = None

    @model_validator(mode="after")
    def _labels_are_unique(self) -> Script:
        seen: set[str] = set()
        prompts: set[str] = set()
        for step in every_step(self.steps):
            if step.label is not None and step.label in seen:
                raise ValueError(f"the label {step.label!r} stands twice")
            if step.delegate is not None and step.delegate.prompt in prompts:
                raise ValueError("two sub-agents have the same prompt; their conversations could not be told apart")
            seen |= {step.label} if step.label is not None else set()
            prompts |= {step.delegate.prompt} if step.delegate is not None else set()
        return self


def every_step(steps: Iterable[Step]) -> Iterator[Step]:
    """All steps, a sub-agent's right after the step that hands work to it."""
    for step in steps:
        yield step
        if step.delegate is not None:
            yield from every_step(step.delegate.steps)
