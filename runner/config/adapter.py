"""An adapter: an agent at an exact version, its image, and how each surface starts it. Data only."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from runner.config.base import Config, Id

Dialect = Literal["anthropic", "openai-chat", "openai-responses", "gemini"]
#: How a CLI surface's standard output is read.
CliParser = Literal["claude-stream-json", "gemini-stream-json", "codex-json", "opencode-json", "generic"]
Meaning = Literal["read", "run", "edit", "write", "list", "search", "plan", "delegate", "mcp"]


class Package(Config):
    """One pinned package inside the image."""

    registry: Literal["npm", "pypi"]
    name: str
    version: str
    #: Where it is installed, a folder inside the image (npm: the package's own folder).
    path: str | None = None


class Program(Config):
    """A program inside the image that states its own version; `expect` must stand in what it prints."""

    name: Id
    command: list[str] = Field(min_length=1)
    expect: str


class Launch(Config):
    """How one transport starts the agent. `{prompt} {workspace} {model_url} {model_key} {home}` are filled in."""

    command: list[str] = Field(min_length=1)
    env: dict[str, str] = {}
    #: Files written into HOME before the start: path relative to HOME -> content (same placeholders).
    home: dict[str, str] = {}
    #: The binary whose sha256 the lock states for this surface.
    binary: str
    #: CLI only: how its output is read.
    parser: CliParser = "generic"


class ToolCall(Config):
    """One way to say a meaning: a tool and its arguments, in both of which `{path}`, `{command}`, ... are filled in."""

    tool: str
    arguments: dict[str, Any] | str = {}


class SideRule(Config):
    """A request that is not the conversation: how it is recognised (all given conditions hold) and answered."""

    name: Id
    #: HTTP method; default any.
    method: str | None = None
    #: Substring of the path (after the run token).
    path: str | None = None
    #: Substring of the model name.
    model: str | None = None
    #: Substring of the raw request body.
    body: str | None = None
    #: True: only requests without tools.
    without_tools: bool | None = None
    #: Answer as assistant text in the dialect; `json` answers a raw JSON body; `status` alone answers an empty body.
    say: str | None = None
    #: Answer by calling this tool with these arguments (qwen's `respond_in_schema`).
    call: ToolCall | None = None
    json_body: dict[str, Any] | None = None
    status: int = 200


class Limits(Config):
    """What one run of this agent may use. Megabytes are 10^6 bytes."""

    memory_mb: int = Field(default=2048, ge=64)
    cpus: float = Field(default=2.0, gt=0)
    pids: int = Field(default=512, ge=32)
    #: Bytes the run may write to its own file systems.
    disk_mb: int = Field(default=1024, gt=0)


class Session(Config):
    """Set-up between session/new and the first prompt; the mode is pinned explicitly where the agent has modes."""

    mode: str | None = None
    #: session/set_config_option calls, in order: configId -> value.
    config_options: dict[str, str | bool] = {}


class Adapter(Config):
    """One YAML file under configs/adapters."""

    id: Id
    title: str
    #: Folder under images/ and the image's name.
    image: Id
    dialect: Dialect
    packages: list[Package] = Field(min_length=1)
    programs: list[Program] = Field(min_length=1)
    #: The transports it has.
    acp: Launch | None = None
    cli: Launch | None = None
    #: Environment of every transport (a launch's own `env` wins).
    env: dict[str, str] = {}
    session: Session = Session()
    #: Meaning -> ordered alternatives: the gateway takes the first one whose tool the request offers.
    tools: dict[Meaning, list[ToolCall]]
    side_requests: list[SideRule] = []
    limits: Limits = Limits()
    #: Project folders that hold the agent's own state: they must be absent before the start.
    state_dirs: list[str] = []
    #: Folder in the image of the ACP SDK the adapter pins (its JSON Schema is taken from there).
    acp_sdk: str | None = None
    accept_deprecated: str | None = None
