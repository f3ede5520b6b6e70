"""Every adapter, really run: over ACP with and without client capabilities, and its command line where it has one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import docker
import pytest

from runner.config.catalog import Catalog
from runner.config.loaded_sweep import load_sweep
from runner.config.plan import plan
from runner.records.schema import Record
from runner.records.store import SweepDir
from runner.sweep.progress import PlainProgress
from runner.sweep.sweep import Options, run_sweep
from tests.engine.agents import FACTS, PER_DIALECT
from tests.engine.lab import REPOSITORY

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(900)]

SWEEP = """\
id: agent
arms:
  - adapters: [{adapter}]
    surfaces: [{surfaces}]
    fixtures: [semver]
    models: [scripted/fix-semver]
repeat: 1
warmup: 0
"""

ADAPTERS = [pytest.param(name, marks=() if name in PER_DIALECT else pytest.mark.agents) for name in FACTS]


def by_kind(exact: Mapping[str, Any], name: str) -> dict[str, int]:
    """A flattened map without its zeros."""
    prefix = f"{name}."
    return {key.removeprefix(prefix): value for key, value in exact.items() if key.startswith(prefix) and value}


@pytest.fixture(scope="module", params=ADAPTERS)
def ran(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, engine: docker.DockerClient
) -> tuple[str, dict[str, Record]]:
    """(adapter, surface -> its record)."""
    name = request.param
    catalog = Catalog(REPOSITORY)
    surfaces = ["acp", "acp-nocaps", *(["cli"] if catalog.adapter(name).cli else [])]
    folder = tmp_path_factory.mktemp("agent")
    config = folder / "agent.yaml"
    config.write_text(SWEEP.format(adapter=name, surfaces=", ".join(surfaces)), encoding="utf-8")
    loaded = load_sweep(config, catalog)
    result = run_sweep(loaded, plan(loaded), Options(out=Path(folder / "out"), jobs=1), PlainProgress())
    records = {record.surface: record for record in SweepDir.read(result.directory).records()}
    assert sorted(records) == sorted(surfaces)
    return name, records


def test_it_repairs_the_fixture_on_every_surface(ran: tuple[str, dict[str, Record]]) -> None:
    for record in ran[1].values():
        assert (record.outcome, record.reason) == ("passed", "")
        exact = record.exact
        assert (exact["model_requests"], exact["tool_calls_served"], exact["files_changed"]) == (11, 10, 1)
        assert exact["tool_calls"] == 10
        assert record.agent is not None
        assert not record.agent.oom


def test_it_asks_as_measured(ran: tuple[str, dict[str, Record]]) -> None:
    name, records = ran
    facts = FACTS[name]
    nocaps = facts.asks if facts.asks_nocaps is None else facts.asks_nocaps
    for surface, asks in (("acp", facts.asks), ("acp-nocaps", nocaps)):
        exact = records[surface].exact
        assert by_kind(exact, "permission_requests_by_kind") == dict(asks)
        assert by_kind(exact, "tool_calls_by_kind") == dict(facts.kinds)
        assert (exact["default_mode"], exact["commands_announced"]) == (facts.default_mode, facts.commands)
        assert exact["stop_reason"] == "end_turn"


def test_it_uses_the_client_as_measured(ran: tuple[str, dict[str, Record]]) -> None:
    name, records = ran
    facts = FACTS[name]
    acp, nocaps = records["acp"].exact, records["acp-nocaps"].exact
    assert (acp["client_fs_calls"], acp["client_terminal_calls"]) == facts.callbacks
    assert acp["undeclared_calls"] == 0
    assert nocaps["undeclared_calls"] == facts.undeclared
    # What an agent calls without being told that it may is its defect, and all that is left to call.
    assert nocaps["client_fs_calls"] + nocaps["client_terminal_calls"] == facts.undeclared
    assert (acp["side_requests"], nocaps["side_requests"]) == facts.side
    assert acp["terminal_content_items"] == facts.terminal_items


def test_its_defects_are_findings(ran: tuple[str, dict[str, Record]]) -> None:
    name, records = ran
    facts = FACTS[name]
    for surface in ("acp", "acp-nocaps"):
        expected = facts.findings | ({"undeclared-method"} if surface == "acp-nocaps" and facts.undeclared else set())
        found = {finding.id for finding in records[surface].findings}
        assert found - facts.sometimes == expected - facts.sometimes


def test_its_command_line_is_understood(ran: tuple[str, dict[str, Record]]) -> None:
    _, records = ran
    if "cli" not in records:
        return
    record = records["cli"]
    assert record.turns[0].result_ns is not None
    assert not {finding.id for finding in record.findings} - {"process-left-behind"}
    assert record.exact["tokens_reported"] in (None, record.exact["tokens_served"])
    assert "other" not in by_kind(record.exact, "tool_calls_by_kind")
