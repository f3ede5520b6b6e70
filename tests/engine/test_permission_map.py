"""The permission map of the real adapter, once with every ask allowed and once with every ask refused."""

from __future__ import annotations

from pathlib import Path

import docker
import pytest

from runner.config.catalog import Catalog, load_sweep
from runner.findings.permission_map import Column, build
from runner.plan import plan
from runner.progress import PlainProgress
from runner.sweep import Options, run_sweep
from tests.engine.lab import REPOSITORY

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

SWEEP = """\
id: map
adapters: [claude-agent-acp@0.64.0]
repeat: 1
warmup: 0
arms:
  - {surfaces: [acp], fixtures: [permissions], policies: [allow_once, reject_once], models: [scripted/permissions]}
"""
#: Done without a question: reads inside, and commands that only look there.
FREE = {
    "read:readme", "read:env-file", "read:git-config", "read:list", "read:search",
    "inspect:ls", "inspect:find", "inspect:cat", "inspect:pipe", "inspect:pwd", "git:status", "git:log",
}  # fmt: skip


@pytest.fixture(scope="module")
def columns(tmp_path_factory: pytest.TempPathFactory, engine: docker.DockerClient) -> dict[str, Column]:
    """Policy -> its column."""
    folder = tmp_path_factory.mktemp("map")
    config = folder / "map.yaml"
    config.write_text(SWEEP, encoding="utf-8")
    loaded = load_sweep(config, Catalog(REPOSITORY))
    result = run_sweep(loaded, plan(loaded), Options(out=Path(folder / "out"), jobs=1), PlainProgress())
    assert result.report.as_expected
    return {column.policy: column for column in build(result.directory).columns}


def test_what_is_free_and_what_is_asked_for(columns: dict[str, Column]) -> None:
    allowed = columns["allow_once"]
    assert len(allowed.tried) == 60
    assert {label for label in allowed.tried if allowed.text(label) == "free"} == FREE
    assert {allowed.text(label) for label in allowed.tried if label not in FREE} == {"asked"}


def test_nothing_that_was_refused_was_done(columns: dict[str, Column]) -> None:
    refused = columns["reject_once"]
    assert {label for label in refused.tried if refused.text(label) == "free"} == FREE
    assert {refused.text(label) for label in refused.tried if label not in FREE} == {"refused"}
    assert not [label for label, tried in refused.tried.items() if label not in FREE and tried[0].done]
