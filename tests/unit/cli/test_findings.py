"""`acpbench findings` and the ways `acpbench frames` opens evidence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from runner.cli import main
from runner.config.loader import load
from runner.config.sweep import Sweep
from runner.errors import ConfigError
from runner.study.build import build
from runner.study.claims import CLAIMS
from tests.unit.study.folder import StudyFolder
from tests.unit.study.undoctored import study

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    arms = study().arms
    return StudyFolder({name: arms[name] for name in ("boundary", "refused")}, None).write(
        tmp_path_factory.mktemp("f") / "dir"
    )


@pytest.fixture
def run(directory: Path) -> str:
    return str(next((directory / "runs").iterdir()) / "1")


@pytest.mark.parametrize("form", ["table", "markdown", "json"])
def test_it_prints(form: str, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["findings", str(directory), "--format", form]) == 0
    out = capsys.readouterr().out
    assert "boundary-leaks" in out if form == "json" else "Boundary map" in out


def test_it_writes_a_file(directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["findings", str(directory), "--format", "json", "-o", str(tmp_path / "f.json")]) == 0
    assert capsys.readouterr().out == ""
    assert json.loads((tmp_path / "f.json").read_text())["findings"]


def test_no_sweep_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["findings", str(tmp_path)]) == 64
    assert "not a sweep's folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "there"),
    [
        (["--model", "1"], '"seq": 1'),
        (["--file", "note.txt"], '"changed"'),
        (["--record", "planted.0"], '"sha256"'),
        (["--seq", "0"], '"initialize"'),
    ],
)
def test_evidence_opens(args: list[str], there: str, run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["frames", run, *args]) == 0
    assert there in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--model", "99"], "has no entry 99"),
        (["--record", "nothing"], "has no nothing"),
        (["--model", "1", "--seq", "1"], "one of --seq, --model, --file, --record, --with-model at a time"),
        (["--model", "1", "--with-model"], "one of --seq, --model, --file, --record, --with-model at a time"),
        (["--model", "1", "--file", "a"], "one of --seq, --model, --file, --record, --with-model at a time"),
    ],
)
def test_what_is_not_there_is_one_line(
    args: list[str], words: str, run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["frames", run, *args]) == 64
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1


def test_published_figures_are_those_of_the_sweeps_own_configuration(directory: Path, tmp_path: Path) -> None:
    own = "id: a-study\narms: [{adapters: [a], surfaces: [acp], fixtures: [f], models: [scripted/x]}]\n"
    copied = tmp_path / "copied"
    shutil.copytree(directory, copied)
    (copied / "sweep.yaml").write_text(f"{own}published: {{veto: 3 of 3}}\n")
    assert published(copied)["veto"] == "3 of 3"
    assert published(copied)["own-io"] == "left open"
    # An older sweep's names none: those of the study that is shipped.
    (copied / "sweep.yaml").write_text(own)
    assert published(copied)["own-io"] == "0 calls in 11 ACP runs"
    (copied / "sweep.yaml").unlink()
    assert published(copied)["own-io"] == "0 calls in 11 ACP runs"


def test_a_published_figure_of_no_claim_is_a_line(directory: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(directory, copied)
    own = "id: a-study\narms: [{adapters: [a], surfaces: [acp], fixtures: [f], models: [scripted/x]}]\n"
    (copied / "sweep.yaml").write_text(f"{own}published: {{vetto: 3 of 3}}\n")
    with pytest.raises(ConfigError, match=r"sweep.yaml:3: no claim has the id 'vetto'; did you mean 'veto'"):
        build(copied)


def test_the_shipped_study_names_known_claims_only() -> None:
    shipped = load(ROOT / "configs/sweeps/study.yaml", Sweep).value.published
    assert set(shipped) <= set(CLAIMS)
    assert len(shipped) == 29


def published(folder: Path) -> dict[str, str]:
    found = build(folder, ROOT / "configs/sweeps/study.yaml").findings
    return {finding.id: finding.published for finding in found}
