"""Everything about a run that is known before it begins."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import Any

from runner.config.adapter import Adapter, Launch, Started
from runner.config.fixture import Fixture
from runner.config.knobs import Knobs
from runner.config.plan import Cell
from runner.config.policy import Policy
from runner.config.surface import OpenBuffer, Surface
from runner.gateway.program import program_for
from runner.run.context import SweepContext
from runner.sandbox.container import BASE_ENV, HOME
from runner.sandbox.fixture import fixture_tar

#: Of the gateway, on the container's loopback.
MODEL_PORT = 4010
#: An agent wants some key; this one opens nothing.
DUMMY_KEY = "sk-acpbench-no-key"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInputs:
    """One attempt at one cell, with every reference followed and every placeholder filled in."""

    sweep: str
    cell: Cell
    #: From 1.
    attempt: int
    adapter: Adapter
    fixture: Fixture
    surface: Surface
    policy: Policy
    knobs: Knobs
    launch: Launch
    #: By which the model gateway knows the run.
    token: str
    #: What the gateway plays to it.
    program: dict[str, Any]
    #: Addresses at which servers of the surface say that they are ready.
    readiness_addresses: tuple[str, ...]
    #: Tar of the fixture's tree.
    tar: bytes
    #: Tar of an isolated fixture's tests; None: they lie in its tree.
    tests: bytes | None
    started: Started

    @classmethod
    def of(cls, context: SweepContext, cell: Cell, attempt: int) -> RunInputs:
        """:raises UsageError: the model's script cannot be said in the adapter's tools; ConfigError: no tape."""
        loaded = context.loaded
        adapter, fixture = loaded.adapters[cell.adapter], loaded.fixtures[cell.fixture]
        surface, addresses = _with_filled_servers(loaded.surfaces[cell.surface], fixture)
        launch = adapter.acp if surface.transport == "acp" else adapter.cli
        if launch is None:  # the catalog refuses it
            raise ValueError(f"adapter {adapter.id} has no {surface.transport}")
        token = secrets.token_hex(16)
        tests = loaded.tests.get(cell.fixture)
        values = {
            "prompt": fixture.prompt,
            "workspace": f"/workspace/{fixture.id}",
            "home": HOME,
            "model_url": f"http://127.0.0.1:{MODEL_PORT}/r/{token}",
            "model_key": DUMMY_KEY,
        }
        return cls(
            sweep=loaded.sweep.id,
            cell=cell,
            attempt=attempt,
            adapter=adapter,
            fixture=fixture,
            surface=surface,
            policy=loaded.policies[cell.policy],
            knobs=loaded.knobs(cell.matrix),
            launch=launch,
            token=token,
            program=program_for(loaded, cell, values["workspace"]),
            readiness_addresses=addresses,
            tar=fixture_tar(loaded.fixture_folder(cell.fixture)),
            tests=None if tests is None else fixture_tar(tests),
            started=launch.filled(values, adapter),
        )

    @property
    def workspace(self) -> str:
        return f"/workspace/{self.fixture.id}"

    @property
    def argv(self) -> list[str]:
        return self.started.argv

    @property
    def env(self) -> dict[str, str]:
        """Of the agent, whole: nothing of the host's is in it."""
        return {**BASE_ENV, **self.started.env}

    @property
    def home(self) -> dict[str, str]:
        """Files for HOME, path below it -> content."""
        return self.started.home

    @property
    def additional_directories(self) -> tuple[str, ...]:
        return tuple(
            directory.replace("{workspace}", self.workspace) for directory in self.surface.additional_directories
        )

    @property
    def open_buffers(self) -> tuple[OpenBuffer, ...]:
        """Documents that are open with unsaved text, by absolute path."""
        fill = self.fixture.fill
        return tuple(
            OpenBuffer(
                path=f"{self.workspace}/{buffer.path}",
                text=None if buffer.text is None else fill(buffer.text),
                append=None if buffer.append is None else fill(buffer.append),
            )
            for buffer in self.surface.open_buffers
        )

    @property
    def identity(self) -> dict[str, Any]:
        """Which attempt at which cell a record is of: the record's fields that come from the plan."""
        names = ("arm", "replicate", "warmup", "adapter", "surface", "fixture", "policy", "model", "reset", "expect")
        of_the_cell = {name: getattr(self.cell, name) for name in names}
        return {"sweep": self.sweep, "cell": self.cell.name, "attempt": self.attempt, **of_the_cell}

    def without_token(self, text: str) -> str:
        """Text for a record, which two runs may share: the token is named, not said."""
        return text.replace(self.token, "<run>")


def _with_filled_servers(surface: Surface, fixture: Fixture) -> tuple[Surface, tuple[str, ...]]:
    """The surface with the fixture's values in its MCP servers, and the addresses at which these say they are ready."""
    servers = json.loads(fixture.fill(json.dumps(surface.mcp_servers)))
    surface = surface.model_copy(update={"mcp_servers": servers})
    servers, addresses = surface.notifying()
    return surface.model_copy(update={"mcp_servers": servers}), tuple(addresses)
