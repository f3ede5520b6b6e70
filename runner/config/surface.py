"""A surface: how the host drives an agent. Data only: transport, client capabilities, session set-up."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from runner.config.base import Config, Id


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
    additional_directories: list[str] = []
    #: Overrides of the adapter's session set-up.
    mode: str | None = None
    config_options: dict[str, str | bool] = Field(default_factory=dict)
