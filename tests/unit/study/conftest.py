"""The undoctored study, written once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from runner.study.build import build
from runner.study.model import ClaimFinding
from tests.unit.study.folder import StudyFolder
from tests.unit.study.undoctored import study


@dataclass(frozen=True)
class Measured:
    """A folder and what was found in it, by id."""

    directory: Path
    findings: dict[str, ClaimFinding]


def measure(lab: StudyFolder, directory: Path) -> Measured:
    lab.write(directory)
    return Measured(directory, {one.id: one for one in build(directory).findings})


@pytest.fixture(scope="session")
def undoctored(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measure(study(), tmp_path_factory.mktemp("study") / "dir")
