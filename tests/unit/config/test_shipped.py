"""What the repository ships under configs/ and fixtures/ is what it should be."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import pytest

from runner.analysis import baseline
from runner.config.base import on_disk
from runner.config.catalog import Catalog
from runner.config.loaded_sweep import load_sweep
from runner.config.loader import load
from runner.config.plan import plan
from runner.config.surface import Surface
from runner.errors import ConfigError

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("path", sorted((ROOT / "configs/sweeps").glob("*.yaml")), ids=lambda path: path.stem)
def test_sweeps_load_with_all_they_name(path: Path) -> None:
    assert load_sweep(path, Catalog(ROOT)).sweep.id == path.stem


def test_adapters_and_scripts_load() -> None:
    assert Catalog(ROOT).adapters()
    assert Catalog(ROOT).scripts()
    assert Catalog(ROOT).upstream("anthropic").address == "api.anthropic.com:443"


@pytest.mark.parametrize(
    ("name", "read", "write", "terminal"),
    [
        ("acp", True, True, True),
        ("acp-nocaps", False, False, False),
        ("acp-fs-only", True, True, False),
        ("acp-terminal-only", False, False, True),
        ("acp-terminal-meta", True, True, True),
    ],
)
def test_surfaces_differ_in_capabilities_alone(name: str, read: bool, write: bool, terminal: bool) -> None:
    surface = Catalog(ROOT).surface(name)
    capabilities = surface.client_capabilities.as_json()
    meta = capabilities.pop("_meta", None)
    assert capabilities == {"fs": {"readTextFile": read, "writeTextFile": write}, "terminal": terminal}
    assert meta == ({"terminal_output": True} if name == "acp-terminal-meta" else None)
    assert surface.model_fields_set == {"id", "title", "transport", "client_capabilities"}


def test_the_candidate_that_the_nightly_sweep_shows_can_be_taken(tmp_path: Path) -> None:
    """Its lines stand in for those above them, as its head says."""
    taken: list[str] = []
    for line in (ROOT / "configs/sweeps/nightly.yaml").read_text().splitlines():
        if line.lstrip().startswith("# candidate: "):
            taken[-1] = line.replace("# candidate: ", "", 1)
        elif "twin: true" not in line:
            taken.append(line)
    (tmp_path / "nightly.yaml").write_text("\n".join(taken))
    loaded = load_sweep(tmp_path / "nightly.yaml", Catalog(ROOT))
    assert list(loaded.adapters) == ["claude-agent-acp@0.64.0", "claude-agent-acp@0.101.0"]
    arms = sorted({cell.arm for cell in plan(loaded) if not cell.warmup})
    assert loaded.sweep.compare is not None
    globs = loaded.sweep.compare.base, loaded.sweep.compare.new
    assert sorted(name for glob in globs for name in fnmatch.filter(arms, glob)) == arms


def test_three_surfaces() -> None:
    loaded = load_sweep(ROOT / "configs/sweeps/three-surfaces.yaml", Catalog(ROOT))
    assert list(loaded.surfaces) == ["acp", "acp-nocaps", "cli"]
    assert loaded.sweep.repeat == 3
    assert list(loaded.policies) == ["allow_once"]


@pytest.mark.parametrize(
    ("capabilities", "words"),
    [
        ("{fs: {readTextFiles: true}}", "readTextFile"),
        ("{fs: {readTextFile: yes please}}", "readTextFile"),
        ("{terminals: true}", "terminal"),
    ],
)
def test_a_capability_that_the_protocol_lacks_is_refused(tmp_path: Path, capabilities: str, words: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(f"id: s\ntransport: acp\nclient_capabilities: {capabilities}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=words):
        load(path, Surface)


@pytest.mark.parametrize("path", sorted((ROOT / "configs/gates").glob("*.yaml")), ids=lambda path: path.stem)
def test_gates_load(path: Path) -> None:
    assert Catalog(ROOT).gate(path.stem).id == path.stem


@pytest.mark.parametrize("path", sorted((ROOT / "results/baselines").glob("*.json")), ids=lambda path: path.stem)
def test_baselines_load_and_say_when_and_where(path: Path) -> None:
    found = baseline.load(path)
    assert on_disk(found.name) == path.stem
    assert found.date
    assert found.machine["kernel"]
    assert found.report.lock["adapters"]


def test_what_the_study_leaves_out_of_another_adapters_plan_is_said() -> None:
    study = load_sweep(ROOT / "configs/sweeps/study.yaml", Catalog(ROOT), ["gemini-cli@0.61.0"])
    assert study.left_out() == {
        "gemini-cli@0.61.0": [
            "model scripted/plan-think: the configuration of gemini-cli@0.61.0 maps no plan",
            "model scripted/mcp: the configuration of gemini-cli@0.61.0 maps no mcp",
            "model scripted/subagent: the configuration of gemini-cli@0.61.0 maps no delegate",
            "model scripted/elicit: gemini-cli@0.61.0 does not speak the dialect anthropic",
        ]
    }
    own = load_sweep(ROOT / "configs/sweeps/study.yaml", Catalog(ROOT))
    assert own.left_out() == {}
    assert own.why_not("claude-agent-acp@0.64.0", "acp", "scripted/mcp") is None
