"""The nightly job's recipes: what they run is there, and what they pass is understood."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.main import get_command

from runner.cli.app import app
from runner.config.catalog import Catalog
from runner.config.loaded_sweep import load_sweep
from runner.config.plan import plan

ROOT = Path(__file__).parents[2]
WORKFLOW: dict[str, Any] = YAML(typ="safe").load(ROOT / ".github/workflows/nightly.yml")
STEPS: list[dict[str, Any]] = WORKFLOW["jobs"]["nightly"]["steps"]


def test_the_recipe_parses_and_may_be_run() -> None:
    path = ROOT / ".ci/nightly"
    assert path.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", str(path)], check=True)


def test_every_step_is_an_action_or_a_command() -> None:
    assert all(("uses" in step) != ("run" in step) for step in STEPS)
    assert WORKFLOW["permissions"] == {"contents": "read"}
    for step in STEPS:
        if "run" in step:
            subprocess.run(["bash", "-n", "-c", step["run"]], check=True)


@pytest.mark.parametrize("line", [step["run"] for step in STEPS if "run" in step])
def test_options_are_ours(line: str) -> None:
    verb = "nightly" if ".ci/nightly" in line else line.split("acpbench ")[1].split()[0]
    command = get_command(app).commands[verb]  # type: ignore[attr-defined]
    known = {option for parameter in command.params for option in parameter.opts}
    assert set(re.findall(r"--[a-z-]+", line)) - {"--preserve-env"} <= known


def test_the_shipped_nightly_holds_every_surface_against_its_twin() -> None:
    loaded = load_sweep(ROOT / WORKFLOW["on"]["workflow_dispatch"]["inputs"]["config"]["default"], Catalog(ROOT))
    assert loaded.sweep.compare is not None
    assert loaded.sweep.compare.gate == "default"
    arms = {cell.arm for cell in plan(loaded)}
    assert {arm.removesuffix("--twin") for arm in arms} == {arm for arm in arms if not arm.endswith("--twin")}
