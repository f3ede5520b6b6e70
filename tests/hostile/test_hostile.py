"""The hostile table: every case ends as it must, with its findings, while our own memory stays flat."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest
from ruamel.yaml import YAML
from tabulate import tabulate

from runner.records.schema import Record
from runner.records.store import SweepDir
from tests.engine.lab import Lab, repaired
from tests.hostile.measured import PEAK_MB, measured

pytestmark = [pytest.mark.hostile, pytest.mark.long, pytest.mark.timeout(2400)]

CASES: list[dict[str, Any]] = [
    case
    for name in ("cases.yaml", "siblings.yaml")
    for case in YAML(typ="safe", pure=True).load(Path(__file__).with_name(name))
]
#: Said of every puppet: it is no defect of the case.
ALWAYS = {"schema-newest-invalid"}
DEADLINES = {
    "initialize": 1.5,
    "session_new": 1.5,
    "first_update": 1.5,
    "silence": 1.5,
    "turn": 3.0,
    "cancel_grace": 0.4,
    "exit": 1.5,  # a busy machine may keep an agent that does exit from it
    "terminate": 0.4,
}
REPAIR = {"do": "write", "path": "src/semver.js", "text": repaired()}
REST = [{"do": "prompt"}, {"do": "model"}, REPAIR]
WORDS: dict[str, list[dict[str, Any]]] = {
    "good": [{"do": "handshake"}, *REST],
    "rest": REST,
    "repair": [REPAIR],
    "done": [{"do": "end"}],
}


def acts(case: dict[str, Any]) -> list[dict[str, Any]]:
    """The acts of a case, or those within one, words written out; a word of no list is an act without arguments."""
    found: list[dict[str, Any]] = []
    for one in case["acts"]:
        if isinstance(one, str):
            found += WORDS.get(one, [{"do": one}])
        else:
            found.append({**one, "acts": acts(one)} if "acts" in one else one)
    return found


def cancelling(case: dict[str, Any]) -> dict[str, Any]:
    """The policy of a case whose user cancels; whoever is to stop in time has more than a moment for it."""
    if "cancel" not in case:
        return {}
    policy = {"id": f"cancel-{case['cancel']}", "cancel": {"at": case["cancel"]}}
    slow = {} if case["outcome"] == "timeout:cancel_grace" else {"knobs": {"deadlines": {"cancel_grace": 10.0}}}
    return {"policies": [policy], **slow}


@dataclass(frozen=True)
class DriverResult:
    """The sweep of all cases: records by case, exit code, peak memory in MB, what it said; the gateway's peak."""

    records: dict[str, Record]
    exit_code: int
    peak_mb: float
    said: str
    gateway_mb: float


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> DriverResult:
    assert len({case["name"] for case in CASES}) == len(CASES), "two cases have one name"
    folder = tmp_path_factory.mktemp("hostile")
    lab = Lab(folder / "lab")
    lab.write("surfaces", {"id": "acp-second-prompt", "transport": "acp", "probes": [{"do": "prompt"}]})
    matrices = []
    for case in CASES:
        # A case with a turn of its own needs it for sheer volume.
        limits = {"memory_mb": 512, "pids": 128, "disk_mb": 256}
        adapter = lab.puppet(case["name"], acts(case), mode=["wire"], limits=limits)
        matrices.append(
            {
                "adapters": [adapter],
                "surfaces": [case.get("surface", "acp")],
                "fixtures": ["semver"],
                "models": ["scripted/one-word"],
                "expect": case["outcome"],
                **cancelling(case),
            }
        )
    slow = {case["name"] for case in CASES if "turn" in case}
    sweeps: dict[str, list[dict[str, Any]]] = {"quick": [], "slow": []}
    for matrix, case in zip(matrices, CASES, strict=True):
        sweeps["slow" if case["name"] in slow else "quick"].append(matrix)
    records: dict[str, Record] = {}
    codes, peaks, gateways, said = [], [], [], ""
    for name, arms in sweeps.items():
        deadlines = {**DEADLINES, **({"turn": 60.0, "silence": 20.0} if name == "slow" else {})}
        knobs = {"deadlines": deadlines, "frames_cap_mb": 8, "stderr_cap_mb": 4}
        body = {"id": name, "arms": arms, "repeat": 1, "warmup": 0, "infra_attempts": 1, "knobs": knobs}
        lab.write("sweeps", body)
        seen = measured(lab, name, folder / name)
        codes.append(seen.exit_code)
        peaks.append(seen.peak_mb)
        gateways.append(seen.gateway_mb)
        said += seen.said
        records |= {one.adapter.partition("@")[0]: one for one in SweepDir.read(folder / name).records()}
    return DriverResult(records, max(codes), max(peaks), said, max(gateways))


def test_the_table(played: DriverResult, engine: docker.DockerClient) -> None:
    rows = []
    for case in CASES:
        record = played.records.get(case["name"])
        got = record.outcome if record else "missing"
        rows.append((case["name"], case["outcome"], got, "" if got == case["outcome"] else record and record.reason))
    print(tabulate(rows, headers=["case", "expected", "got", ""]))
    assert [row for row in rows if row[1] != row[2]] == []
    assert len(rows) >= 40
    assert played.exit_code == 0, played.said
    assert "Traceback" not in played.said


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_the_findings(played: DriverResult, case: dict[str, Any]) -> None:
    record = played.records[case["name"]]
    found = Counter(finding.id for finding in record.findings if finding.id not in ALWAYS)
    wanted = set(case.get("findings", []))
    assert wanted <= set(found), found
    assert not set(case.get("never", [])) & set(found)
    if case.get("clean"):
        assert not found
    if "survivors" in case:
        assert record.agent is not None
        assert len(record.agent.survivors) == case["survivors"]


@pytest.mark.parametrize("case", [one for one in CASES if "stop" in one], ids=lambda case: str(case["name"]))
def test_what_became_of_a_cancelled_turn(played: DriverResult, case: dict[str, Any]) -> None:
    record = played.records[case["name"]]
    assert record.exact["cancel_during"] == case["cancel"]
    assert record.exact["cancel_stop"] == case["stop"]
    assert record.exact["cancel_asks"] == (case["cancel"] == "ask")
    assert (record.sampled["cancel_to_stop_ms"] is None) == (case["stop"] is None)
    assert record.turns[0].cancelled


def test_our_memory_stays_flat(played: DriverResult) -> None:
    print(f"peak memory of the command over {len(CASES)} cases: {played.peak_mb:.0f} MB")
    assert played.peak_mb < PEAK_MB
    assert 0 < played.gateway_mb < PEAK_MB


def test_every_case_has_a_record_that_reads(played: DriverResult) -> None:
    assert len(played.records) == len(CASES)
    assert all(json.loads(record.model_dump_json())["outcome"] for record in played.records.values())
