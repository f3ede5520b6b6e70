"""`acpbench findings` and the ways `acpbench frames` opens evidence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner.cli import main
from tests.unit.study.lab import Lab, study


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    arms = study().arms
    return Lab({name: arms[name] for name in ("boundary", "refused")}, None).write(tmp_path_factory.mktemp("f") / "dir")


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
