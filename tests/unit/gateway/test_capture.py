"""From a finished capture to a cassette that can be played."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner.config.catalog import Catalog
from runner.config.loaded_sweep import LoadedSweep, load_sweep
from runner.config.plan import Cell, plan
from runner.errors import ConfigError, UsageError
from runner.gateway import capture
from runner.gateway.cassette import dump, read_tape, tape_of
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


def ran(out: SweepDir, cell: Cell, outcome: str = "passed", said: str | None = "x") -> None:
    """One attempt at `cell` whose tape has one request that says `said`, or none."""
    attempt = out.attempt(cell)
    request = {"method": "POST", "path": "/v1/messages", "body": {"said": said}}
    entry = captured(0, request=request)
    attempt.write_bytes("tape.jsonl", b"".join(dump(tape_of([entry]) if said is not None else [])))
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
    (note,) = capture.keep(out, loaded)
    assert note.startswith("cassette replay/big: 2 tape(s) in ")
    assert note.endswith("; no run of agent-1.0.0--cli--semver--allow_once--capture-big--container ended as expected")

    folder = root / "configs/cassettes/big"
    found = Catalog(root).cassette("big")
    assert (found.title, found.dialect, found.normaliser_version) == ("A big one", "anthropic", 2)
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
    assert capture.keep(out, loaded)[0].startswith("no cassette 'big'; no run of ")
    assert not (root / "configs/cassettes").exists()


def test_a_cassette_is_never_written_over(loaded: LoadedSweep, out: SweepDir, root: Path) -> None:
    capture.check_room(loaded, ["capture/big"])
    ran(out, cell(out, "acp", 1))
    capture.keep(out, loaded)
    before = (root / "configs/cassettes/big/cassette.yaml").read_bytes()
    with pytest.raises(UsageError, match=r"configs/cassettes/big is there already: remove it, or name another one by"):
        capture.check_room(loaded, ["capture/big"])
    capture.check_room(loaded, ["live/big", "scripted/fix"])
    other = SweepDir.create(out.path.with_name("other"), loaded.source, {}, plan(loaded))
    ran(other, cell(other, "acp", 1), said="something else")
    ran(other, cell(other, "nocaps", 1))
    assert "is there already and stays as it is; the tapes of" in capture.keep(other, loaded)[0]
    assert (root / "configs/cassettes/big/cassette.yaml").read_bytes() == before


def test_a_resumed_sweep_adds_what_its_cassette_lacks(loaded: LoadedSweep, out: SweepDir, root: Path) -> None:
    folder = root / "configs/cassettes/big"
    ran(out, cell(out, "acp", 2), said="second")
    capture.keep(out, loaded)
    file = folder / "cassette.yaml"
    write(file, file.read_text().replace("- dates", "- dates\n- ids"))  # data to edit
    # What is in it stays, whatever else would be first now.
    ran(out, cell(out, "acp", 1), said="first")
    ran(out, cell(out, "nocaps", 1), said="other")
    (note,) = capture.keep(out, loaded)
    assert note.startswith("cassette replay/big: 2 tape(s) in ")
    found = Catalog(root).cassette("big")
    assert [(tape.surface, tape.entries) for tape in found.tapes] == [("acp", 1), ("nocaps", 1)]
    assert "ids" in found.normalisers
    said = [read_tape(folder / tape.file)[0]["request"]["body"]["said"] for tape in found.tapes]
    assert said == ["second", "other"]
    assert sorted(path.suffix for path in folder.iterdir()) == [".jsonl", ".jsonl", ".yaml"]


def test_a_run_that_asked_nothing_has_no_tape(loaded: LoadedSweep, out: SweepDir, root: Path) -> None:
    ran(out, cell(out, "acp", 1), said=None)
    assert capture.keep(out, loaded)[0].startswith("no cassette 'big'; no run of ")
    assert not (root / "configs/cassettes").exists()


def test_one_sweep_at_a_time_captures_a_cassette(loaded: LoadedSweep, root: Path) -> None:
    with capture.reserved(loaded, ["capture/big", "scripted/fix"]):
        with (
            pytest.raises(UsageError, match="another sweep is capturing the cassette 'big'"),
            capture.reserved(loaded, ["capture/big"]),
        ):
            pass
        with capture.reserved(loaded, ["live/big"]):
            pass
    write(root / "configs/models/twin.yaml", UPSTREAM.replace("id: big", "id: twin\ncassette: big"))
    sweep = root / "configs/sweeps/small.yaml"
    write(sweep, sweep.read_text().replace("[capture/big]", "[capture/big, capture/twin]"))
    both = load_sweep(sweep, Catalog(root))
    with (
        pytest.raises(UsageError, match="capture/big and capture/twin would both write the cassette 'big'"),
        capture.reserved(both, both.upstreams),
    ):
        pass
    with capture.reserved(loaded, ["capture/big"]):
        pass


def test_a_tape_that_is_not_whole_is_told_before_anything_runs(loaded: LoadedSweep, out: SweepDir, root: Path) -> None:
    ran(out, cell(out, "acp", 1), said="a" * 9)
    capture.keep(out, loaded)
    sweep = root / "configs/sweeps/small.yaml"
    text = sweep.read_text().replace("capture/big", "replay/big").replace("[acp, nocaps, cli]", "[acp]")
    write(sweep, text)
    replay = load_sweep(sweep, Catalog(root))
    capture.check_tapes(replay, plan(replay))
    (path,) = (root / "configs/cassettes/big").glob("*.jsonl")
    whole = path.read_bytes()
    for torn, words in ((b"", "holds 0 entries, 1 were recorded: it is not whole"), (whole[:40], ":1: not an entry")):
        path.write_bytes(torn)
        with pytest.raises(ConfigError, match=words):
            capture.check_tapes(replay, plan(replay))


def test_scripts_make_none(root: Path, tmp_path: Path) -> None:
    loaded = load_sweep(root / "configs/sweeps/small.yaml", Catalog(root))
    out = SweepDir.create(tmp_path / "out", loaded.source, {}, plan(loaded))
    assert capture.keep(out, loaded) == []


def test_the_file_is_data_that_says_what_it_is(loaded: LoadedSweep, out: SweepDir, root: Path) -> None:
    ran(out, cell(out, "acp", 1))
    capture.keep(out, loaded)
    text = (root / "configs/cassettes/big/cassette.yaml").read_text()
    assert text.startswith("# ")
    assert "in: tool_results" in text
    assert "example.com" not in text
