"""Two sweeps on one host at once: each ends whole, and neither takes what is the other's for a leftover."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import docker
import pytest

from runner.evidence.metrics import is_information
from runner.records.store import SweepDir
from runner.sandbox.labels import LABEL, Owner
from tests.engine.lab import REPOSITORY, Act, Lab, repaired

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(300)]

ACTS: list[Act] = [
    {"do": "model"},
    {"do": "write", "path": "src/semver.js", "text": repaired()},
    {"do": "sleep", "seconds": 0.5},
]
RUNS = 4


def start(lab: Lab, adapter: str, out: Path) -> subprocess.Popen[str]:
    matrix = {"adapters": [adapter], "surfaces": ["acp"], "fixtures": ["semver"], "models": ["scripted/one-word"]}
    body = {"id": out.name, "arms": [matrix], "repeat": RUNS, "warmup": 0, "infra_attempts": 1, "jobs": 2}
    lab.write("sweeps", body)
    argv = ["-m", "runner.cli", "--root", str(lab.root), "sweep", f"{lab.root}/configs/sweeps/{out.name}.yaml"]
    return subprocess.Popen(
        [sys.executable, *argv, "--out", str(out)],
        cwd=REPOSITORY,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def owned(client: docker.DockerClient, pids: set[int]) -> dict[int, int]:
    """Containers and volumes of the processes `pids`, counted by pid."""
    labelled = {"label": f"{LABEL}.owner"}
    things = client.api.containers(all=True, filters=labelled)
    things += client.api.volumes(filters=labelled)["Volumes"] or []
    owners = [Owner.parse(thing["Labels"][f"{LABEL}.owner"]) for thing in things]
    return {pid: sum(owner is not None and owner.pid == pid for owner in owners) for pid in pids}


def test_two_sweeps_at_once_are_both_whole(lab: Lab, engine: docker.DockerClient, tmp_path: Path) -> None:
    adapter = lab.puppet("neighbour", ACTS)
    first = start(lab, adapter, tmp_path / "first")
    while not owned(engine, {first.pid})[first.pid]:
        assert first.poll() is None
        time.sleep(0.05)
    # The second one starts, and reaps what dead owners left, while the first one has containers and volumes.
    second = start(lab, adapter, tmp_path / "second")
    together = False
    while first.poll() is None and second.poll() is None:
        together = together or all(owned(engine, {first.pid, second.pid}).values())
        time.sleep(0.1)
    said = [process.communicate(timeout=200)[1] for process in (first, second)]
    assert together
    assert [first.returncode, second.returncode] == [0, 0], said
    for name in ("first", "second"):
        records = list(SweepDir.read(tmp_path / name).records())
        assert [record.outcome for record in records] == ["passed"] * RUNS
        counts = {name: len({str(record.exact[name]) for record in records}) for name in records[0].exact}
        assert {name for name, values in counts.items() if values > 1 and not is_information(name)} == set()
    assert set(owned(engine, {first.pid, second.pid}).values()) == {0}
