"""The real adapter in the test suite: a full run on every surface, from its real image, with the scripted model."""

from __future__ import annotations

from pathlib import Path

import docker
import pytest

from runner.config.catalog import Catalog
from runner.config.loaded_sweep import load_sweep
from runner.config.plan import plan
from runner.evidence.conversation import Conversation
from runner.evidence.handshake import handshake
from runner.records.schema import PHASES, Record
from runner.records.store import SweepDir
from runner.sweep.progress import PlainProgress
from runner.sweep.sweep import Options, SweepResult, run_sweep
from runner.wire.log import read_frames
from tests.engine.lab import REPOSITORY

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

SURFACES = ("acp", "acp-nocaps", "cli", "acp-terminal-meta")
SWEEP = """\
id: real
arms:
  - adapters: [claude-agent-acp@0.64.0]
    surfaces: [{surfaces}]
    fixtures: [semver]
    models: [scripted/fix-semver]
repeat: {repeat}
warmup: 0
"""


def sweep(folder: Path, name: str, repeat: int) -> SweepResult:
    config = folder / f"{name}.yaml"
    config.write_text(SWEEP.format(surfaces=", ".join(SURFACES), repeat=repeat), encoding="utf-8")
    loaded = load_sweep(config, Catalog(REPOSITORY))
    return run_sweep(loaded, plan(loaded), Options(out=folder / name, jobs=1), PlainProgress())


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory, engine: docker.DockerClient) -> list[SweepResult]:
    """The same configuration run twice, every surface once."""
    folder = tmp_path_factory.mktemp("real")
    return [sweep(folder, name, 1) for name in ("one", "two")]


@pytest.fixture(scope="module")
def records(twice: list[SweepResult]) -> dict[str, Record]:
    return {record.surface: record for record in SweepDir.read(twice[0].directory).records()}


def test_every_surface_passes_the_fixture(twice: list[SweepResult], records: dict[str, Record]) -> None:
    assert [result.exit_code for result in twice] == [0, 0]
    assert sorted(records) == sorted(SURFACES)
    for record in records.values():
        assert (record.outcome, record.reason) == ("passed", "")
        assert record.verdict is not None
        assert (record.verdict.tests, record.verdict.passes) == (3, 3)
        assert [change.path for change in record.verdict.changes] == ["src/semver.js"]
        assert all(proof.ok for proof in record.proofs)
        assert {proof.name for proof in record.proofs} >= {"network", "user", "no-new-privileges", "workspace", "state"}


def test_exact_metrics_are_equal_in_two_sweeps(twice: list[SweepResult]) -> None:
    one, two = ({arm.name: arm.exact for arm in result.report.arms} for result in twice)
    assert one.keys() == two.keys()
    for name, exact in one.items():
        values = {metric: found.values for metric, found in exact.items()}
        again = {metric: found.values for metric, found in two[name].items()}
        for metric in ("frames", "late_updates"):  # information
            values.pop(metric)
            again.pop(metric)
        assert {m: v for m, v in values.items() if not m.startswith("update_chunks")} == {
            m: v for m, v in again.items() if not m.startswith("update_chunks")
        }


def test_what_the_study_says_of_this_adapter(records: dict[str, Record]) -> None:
    acp, nocaps, cli, meta = (records[name].exact for name in SURFACES)
    assert (acp["client_fs_calls"], acp["client_terminal_calls"]) == (0, 0)
    assert acp["undeclared_calls"] == nocaps["undeclared_calls"] == 0
    assert acp["tool_calls"] == nocaps["tool_calls"] == cli["tool_calls"] == acp["tool_calls_served"] >= 9
    kinds = [name for name in acp if name.startswith("tool_calls_by_kind.")]
    assert kinds
    assert {name: acp[name] for name in kinds} == {name: nocaps[name] for name in kinds}
    # Project code and edits ask, reads and inspection do not.
    assert acp["permission_requests"] == 5
    assert (acp["permission_requests_by_kind.execute"], acp["permission_requests_by_kind.edit"]) == (3, 2)
    assert cli["permission_requests"] is None
    assert acp["terminal_content_items"] == 0
    assert meta["terminal_content_items"] > 0
    assert acp["schema_violations"] == 0
    assert (acp["stop_reason"], acp["default_mode"]) == ("end_turn", "default")
    assert acp["commands_announced"] == 36


def test_the_agent_reports_the_tokens_that_were_served(records: dict[str, Record]) -> None:
    for record in records.values():
        assert record.exact["tokens_reported"] == record.exact["tokens_served"] > 0, record.surface


def test_every_phase_is_timed_and_every_sampled_metric_is_there(records: dict[str, Record]) -> None:
    acp, cli = records["acp"], records["cli"]
    assert [phase.name for phase in acp.phases] == list(PHASES)
    assert all(value is not None and value > 0 for value in acp.sampled.values()), acp.sampled
    absent = {name for name, value in cli.sampled.items() if value is None}
    assert absent == {"handshake_ms", "client_ms", "agent_ms"}
    agent = acp.sampled
    assert (agent["to_result_ms"] or 0) >= (agent["handshake_ms"] or 0) + (agent["turn_ms"] or 0)


def test_the_evidence_of_a_run_is_whole(twice: list[SweepResult]) -> None:
    for folder in (twice[0].directory / "runs").glob("*/1"):
        names = {path.name for path in folder.iterdir()}
        assert names >= {"record.json", "frames.jsonl", "model.jsonl", "stderr.log", "workspace.patch", "fsdiff.json"}
        assert b"src/semver.js" in (folder / "workspace.patch").read_bytes()


def test_both_surfaces_run_the_same_build_and_say_their_version(
    twice: list[SweepResult], records: dict[str, Record]
) -> None:
    (pins,) = twice[0].report.lock["adapters"].values()
    assert pins["same_build"] is True
    assert "2.1.220" in pins["programs"]["claude"]
    info = records["acp"].agent_info
    assert info is not None
    assert info["version"] == "0.64.0"


def test_the_handshake_is_read_from_the_frames(twice: list[SweepResult]) -> None:
    (folder,) = (twice[0].directory / "runs").glob("*--acp--*/1")
    hello = handshake(Conversation.of(read_frames(folder / "frames.jsonl")))
    assert hello.default_mode == "default"
