"""An agent that floods the gateway, beside a good one: the flood is its own, the other's run is as it always is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import docker
import pytest

from runner.config.catalog import Catalog
from runner.config.loaded_sweep import load_sweep
from runner.config.plan import plan
from runner.evidence.metrics import is_information
from runner.gateway.journal import LoggedEntries
from runner.records.schema import Record
from runner.records.store import SweepDir
from runner.sweep.progress import PlainProgress
from runner.sweep.sweep import Options, SweepResult, run_sweep
from tests.engine.lab import Act, Lab, attempt, repaired

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

REPAIR: list[Act] = [{"do": "model"}, {"do": "write", "path": "src/semver.js", "text": repaired()}]
GOOD = "neighbour"
FLOODS: dict[str, list[Act]] = {
    "unending": [{"do": "unending", "connections": 196, "seconds": 20}],
    "large": [{"do": "ask-model", "bytes": 9_900_000, "times": 12}],
    "values": [{"do": "ask-model", "raw": "{},", "repeat": 3_000_000, "times": 3}],
    "pipelined": [{"do": "http", "text": "GET {path}/v1/models HTTP/1.1\r\nHost: x\r\n\r\n", "times": 5000}],
    "connections": [{"do": "http", "text": "", "connections": 300}],
    "stuck": [
        {"do": "http", "text": "POST {path}/v1/messages HTTP/1.1\r\nHost: x\r\n", "connections": 60, "hold": 0.01}
    ],
}
#: Floods that no bound is there for: they are just large.
WITHIN = {"large", "stuck"}


def sweep(lab: Lab, adapters: list[str], jobs: int, **more: Any) -> tuple[SweepResult, dict[str, list[Record]]]:
    """Records by adapter; the arms take turns, so that with two jobs a flood runs beside a good run."""
    matrix = {"adapters": adapters, "surfaces": ["acp"], "fixtures": ["semver"], "models": ["scripted/one-word"]}
    body = {"id": "flooded", "arms": [matrix], "repeat": 2, "warmup": 0, "infra_attempts": 2, **more}
    lab.write("sweeps", body)
    loaded = load_sweep(lab.root / "configs/sweeps/flooded.yaml", Catalog(lab.root))
    out = lab.root / f"out-{jobs}"
    result = run_sweep(loaded, plan(loaded), Options(out=out, jobs=jobs), PlainProgress())
    records: dict[str, list[Record]] = {}
    for record in SweepDir.read(out).records():
        records.setdefault(record.adapter.partition("@")[0], []).append(record)
    return result, records


def exact(record: Record) -> dict[str, Any]:
    return {name: value for name, value in record.exact.items() if not is_information(name)}


@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_is_its_own_runs_trouble(flood: str, lab: Lab, engine: docker.DockerClient) -> None:
    limits = {"memory_mb": 1024, "pids": 512, "disk_mb": 64}
    flooding = lab.puppet("flooding", [*FLOODS[flood], *REPAIR], limits=limits)
    good = lab.puppet(GOOD, REPAIR)
    result, records = sweep(lab, [flooding, good], jobs=2)
    assert [(one.outcome, one.attempt) for one in records[GOOD]] == [("passed", 1)] * 2
    assert len({str(exact(one)) for one in records[GOOD]}) == 1
    assert [one.findings for one in records[GOOD]] == [[]] * 2
    # Its own doing: never ours, so never tried again.
    assert [one.attempt for one in records["flooding"]] == [1, 1]
    for one in records["flooding"]:
        assert one.outcome in ("passed", "agent-error", "model-script", "task-failed"), one.reason
        found = {finding.id for finding in one.findings}
        assert ("gateway-limit" in found) == (flood not in WITHIN), found
        entries = LoggedEntries(attempt(result, one) / "model.jsonl")
        assert any(entry.limit is not None for entry in entries) == (flood not in WITHIN)


def test_a_run_keeps_no_more_of_its_requests_than_it_may(lab: Lab) -> None:
    adapter = lab.puppet("talker", [{"do": "ask-model", "bytes": 400_000, "times": 10}, *REPAIR])
    result, (record,) = lab.sweep(adapter, knobs={"model_cap_mb": 2, "model_request_mb": 1})
    assert record.outcome == "passed"
    assert record.exact["model_requests"] == 11
    assert record.cut["model_bodies"] == 6
    assert record.cut["model_bytes"] > 2_400_000
    path: Path = attempt(result, record) / "model.jsonl"
    assert path.stat().st_size < 2_300_000
    entries = list(LoggedEntries(path))
    assert [entry.request.cut for entry in entries] == [False] * 4 + [True] * 6 + [False]
    assert all(entry.request.sha256 for entry in entries if entry.request.cut)


def test_a_request_above_the_knob_is_refused_and_the_finding_names_it(lab: Lab) -> None:
    adapter = lab.puppet("loud", [{"do": "ask-model", "bytes": 1_100_000}, *REPAIR])
    _, (record,) = lab.sweep(adapter, knobs={"model_request_mb": 1})
    assert record.outcome == "passed"
    (finding,) = record.findings
    assert finding.id == "gateway-limit"
    assert "at most 1000000 are served (knob model_request_mb)" in finding.message
