"""From a finished capture to a cassette that can be played."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner import cassettes
from runner.config.catalog import Catalog, LoadedSweep, load_sweep
from runner.errors import UsageError
from runner.gateway.cassette import dump, read_tape, tape_of
from runner.plan import Cell, plan
from runner.records.schema import Record
from runner.records.store import SweepDir
from tests.unit.config.test_upstream import UPSTREAM
from tests.unit.conftest import write
from tests.unit.gateway.test_cassette import captured


@pytest.fixture
def loaded(root: Path) -> LoadedSweep:
    write(root / "configs/models/big.yaml", UPSTREAM + "title: A big one\n")
    sweep = root / "configs/sweeps/small.yaml"
    write(sweep, sweep.read_text().replace("scripted/fix", "capture/big").replace("repeat: 3", "repeat: 2"))
    return load_sweep(sweep, Catalog(root))


@pytest.fixture
def out(loaded: LoadedSweep, tmp_path: Path) -> SweepDir:
    return SweepDir.create(tmp_path / "out", loaded.source, {}, plan(loaded))


def ran(out: SweepDir, cell: Cell, outcome: str = "passed", said: str = "x") -> None:
    """One attempt at `cell` whose tape has one request that says `said`."""
    attempt = out.attempt(cell)
    request = {"method": "POST", "path": "/v1/messages", "body": {"said": said}}
    entry = captured(0, request=request)
    attempt.write_bytes("tape.jsonl", dump(tape_of([entry])))
    attempt.write_lines("model.jsonl", [entry.model_dump_json()])
    ids: dict[str, Any] = {
        key: getattr(cell, key)
        for key in ("arm", "replicate", "warmup", "adapter", "surface", "fixture", "policy", "model", "reset", "expect")
    }
    attempt.commit(
        Record(
            sweep="small", cell=cell.name, attempt=attempt.number, outcome=outcome, started_at="", start_ns=0, end_ns=1,
            **ids,
        )
    )  # fmt: skip


def cell(out: SweepDir, surface: str, replicate: int, *, warmup: bool = False) -> Cell:
    (found,) = [
        one for one in out.cells
        if (one.surface, one.replicate, one.warmup) == (surface, replicate, warmup)
    ]  # fmt: skip
    return found


def test_the_first_run_of_each_arm_that_went_well_is_kept(loaded: LoadedSweep, out: SweepDir, root: Path) -> None:
    ran(out, cell(out, "acp", 1, warmup=True), said="warm-up")
    ran(out, cell(out, "acp", 2), said="second")
    ran(out, cell(out, "acp", 1), "infra", said="lost")
    ran(out, cell(out, "acp", 1), said="first")
    ran(out, cell(out, "nocaps", 1), "task-failed", said="failed")
    ran(out, cell(out, "nocaps", 2), said="second")
    (note,) = cassettes.keep(out, loaded)
    assert note.startswith("cassette replay/big: 2 tape(s) in ")
    assert note.endswith("; no run of agent-1.0.0--cli--semver--allow_once--capture-big--container ended as expected")

    folder = root / "configs/cassettes/big"
    found = Catalog(root).cassette("big")
    assert (found.title, found.dialect, found.normaliser_version) == ("A big one", "anthropic", 1)
    assert found.normalisers == loaded.upstreams["capture/big"].normalisers
    said = {tape.surface: read_tape(folder / tape.file)[0]["request"]["body"]["said"] for tape in found.tapes}
    assert said == {"acp": "first", "nocaps": "second"}
    assert sorted(path.name for path in folder.iterdir()) == [
        "agent-1.0.0--acp--semver--allow_once.jsonl",
        "agent-1.0.0--nocaps--semver--allow_once.jsonl",
        "cassette.yaml",
    ]
    assert list(folder.parent.iterdir()) == [folder]


def test_nothing_good_is_no_cassette(loaded: LoadedSweep, out: SweepDir, root: Path) -> None:
    ran(out, cell(out, "acp", 1), "aborted")
    assert cassettes.keep(out, loaded)[0].startswith("no cassette 'big'; no run of ")
    assert not (root / "configs/cassettes").exists()


def test_a_cassette_is_never_written_over(loaded: LoadedSweep, out: SweepDir, root: Path) -> None:
    cassettes.demand_room(loaded, ["capture/big"])
    ran(out, cell(out, "acp", 1))
    cassettes.keep(out, loaded)
    before = (root / "configs/cassettes/big/cassette.yaml").read_bytes()
    with pytest.raises(UsageError, match=r"configs/cassettes/big is there already: remove it, or name another one by"):
        cassettes.demand_room(loaded, ["capture/big"])
    cassettes.demand_room(loaded, ["live/big", "scripted/fix"])
    assert "is there already and stays as it is" in cassettes.keep(out, loaded)[0]
    assert (root / "configs/cassettes/big/cassette.yaml").read_bytes() == before


def test_scripts_make_none(root: Path, tmp_path: Path) -> None:
    loaded = load_sweep(root / "configs/sweeps/small.yaml", Catalog(root))
    out = SweepDir.create(tmp_path / "out", loaded.source, {}, plan(loaded))
    assert cassettes.keep(out, loaded) == []


def test_the_file_is_data_that_says_what_it_is(loaded: LoadedSweep, out: SweepDir, root: Path) -> None:
    ran(out, cell(out, "acp", 1))
    cassettes.keep(out, loaded)
    text = (root / "configs/cassettes/big/cassette.yaml").read_text()
    assert text.startswith("# ")
    assert "in: tool_results" in text
    assert "example.com" not in text
