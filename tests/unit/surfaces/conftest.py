"""A driver on a stage, played to its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.surfaces.acp.driver import AcpDriver
from runner.surfaces.driver import DriverResult
from tests.unit.surfaces.stage import Guest, Script, Stage

Play = Callable[..., DriverResult]


@pytest.fixture
def stages(tmp_path: Path) -> Iterator[list[Stage]]:
    made: list[Stage] = []
    yield made
    for stage in made:
        stage.close()


@pytest.fixture
def play(tmp_path: Path, stages: list[Stage]) -> Play:
    def run(script: Script, *, guest: Guest | None = None, obeys: str = "eof", **scene: Any) -> DriverResult:
        stage = Stage(tmp_path, script, guest=guest, obeys=obeys)
        stages.append(stage)
        return AcpDriver(stage.scene(**scene)).run()

    return run
