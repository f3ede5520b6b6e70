"""A sweep's ends: interrupted, killed, with a dead gateway, in parallel, resumed; nothing of ours is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import docker
import pytest

from runner.config.catalog import Catalog
from runner.config.loaded_sweep import load_sweep
from runner.config.plan import plan
from runner.errors import UsageError
from runner.gateway.journal import parse_journal
from runner.records.store import SweepDir
from runner.sandbox.labels import LABEL
from runner.sandbox.reaper import reap
from runner.sweep.progress import PlainProgress
from runner.sweep.sweep import Options, run_sweep
from tests.engine.lab import REPOSITORY, Lab, attempt, repaired

pytestmark = pytest.mark.engine

MODEL: dict[str, Any] = {"do": "model"}
REPAIR = {"do": "write", "path": "src/semver.js", "text": repaired()}
SLOW: list[dict[str, Any]] = [MODEL, REPAIR, {"do": "say", "text": "..."}, {"do": "sleep", "seconds": 3}]


def owned(engine: docker.DockerClient, pid: int) -> list[str]:
    """Names of the containers and volumes whose owner is the process `pid`."""

    def is_its(labels: dict[str, str]) -> bool:
        return labels[f"{LABEL}.owner"].split("|")[2] == str(pid)

    ours = {"label": f"{LABEL}.owner"}
    containers = engine.api.containers(all=True, filters=ours)
    volumes = engine.api.volumes(filters=ours)["Volumes"] or []
    names = [one["Names"][0] for one in containers if is_its(one["Labels"])]
    return names + [one["Name"] for one in volumes if is_its(one["Labels"])]


def command(
    lab: Lab,
    adapter: str,
    out: Path,
    repeat: int,
    *,
    model: str = "scripted/one-word",
    surfaces: Sequence[str] = ("acp",),
) -> subprocess.Popen[str]:
    lab.write(
        "sweeps",
        {
            "id": "cut",
            "arms": [
                {
                    "adapters": [adapter],
                    "surfaces": list(surfaces),
                    "fixtures": ["semver"],
                    "models": [model],
                }
            ],
            "repeat": repeat,
            "warmup": 0,
        },
    )
    argv = [
        sys.executable,
        "-m",
        "runner.cli",
        "--root",
        str(lab.root),
        "sweep",
        str(lab.root / "configs/sweeps/cut.yaml"),
    ]
    return subprocess.Popen(
        [*argv, "--out", str(out)], cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for(engine: docker.DockerClient, pid: int) -> None:
    deadline = time.monotonic() + 30
    while not any(one.endswith("-agent") for one in owned(engine, pid)):
        assert time.monotonic() < deadline, "the run did not start"
        time.sleep(0.05)


#: Acts that the gateway's death cuts short, once the model has been asked.
ORPHAN: list[dict[str, Any]] = [MODEL, REPAIR, {"do": "say", "text": "asked"}, {"do": "sleep", "seconds": 8}]


@contextlib.contextmanager
def the_gateway_killed(engine: docker.DockerClient, out: Path) -> Iterator[None]:
    """While the block runs a sweep of `ORPHAN` into `out`: its gateway dies in the first attempt."""

    def kill_the_gateway() -> None:
        deadline = time.monotonic() + 60
        while not any(b"asked" in path.read_bytes() for path in out.glob("runs/*/1/frames.jsonl")):
            assert time.monotonic() < deadline, "the model was not asked"
            time.sleep(0.05)
        for one in engine.api.containers(filters={"label": f"{LABEL}.run=gateway"}):
            if one["Labels"][f"{LABEL}.owner"].split("|")[2] == str(os.getpid()):
                engine.api.kill(one["Id"])

    killer = threading.Thread(target=kill_the_gateway)
    killer.start()
    yield
    killer.join()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_cleans_up_and_exits_130(
    lab: Lab, engine: docker.DockerClient, tmp_path: Path, number: int
) -> None:
    process = command(lab, lab.puppet(f"interrupt{number}", SLOW), tmp_path / "out", 3)
    wait_for(engine, process.pid)
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert "--resume" in said.splitlines()[-1]
    assert "Traceback" not in said
    assert owned(engine, process.pid) == []
    outcomes = [record.outcome for record in SweepDir.read(tmp_path / "out").records()]
    assert outcomes == ["aborted"]


def test_a_killed_sweep_is_reaped_and_resumed(lab: Lab, engine: docker.DockerClient, tmp_path: Path) -> None:
    adapter = lab.puppet("killed", SLOW)
    process = command(lab, adapter, tmp_path / "out", 2)
    wait_for(engine, process.pid)
    process.kill()
    process.communicate(timeout=30)
    assert owned(engine, process.pid) != []
    reap(engine)
    assert owned(engine, process.pid) == []

    half = SweepDir.read(tmp_path / "out")
    assert list(half.records()) == []
    assert len(half.unfinished()) == 1
    loaded = load_sweep(lab.root / "configs/sweeps/cut.yaml", Catalog(lab.root))
    result = run_sweep(loaded, plan(loaded), Options(tmp_path / "out", 1, resume=True), PlainProgress())
    assert result.exit_code == 0
    done = SweepDir.read(tmp_path / "out")
    assert Counter(record.cell for record in done.records()) == Counter(cell.name for cell in done.cells)
    assert len(done.unfinished()) == 1  # the attempt that was cut short stays


def test_a_resume_with_other_pins_is_refused(lab: Lab, tmp_path: Path) -> None:
    result, _ = lab.sweep(lab.puppet("pins", [MODEL, REPAIR]), out=tmp_path / "out")
    lock = result.directory / "lock.json"
    changed = json.loads(lock.read_text())
    changed["seed"] += 1
    lock.write_text(json.dumps(changed))
    (config,) = (lab.root / "configs/sweeps").glob("lab-*.yaml")
    loaded = load_sweep(config, Catalog(lab.root))
    with pytest.raises(UsageError, match="seed"):
        run_sweep(loaded, plan(loaded), Options(tmp_path / "out", 1, resume=True), PlainProgress())


def test_a_foreign_container_is_never_touched(lab: Lab, engine: docker.DockerClient) -> None:
    image = engine.images.list(filters={"label": LABEL})[0].id
    foreign = engine.api.create_container(image, ["true"], labels={"someone": "else"}, network_disabled=True)["Id"]
    try:
        reap(engine)
        lab.sweep(lab.puppet("foreign", [MODEL, REPAIR]))
        assert engine.api.inspect_container(foreign)["Id"] == foreign
    finally:
        engine.api.remove_container(foreign)


def test_a_dead_gateway_ends_its_runs_at_once_and_they_are_tried_again(
    lab: Lab, engine: docker.DockerClient, tmp_path: Path
) -> None:
    adapter = lab.puppet("orphan", ORPHAN)
    out = tmp_path / "out"
    with the_gateway_killed(engine, out):
        result, records = lab.sweep(adapter, out=out)
    assert [record.outcome for record in records] == ["infra", "passed"]
    assert "model gateway" in records[0].reason
    # Well before the agent would have been done by itself.
    assert records[0].agent is not None
    assert records[0].agent.exit_ns is not None
    assert (records[0].agent.exit_ns - records[0].agent.spawn_ns) / 1e9 < 6
    # The next gateway hands out what the dead one had written.
    left = parse_journal((attempt(result, records[0]) / "model.jsonl").read_bytes().split(b"\n"))
    assert [(entry.kind, entry.step, entry.run) for entry in left] == [("main", 0, "<run>")]
    assert result.exit_code == 0
    assert any(warning.id == "earlier-attempt" for arm in result.report.arms for warning in arm.warnings)


def test_parallel_runs_do_not_mix(lab: Lab) -> None:
    result, records = lab.sweep(lab.puppet("parallel", [MODEL, REPAIR]), repeat=4, jobs=4)
    assert [record.outcome for record in records] == ["passed"] * 4
    (arm,) = result.report.arms
    assert arm.outcomes == {"passed": 4}


def test_a_program_that_is_not_its_pin_stops_the_sweep_before_any_run(lab: Lab, tmp_path: Path) -> None:
    from runner.errors import BuildError

    wrong = [{"name": "python", "command": ["/usr/bin/python3", "--version"], "expect": "Python 2"}]
    with pytest.raises(BuildError, match="Python 2"):
        lab.sweep(lab.puppet("wrong", [MODEL], programs=wrong), out=tmp_path / "out")
    assert not (tmp_path / "out" / "runs").exists()
