"""Cassettes as configuration: which tape a run gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.config.cassette import Cassette
from runner.config.catalog import Catalog
from runner.config.loaded_sweep import load_sweep
from runner.errors import ConfigError
from tests.unit.conftest import write

CASSETTE = """\
id: tape
dialect: anthropic
captured: '2026-11-30'
normaliser_version: 2
normalisers: [dates]
tapes:
  - {file: one.jsonl, adapter: agent@1.0.0, surface: acp, fixture: semver, policy: allow_once}
  - {file: two.jsonl, adapter: agent@1.0.0, surface: nocaps, fixture: semver, policy: allow_once}
"""


@pytest.fixture
def taped(root: Path) -> Path:
    """`root` with the cassette `tape` and a sweep that replays it on the surfaces it has."""
    folder = root / "configs/cassettes/tape"
    write(folder / "cassette.yaml", CASSETTE)
    for name in ("one", "two"):
        write(folder / f"{name}.jsonl", "")
    sweep = root / "configs/sweeps/small.yaml"
    write(sweep, sweep.read_text().replace("scripted/fix", "replay/tape").replace(", cli]", "]"))
    return root


def test_a_sweep_finds_its_tapes(taped: Path) -> None:
    loaded = load_sweep(taped / "configs/sweeps/small.yaml", Catalog(taped))
    cassette = loaded.cassettes["replay/tape"]
    found = cassette.tape("agent@1.0.0", "nocaps", "semver", "allow_once")
    assert found is not None
    assert found.file == "two.jsonl"
    assert loaded.cassette_folder("tape") == taped / "configs/cassettes/tape"


def test_a_run_without_a_tape_is_a_fault_of_the_sweep(taped: Path) -> None:
    sweep = taped / "configs/sweeps/small.yaml"
    write(sweep, sweep.read_text().replace("nocaps]", "cli]"))
    with pytest.raises(ConfigError) as caught:
        load_sweep(sweep, Catalog(taped))
    said = str(caught.value)
    assert "small.yaml:6: cassette 'tape' has no tape for agent@1.0.0, cli, semver, allow_once; it has:" in said
    assert "agent@1.0.0, acp, semver, allow_once" in said


def test_a_tape_that_is_not_there_is_named(taped: Path) -> None:
    (taped / "configs/cassettes/tape/two.jsonl").unlink()
    with pytest.raises(ConfigError, match=r"cassette.yaml:8: there is no file .*two.jsonl"):
        Catalog(taped).cassette("tape")


def test_requests_of_other_normalisers_are_captured_anew(taped: Path) -> None:
    write(taped / "configs/cassettes/tape/cassette.yaml", CASSETTE.replace("version: 2", "version: 1"))
    with pytest.raises(ConfigError, match=r"cassette.yaml:4: captured with normalisers of version 1, these are 2: "):
        Catalog(taped).cassette("tape")


def tapes(*adapters: str) -> Cassette:
    rest = {"surface": "acp", "fixture": "f", "policy": "p"}
    return Cassette.model_validate(
        {
            "id": "x",
            "dialect": "gemini",
            "captured": "2026-11-30",
            "normaliser_version": 2,
            "normalisers": [],
            "tapes": [{"file": f"{n}.jsonl", "adapter": name, **rest} for n, name in enumerate(adapters)],
        }
    )


@pytest.mark.parametrize(
    ("there", "wanted", "found"),
    [
        (["a@1", "a@2"], "a@2", "1.jsonl"),
        (["a@1", "b@1"], "a@9", "0.jsonl"),  # another version of it, and only one
        (["a@1", "a@2"], "a@9", None),  # which one?
        (["b@1"], "a@1", None),
        (["a@1"], "a-b@1", None),
    ],
)
def test_another_version_may_play_the_only_tape_of_its_kind(there: list[str], wanted: str, found: str | None) -> None:
    tape = tapes(*there).tape(wanted, "acp", "f", "p")
    assert (tape.file if tape is not None else None) == found
    assert tapes(*there).tape(wanted, "cli", "f", "p") is None
