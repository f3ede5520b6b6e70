"""The permission map of the real adapter, once with every ask allowed and once with every ask refused."""

from __future__ import annotations

from pathlib import Path

import docker
import pytest

from runner.config.catalog import Catalog
from runner.config.loaded_sweep import load_sweep
from runner.config.plan import plan
from runner.records.store import SweepDir
from runner.study.permission_map import Column, build
from runner.sweep.progress import PlainProgress
from runner.sweep.sweep import Options, SweepResult, run_sweep
from tests.engine.lab import REPOSITORY

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(300)]

SWEEP = """\
id: map
adapters: [claude-agent-acp@0.64.0]
repeat: 1
warmup: 0
arms:
  - {surfaces: [acp], fixtures: [permissions], policies: [allow_once, reject_once], models: [scripted/permissions]}
  - {surfaces: [acp-names], fixtures: [permissions], policies: [allow_once], models: [scripted/permissions]}
"""
#: Done without a question: reads inside, and commands that only look there.
FREE = {
    "read:readme", "read:env-file", "read:git-config", "read:list", "read:search",
    "inspect:ls", "inspect:find", "inspect:cat", "inspect:pipe", "inspect:pwd", "git:status", "git:log",
}  # fmt: skip


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory, engine: docker.DockerClient) -> SweepResult:
    folder = tmp_path_factory.mktemp("map")
    config = folder / "map.yaml"
    config.write_text(SWEEP, encoding="utf-8")
    loaded = load_sweep(config, Catalog(REPOSITORY))
    result = run_sweep(loaded, plan(loaded), Options(out=Path(folder / "out"), jobs=1), PlainProgress())
    assert result.report.as_expected
    return result


@pytest.fixture(scope="module")
def columns(swept: SweepResult) -> dict[str, Column]:
    """Policy -> its column, of the plain surface."""
    return {column.policy: column for column in build(swept.directory).columns if column.surface == "acp"}


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


def test_every_host_name_that_was_tried_is_known_and_changes_nothing_else(swept: SweepResult) -> None:
    arms = {arm.surface: arm for arm in swept.report.arms if arm.policy == "allow_once"}
    heard = arms["acp-names"]
    names = {name: one.value for name, one in heard.exact.items() if name.startswith("names_tried")}
    assert names == {
        "names_tried": 3,
        "names_tried.git.example.invalid": True,
        "names_tried.node.example.invalid": True,
        "names_tried.python.example.invalid": True,
    }
    assert arms["acp"].value("names_tried") is None
    assert heard.value("permission_requests") == arms["acp"].value("permission_requests")
    record = next(record for record in SweepDir.read(swept.directory).records() if record.surface == "acp-names")
    assert "process-left-behind" not in {finding.id for finding in record.findings}


SHORT_LIVED = """\
id: acp-short-lived
transport: acp
resolver:
  command:
    - /usr/bin/python3
    - -c
    - "import socket, time; s = socket.socket(2, 2); s.bind(('127.0.0.1', 53)); time.sleep(1)"
  query: "(never)"
"""


def test_a_resolver_that_ends_early_is_found_and_nothing_is_counted(
    tmp_path: Path, engine: docker.DockerClient
) -> None:
    for folder in ("adapters", "models", "gates"):
        (tmp_path / "configs").mkdir(exist_ok=True)
        (tmp_path / "configs" / folder).symlink_to(REPOSITORY / "configs" / folder)
    for folder in ("fixtures", "images"):
        (tmp_path / folder).symlink_to(REPOSITORY / folder)
    (tmp_path / "configs/surfaces").mkdir()
    (tmp_path / "configs/surfaces/acp-short-lived.yaml").write_text(SHORT_LIVED)
    config = tmp_path / "short.yaml"
    config.write_text(
        "id: short\nadapters: [claude-agent-acp@0.64.0]\nrepeat: 1\nwarmup: 0\n"
        "arms: [{surfaces: [acp-short-lived], fixtures: [semver], models: [scripted/fix-semver]}]\n"
    )
    loaded = load_sweep(config, Catalog(tmp_path))
    result = run_sweep(loaded, plan(loaded), Options(out=tmp_path / "out", jobs=1), PlainProgress())
    (record,) = SweepDir.read(result.directory).records()
    assert record.outcome == "passed"
    assert "resolver-died" in {finding.id for finding in record.findings}
    assert record.exact["names_tried"] is None
