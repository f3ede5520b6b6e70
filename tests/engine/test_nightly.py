"""Judged sweeps on the real engine: A/A, a delay, a policy, a missing cell, confirmation, and the nightly recipes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.engine.lab import REPOSITORY, Lab, repaired

pytestmark = [pytest.mark.engine, pytest.mark.long]

MODEL: dict[str, Any] = {"do": "model"}
REPAIR = {"do": "write", "path": "src/semver.js", "text": repaired()}
#: Seconds: far above what a busy machine adds to a puppet's run.
DELAY = 0.6


def sweep_of(lab: Lab, arms: Sequence[dict[str, Any]], repeat: int, **compare: str) -> Path:
    shared = {"surfaces": ["acp"], "fixtures": ["semver"], "models": ["scripted/one-word"]}
    body = {"id": "judged", "arms": [{**shared, **one} for one in arms], "repeat": repeat, "warmup": 0}
    lab.write("sweeps", body | {"compare": compare})
    return lab.root / "configs/sweeps/judged.yaml"


def acpbench(lab: Lab, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "runner.cli", "--root", str(lab.root), *args],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=110, env={**os.environ, **env}, check=False,
    )  # fmt: skip


def late(lab: Lab, name: str) -> str:
    """The puppet, started by a shell that waits first."""
    adapter = lab.puppet(name, [MODEL, REPAIR])
    file = lab.root / "configs/adapters" / f"{name}-1.yaml"
    body = json.loads(file.read_text())
    command = body["acp"]["command"]
    body["acp"]["command"] = ["/bin/sh", "-c", f'sleep {DELAY}; exec "$@"', "sh", *command]
    file.write_text(json.dumps(body))
    return adapter


def verdicts(directory: Path) -> dict[str, dict[str, Any]]:
    found = json.loads((directory / "verdicts.json").read_text())
    return {one["metric"]: one for one in found["verdicts"]}


@pytest.mark.timeout(240)
def test_a_delay_is_confirmed_and_fails_the_night(lab: Lab, tmp_path: Path) -> None:
    config = sweep_of(
        lab,
        [{"adapters": [lab.puppet("quick", [MODEL, REPAIR]), late(lab, "late")]}],
        repeat=5,
        base="quick-*",
        new="late-*",
    )
    out, page = tmp_path / "out", tmp_path / "page.md"
    done = acpbench(
        lab, "nightly", str(config), "--out", str(out), "--history", str(tmp_path / "history"),
        GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(page),
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert done.stdout.splitlines()[-1] == str(out)
    found = verdicts(out)
    for metric in ("handshake_ms", "to_result_ms"):
        assert (found[metric]["verdict"], found[metric]["flags"][-1]) == ("regressed", "confirmed")
        assert found[metric]["shift"] == pytest.approx(1000 * DELAY, rel=0.25)
    assert {one["verdict"] for one in found.values() if one["kind"] == "exact"} == {"same-exact"}
    # The fresh half is a sweep of its own.
    assert len(list((out / "confirm-1/runs").iterdir())) == 10
    assert "::error title=handshake_ms regressed::" in done.stdout
    assert page.read_text() == (out / "summary.md").read_text()
    assert int(ET.parse(out / "junit.xml").getroot().get("failures", "")) == 2
    assert "regressed" in (out / "report.html").read_text()
    (night,) = (tmp_path / "history").iterdir()
    assert night.match("out-*Z.parquet")


def test_a_policy_that_changed_is_exact(lab: Lab, tmp_path: Path) -> None:
    """The real adapter asks less often once it may always."""
    (lab.root / "configs/adapters/claude-agent-acp-0.64.0.yaml").symlink_to(
        REPOSITORY / "configs/adapters/claude-agent-acp-0.64.0.yaml"
    )
    (lab.root / "configs/models/fix-semver.yaml").symlink_to(REPOSITORY / "configs/models/fix-semver.yaml")
    arm = {"adapters": ["claude-agent-acp@0.64.0"], "models": ["scripted/fix-semver"]}
    config = sweep_of(
        lab, [{**arm, "policies": ["allow_once", "allow_always"]}], 1, base="*--allow_once--*", new="*--allow_always--*"
    )
    done = acpbench(lab, "sweep", str(config), "--confirm", "--out", str(tmp_path / "out"))
    assert done.returncode == 2, done.stderr
    done = acpbench(lab, "compare", str(tmp_path / "out"), "--format", "json")
    asks = {one["metric"]: one for one in json.loads(done.stdout)["verdicts"]}["permission_requests"]
    assert (asks["verdict"], done.returncode) == ("changed-exact", 2)
    assert asks["base"] > asks["new"]


def test_twins_of_few_runs_are_insufficient_and_a_missing_cell_outranks_all(lab: Lab, tmp_path: Path) -> None:
    config = sweep_of(
        lab, [{"adapters": [lab.puppet("twin", [MODEL, REPAIR])], "twin": True}], 3, base="*--container", new="*--twin"
    )
    out = tmp_path / "out"
    (tmp_path / "a file").touch()
    done = acpbench(lab, "nightly", str(config), "--out", str(out), "--history", str(tmp_path / "a file"))
    # A history that cannot be written fails the night, and costs nothing of it.
    assert done.returncode == 1, done.stderr
    assert "cannot be written" in done.stderr
    assert "too few runs to tell" in done.stdout
    assert acpbench(lab, "history", "--add", str(out), "--history", str(tmp_path / "history")).returncode == 0
    assert acpbench(lab, "compare", str(out)).returncode == 0
    found = verdicts(out)
    assert (found["to_result_ms"]["verdict"], found["to_result_ms"]["required_n"]) == ("insufficient", 5)
    assert acpbench(lab, "compare", str(out), "--strict").returncode == 2
    # A record that is not there is a cell that never ran.
    (record,) = (out / "runs").glob("*--twin--r3/1/record.json")
    record.unlink()
    assert acpbench(lab, "compare", str(out)).returncode == 1


def test_a_baseline_that_does_not_fit_costs_no_night(lab: Lab, tmp_path: Path) -> None:
    """The runs are made when that is found out: all of them is told and kept, and the job fails for the reason."""
    mine, other = ([{"adapters": [lab.puppet(name, [MODEL, REPAIR])], "twin": True}] for name in ("mine", "other"))
    twins = {"base": "*--container", "new": "*--twin"}
    other[0] |= {"surfaces": ["acp-nocaps"]}
    done = acpbench(lab, "sweep", str(sweep_of(lab, other, 1, **twins)), "--out", str(tmp_path / "other"))
    assert done.returncode == 0, done.stderr
    assert acpbench(lab, "baseline", str(tmp_path / "other"), "others").returncode == 0
    out = tmp_path / "out"
    config = sweep_of(lab, mine, 1, **twins, baseline="others")
    done = acpbench(lab, "nightly", str(config), "--out", str(out), "--history", str(tmp_path / "history"))
    assert done.returncode == 64, done.stderr
    assert "baseline others: nothing can be compared" in done.stderr
    assert "too few runs to tell" in done.stdout
    assert (out / "summary.md").read_text().startswith("**Not comparable:** baseline others: nothing")
    assert len(list((tmp_path / "history").iterdir())) == 1


@pytest.mark.timeout(600)
def test_the_workflow_s_commands_do_what_they_say(tmp_path: Path) -> None:
    """Every `run:` line of the GitHub workflow, with its environment, as bash runs it there; `sudo` is us already."""
    workflow = YAML(typ="safe").load(REPOSITORY / ".github/workflows/nightly.yml")
    (tmp_path / "sudo").write_text('#!/bin/sh\n[ "$1" = --preserve-env ] && shift\nexec "$@"\n')
    (tmp_path / "sudo").chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "CONFIG": workflow["on"]["workflow_dispatch"]["inputs"]["config"]["default"],
        "REPEAT": "1",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }
    before = {path.name for path in (REPOSITORY / "results").glob("history/*")}
    try:
        for step in workflow["jobs"]["nightly"]["steps"]:
            if "run" in step:
                line = step["run"].replace("--out nightly", f"--out {tmp_path / 'nightly'}")
                line = line.replace("nightly/to_result_ms.png", str(tmp_path / "to_result_ms.png"))
                done = subprocess.run(
                    ["bash", "-e", "-o", "pipefail", "-c", line],
                    cwd=REPOSITORY,
                    env=env,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        assert {"junit.xml", "report.html", "summary.md", "verdicts.json", "runs.csv"} <= {
            path.name for path in (tmp_path / "nightly").iterdir()
        }
        assert "too few runs to tell" in (tmp_path / "summary.md").read_text()
        assert (tmp_path / "to_result_ms.png").stat().st_size > 1000
    finally:
        for path in (REPOSITORY / "results/history").glob("*"):
            if path.name not in before:
                path.unlink()
