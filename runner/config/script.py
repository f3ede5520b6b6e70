"""A scripted model: what the model *means*, step by step; compiled per adapter by `runner.gateway.compile`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from runner.config.base import Config, Id


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


class Tool(Config):
    """A raw call, for what no meaning says."""

    tool: str
    arguments: dict[str, Any] = {}


class Usage(Config):
    """Tokens served with a step's answer; deterministic, so that what the agent reports can be checked."""

    input: int = Field(default=1000, ge=0)
    output: int = Field(default=50, ge=0)


class Step(Config):
    """One answer of the model: text, thinking, tool calls (several given are parallel calls, in field order)."""

    think: str | None = None
    say: str | None = None
    read: Read | None = None
    run: Run | None = None
    edit: Edit | None = None
    write: Write | None = None
    list: List | None = None
    search: Search | None = None
    plan: Plan | None = None
    tool: Tool | None = None
    usage: Usage = Usage()

    @model_validator(mode="after")
    def _not_empty(self) -> Step:
        if not (self.model_fields_set - {"usage"}):
            raise ValueError(
                "a step needs at least one of: think, say, read, run, edit, write, list, search, plan, tool"
            )
        return self


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

    kind: Literal["scripted"] = "scripted"
    id: Id
    title: str = ""
    steps: list[Step] = Field(min_length=1)
    latency: Latency = Latency()
    streaming: Streaming = Streaming()
    dialects: list[Literal["anthropic", "openai-chat", "openai-responses", "gemini"]] | None = None
