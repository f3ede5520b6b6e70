"""The JSON Schema of each kind of configuration file, for editors (`# yaml-language-server: $schema=...`)."""

from __future__ import annotations

from typing import Any

from runner.config.adapter import Adapter
from runner.config.base import Config
from runner.config.cassette import Cassette
from runner.config.fixture import Fixture
from runner.config.gate import Gate
from runner.config.nearest import suggest
from runner.config.policy import Policy
from runner.config.script import Script
from runner.config.surface import Surface
from runner.config.sweep import Sweep
from runner.config.upstream import Upstream
from runner.errors import UsageError

#: What `acpbench schema` knows, by name.
KINDS: dict[str, type[Config]] = {
    "adapter": Adapter,
    "surface": Surface,
    "fixture": Fixture,
    "script": Script,
    "upstream": Upstream,
    "cassette": Cassette,
    "policy": Policy,
    "sweep": Sweep,
    "gate": Gate,
}


def json_schema(kind: str) -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a kind. Raises UsageError with the nearest name for an unknown one."""
    model = KINDS.get(kind)
    if model is None:
        raise UsageError(f"unknown kind of configuration '{kind}'{suggest(kind, KINDS)}")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}
