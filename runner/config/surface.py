"""A surface: how the host drives an agent. Data only: transport, client capabilities, session set-up."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, model_validator

from runner.config.base import WEEK_S, Argv, Config, Id, Regex, below


class FileSystem(Config):
    """clientCapabilities.fs"""

    readTextFile: bool = False  # noqa: N815 - the protocol's own names
    writeTextFile: bool = False  # noqa: N815


class Elicitation(Config):
    """clientCapabilities.elicitation; a form is declared by an object."""

    form: dict[str, Any] | None = None
    url: dict[str, Any] | None = None


class ClientCapabilities(Config):
    """clientCapabilities of ACP v1, stable and unstable; a wrong name here would measure another surface unnoticed.

    Vendor keys go under `_meta`, which is free.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)

    fs: FileSystem | None = None
    terminal: bool | None = None
    session: dict[str, Any] | None = None
    auth: dict[str, Any] | None = None
    elicitation: Elicitation | None = None
    plan: dict[str, Any] | bool | None = None
    subagents: dict[str, Any] | bool | None = None
    nes: dict[str, Any] | None = None
    positionEncodings: list[str] | None = None  # noqa: N815
    meta: dict[str, Any] | None = Field(default=None, alias="_meta")

    def as_json(self) -> dict[str, Any]:
        """What initialize sends: just what was written."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class Probe(Config):
    """One request after the turn; sent only where the agent advertises what it needs."""

    do: Literal["set-config-option", "set-mode", "prompt", "list", "load", "resume", "fork", "close"]
    #: set-config-option: id of the option. Its `value` must be one that the agent offers.
    option: str | None = None
    #: set-config-option: the value; set-mode: the mode's id.
    value: str | bool | None = None
    #: prompt: the text; default the fixture's prompt again, which plays the script once more.
    text: str | None = None

    @model_validator(mode="after")
    def _complete(self) -> Probe:
        if self.do == "set-config-option" and (self.option is None or self.value is None):
            raise ValueError("set-config-option needs 'option' and 'value'")
        if self.do == "set-mode" and not isinstance(self.value, str):
            raise ValueError("set-mode needs 'value', the mode's id")
        return self


class OpenBuffer(Config):
    """A document that the editor holds open with text that is not on disk. `{canary:<name>}` is filled in."""

    #: Relative to the workspace.
    path: str
    #: The whole text; or what stands after the disk's own.
    text: str | None = None
    append: str | None = None

    @model_validator(mode="after")
    def _one_of(self) -> OpenBuffer:
        if (self.text is None) == (self.append is None):
            raise ValueError("either 'text' or 'append' is wanted")
        return self


class Resolver(Config):
    """A name server on loopback that answers nothing: what it logs are the host names that the agent tried.

    It changes what the agent waits for, so that its runs are an arm of their own.
    """

    #: Started before the agent, in its container; must listen on UDP port 53 and stay in the foreground.
    command: Argv
    #: What a line of its log looks like that tells of a question; the first group is the name.
    query: Regex

    @model_validator(mode="after")
    def _names_something(self) -> Resolver:
        if re.compile(self.query).groups < 1:
            raise ValueError("'query' needs a group, (...), which is the name that was asked for")
        return self


def _in_workspace(buffer: OpenBuffer) -> OpenBuffer:
    below(buffer.path)
    return buffer


#: ACP wants an absolute path.
Directory = Annotated[str, StringConstraints(pattern=r"^(/|\{workspace\}(/|$))")]


class Surface(Config):
    """One YAML file under configs/surfaces."""

    id: Id
    title: str = ""
    transport: Literal["acp", "cli"]
    #: initialize.params.clientCapabilities (ACP only).
    client_capabilities: ClientCapabilities = ClientCapabilities()
    #: session/new: entries of mcpServers.
    mcp_servers: list[dict[str, Any]] = []
    #: session/new: additionalDirectories, `{workspace}` filled in; sent only when not empty.
    additional_directories: list[Directory] = []
    #: Image under images/ whose /opt/toolbox is mounted there, read-only: programs that no agent's image has.
    toolbox: Id | None = None
    #: Default: none; names resolve to nothing, and nobody keeps them.
    resolver: Resolver | None = None
    #: Seconds between the session's set-up (and its servers', see `prompt_when`) and the first prompt, as a person
    #: takes them; what is waited for here is in no metric but `wall_ms`.
    settle_s: float = Field(default=0.0, ge=0, le=WEEK_S)
    #: The first prompt is sent at once, or when each of the MCP servers (over stdio) has said that it is ready: it
    #: finds an address in NOTIFY_SOCKET and sends it the datagram `READY=1` (sd_notify) when it has answered
    #: `tools/list`. Where one has not within the deadline `mcp_connected`, that is a finding and the prompt is sent.
    prompt_when: Literal["at-once", "mcp-connected"] = "at-once"
    #: Before the first prompt.
    open_buffers: list[Annotated[OpenBuffer, AfterValidator(_in_workspace)]] = []
    #: After the turn, in order.
    probes: list[Probe] = []
    #: Overrides of the adapter's session set-up.
    mode: str | None = None
    config_options: dict[str, str | bool] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_whom_to_wait_for(self) -> Surface:
        if self.prompt_when == "mcp-connected" and not self.notifying()[1]:
            raise ValueError("'prompt_when: mcp-connected' needs 'mcp_servers', one of them over stdio")
        return self

    def notifying(self) -> tuple[list[dict[str, Any]], list[str]]:
        """`mcp_servers` with an address in each NOTIFY_SOCKET, and these addresses; as they are where nobody waits."""
        if self.prompt_when == "at-once" or self.transport != "acp":
            return self.mcp_servers, []
        servers, addresses = [], []
        for number, server in enumerate(self.mcp_servers):
            if server.get("type", "stdio") == "stdio" and "command" in server:
                address = f"@acpbench-mcp-{number}"
                variable = {"name": "NOTIFY_SOCKET", "value": address}
                server = {**server, "env": [*server.get("env", []), variable]}
                addresses.append(address)
            servers.append(server)
        return servers, addresses
