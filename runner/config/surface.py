"""A surface: how the host drives an agent. Data only: transport, client capabilities, session set-up."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from runner.config.base import Config, Id


class Surface(Config):
    """One YAML file under configs/surfaces."""

    id: Id
    title: str = ""
    transport: Literal["acp", "cli"]
    #: Sent as they are in initialize.params.clientCapabilities (ACP only).
    client_capabilities: dict[str, Any] = {}
    #: session/new: entries of mcpServers.
    mcp_servers: list[dict[str, Any]] = []
    #: session/new: additionalDirectories, `{workspace}` filled in; sent only when not empty.
    additional_directories: list[str] = []
    #: Overrides of the adapter's session set-up.
    mode: str | None = None
    config_options: dict[str, str | bool] = Field(default_factory=dict)
