"""What the gateway is told, by the kind of a model's name, and what its ledger says went wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner.config.catalog import Catalog
from runner.config.loaded_sweep import load_sweep
from runner.config.plan import plan
from runner.errors import ConfigError
from runner.gateway.cassette import dump, tape_of
from runner.gateway.program import check_programs, model_failures, model_problems, program_for
from tests.unit.config.test_cassette import CASSETTE
from tests.unit.config.test_upstream import UPSTREAM
from tests.unit.conftest import write
from tests.unit.gateway.test_cassette import captured, played
from tests.unit.gateway.test_journal import PROGRAM, entry

TAPE = list(tape_of([captured(0), captured(1)]))


@pytest.fixture
def ready(root: Path) -> Path:
    """`root` with one of each kind of model."""
    write(root / "configs/models/big.yaml", UPSTREAM)
    write(root / "configs/cassettes/tape/cassette.yaml", CASSETTE)
    for name in ("one", "two"):
        (root / "configs/cassettes/tape" / f"{name}.jsonl").write_bytes(b"".join(dump(TAPE)))
    return root


def program(root: Path, model: str, knobs: str = "", of_the_arm: str = "") -> dict[str, Any]:
    sweep = root / "configs/sweeps/small.yaml"
    text = sweep.read_text().replace("[scripted/fix]", f"[{model}]{of_the_arm}").replace("[acp, nocaps, cli]", "[acp]")
    write(sweep, text + knobs)
    loaded = load_sweep(sweep, Catalog(root))
    return program_for(loaded, plan(loaded)[0], "/workspace/semver")


def test_a_script_is_compiled(ready: Path) -> None:
    assert [step["index"] for step in program(ready, "scripted/fix")["steps"]] == [0, 1, 2]


def test_a_script_without_words_is_told_at_its_arm(ready: Path) -> None:
    adapter = ready / "configs/adapters/agent-1.0.0.yaml"
    adapter.write_text(adapter.read_text().replace("{command}", "{comand}"))
    loaded = load_sweep(ready / "configs/sweeps/small.yaml", Catalog(ready))
    with pytest.raises(ConfigError, match=r"small\.yaml:3: .*unknown placeholder \{comand\}; did you mean 'command'"):
        check_programs(loaded, plan(loaded))


@pytest.mark.parametrize("mode", ["live", "capture"])
def test_a_live_model_is_named_and_nothing_of_it_is_told(ready: Path, mode: str) -> None:
    assert program(ready, f"{mode}/big") == {
        "mode": mode,
        "dialect": "anthropic",
        "side_requests": [],
        "upstream": "big",
        "normalisers": ["dates", {"name": "build", "in": "tool_results", "pattern": "build \\d+", "becomes": "build"}],
    }


def test_a_cassette_brings_its_tape(ready: Path) -> None:
    assert program(ready, "replay/tape", "knobs: {replay_timing: recorded}\n") == {
        "mode": "replay",
        "dialect": "anthropic",
        "side_requests": [],
        "version": 2,
        "normalisers": ["dates"],
        "tape": TAPE,
        "timing": "recorded",
    }


def test_an_arms_own_timing_counts(ready: Path) -> None:
    told = program(ready, "replay/tape", of_the_arm="\n    knobs: {replay_timing: recorded}")
    assert told["timing"] == "recorded"


def test_each_kind_of_model_is_judged_its_own_way() -> None:
    one = [entry(step=0)]
    assert "2 of 3 steps" in model_problems(one, PROGRAM)[0]
    assert "1 of 2 recorded requests" in model_problems([played(0, 0)], {"mode": "replay", "tape": TAPE})[0]
    assert model_problems(one, {"mode": "live"}) == []


def test_an_upstream_out_of_reach_is_infra_once_and_a_refused_path_is_not() -> None:
    lost = entry(kind="refused", step=None, status=400, reason="upstream big: connect ECONNREFUSED")
    path = entry(kind="refused", step=None, status=404, reason="not a path of this model: GET /x")
    assert [str(one) for one in model_failures([path, lost, lost])] == [
        "model gateway: upstream big: connect ECONNREFUSED"
    ]
    assert model_failures([path]) == []
    # An error of its own is for the agent to get over; as its last word it leaves nothing to measure.
    failed = entry(kind="main", step=None, status=529, reason="upstream big: status 529")
    assert model_failures([failed, entry(kind="main", step=None), path]) == []
    assert [str(one) for one in model_failures([entry(kind="main", step=None), failed])] == [
        "model gateway: upstream big: status 529"
    ]
    (spent,) = model_failures([entry(kind="refused", step=None, status=400, reason="budget of big: requests: 2 of 2")])
    assert spent.outcome == "aborted"
