from __future__ import annotations

from pathlib import Path

import pytest

from runner.config.catalog import Catalog
from runner.config.gate import Gate
from runner.config.loaded_sweep import load_sweep
from runner.errors import ConfigError
from tests.unit.conftest import write


def test_what_is_gated_by_default() -> None:
    gate = Gate()
    assert [rule.metric for rule in gate.sampled] == ["handshake_ms", "to_result_ms"]
    assert (gate.alpha, gate.sampled[0].threshold) == (0.05, 0.05)
    assert gate.rule("cpu_s") is None
    assert gate.gates_exact("tool_calls")


def test_globs_over_exact_metrics() -> None:
    gate = Gate(exact=["tool_calls*", "stop_reason"], exact_except=["*.other"])
    asked = ("tool_calls", "tool_calls_by_kind.edit", "tool_calls_by_kind.other", "stop_reason", "updates.plan")
    assert [gate.gates_exact(name) for name in asked] == [True, True, False, True, False]


def test_a_metric_has_one_rule() -> None:
    with pytest.raises(ValueError, match="wall_ms: one rule a metric"):
        Gate.model_validate({"sampled": [{"metric": "wall_ms"}, {"metric": "wall_ms", "threshold": 9}]})


def test_the_gate_of_a_sweep_is_looked_up(root: Path) -> None:
    config = root / "configs/sweeps/small.yaml"
    config.write_text(config.read_text() + "compare: {base: 'a*', new: 'b*', gate: strict}\n")
    with pytest.raises(ConfigError, match="unknown gate 'strict'") as caught:
        load_sweep(config, Catalog(root))
    assert caught.value.line == 8
    write(root / "configs/gates/strict.yaml", "id: strict\nalpha: 0.01\n")
    loaded = load_sweep(config, Catalog(root))
    assert loaded.sweep.compare is not None
    assert Catalog(root).gate("strict").alpha == 0.01
    # A gate shapes no run, so it is no pin.
    assert not [path for path in loaded.digests if "gates" in path]


def test_a_wrong_gate_is_one_line(root: Path) -> None:
    write(root / "configs/gates/bad.yaml", "id: bad\nalpha: 2\n")
    with pytest.raises(ConfigError, match=r"bad.yaml:2: .*alpha"):
        Catalog(root).gate("bad")
