from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from runner import __version__
from runner.config.catalog import Catalog
from runner.config.loaded_sweep import LoadedSweep, load_sweep
from runner.records.lock import AdapterPins, Binary, ImagePin, PackagePin, build_lock
from tests.unit.config.test_cassette import CASSETTE
from tests.unit.config.test_upstream import UPSTREAM
from tests.unit.conftest import write


@pytest.fixture
def loaded(root: Path) -> LoadedSweep:
    return load_sweep(root / "configs/sweeps/small.yaml", Catalog(root))


def pins(*, turned: bool = False) -> AdapterPins:
    packages = [PackagePin("npm", "b", "2", "sha512-b"), PackagePin("npm", "a", "1")]
    programs = {"node": "v25.9.0", "agent": "1.0.0"}
    if turned:
        packages.reverse()
        programs = dict(reversed(programs.items()))
    return AdapterPins("agent-1", packages, programs, {"cli": Binary("/b", "22"), "acp": Binary("/a", "11")})


def lock(loaded: LoadedSweep, *, turned: bool = False, **changes: Any) -> dict[str, Any]:
    engine = {"version": "20.10", "name": "docker"}
    images = {"gateway": ImagePin("sha256:2"), "agent-1": ImagePin("sha256:1")}
    if turned:
        engine, images = dict(reversed(engine.items())), dict(reversed(images.items()))
    parts: dict[str, Any] = {
        "engine": engine, "kernel": "6.1", "guest_sha256": "ff", "images": images,
        "adapters": {"agent@1.0.0": pins(turned=turned)}, "gateway": {"node": "24", "aimock": "1"},
        "schemas": {"agent-1": ["1.3.0", "2.4.0"]}, "jobs": 1,
    }  # fmt: skip
    return build_lock(loaded, **{**parts, **changes})


def test_two_locks_of_the_same_pins_are_the_same_text(loaded: LoadedSweep) -> None:
    assert json.dumps(lock(loaded)) == json.dumps(lock(loaded, turned=True))


def test_everything_that_is_pinned_is_in_it(loaded: LoadedSweep) -> None:
    found = lock(loaded)
    assert json.loads(json.dumps(found)) == found
    assert found["acpbench"] == __version__
    assert found["seed"] == loaded.sweep.seed
    assert found["kernel"] == "6.1"
    assert found["guest_sha256"] == "ff"
    assert found["images"]["agent-1"] == {"id": "sha256:1", "digest": None}
    assert found["adapters"]["agent@1.0.0"]["packages"][0] == {
        "registry": "npm", "name": "a", "version": "1", "integrity": None,
    }  # fmt: skip
    assert found["adapters"]["agent@1.0.0"]["binaries"]["cli"] == {"path": "/b", "sha256": "22"}
    assert found["adapters"]["agent@1.0.0"]["programs"] == {"agent": "1.0.0", "node": "v25.9.0"}
    assert found["fixtures"] == {
        "semver": {
            "tree": "68cf7ea895c8f5f47d69699413a654ea0a9f6cbd",
            "commit": "7388d20fe43894f53c0978ab58d5ec668fabe6f7",
        }
    }
    limits = {"memory_mb": 2048, "cpus": 2.0, "pids": 512, "disk_mb": 1024}
    assert found["verify"] == {"semver": {"timeout_s": 60.0, "limits": limits}}
    assert found["streaming"] == {"scripted/fix": {"chunk_size": 32, "ttft_ms": 0.0, "tokens_per_s": None}}
    assert found["knobs"]["deadlines"]["turn"] == 600.0
    assert found["knobs_of_arms"] == {}
    assert found["limits"]["agent@1.0.0"]["memory_mb"] == 2048
    assert found["schemas"] == {"agent-1": ["1.3.0", "2.4.0"]}
    assert set(found["configs"]) == set(loaded.digests)


def test_says_whether_transports_run_the_same_build() -> None:
    one, other = Binary("/a", "11"), Binary("/b", "22")
    assert AdapterPins("i", binaries={"acp": one, "cli": other}).same_build is False
    assert AdapterPins("i", binaries={"acp": one, "cli": Binary("/b", "11")}).same_build is True
    assert AdapterPins("i", binaries={"acp": one}).same_build is None


def test_a_changed_sweep_or_config_changes_the_lock(loaded: LoadedSweep, root: Path) -> None:
    before = lock(loaded)
    (root / "configs/sweeps/small.yaml").write_bytes(loaded.source + b"# a comment\n")
    (root / "configs/surfaces/acp.yaml").write_text("id: acp\ntransport: acp\n")
    after = lock(load_sweep(root / "configs/sweeps/small.yaml", Catalog(root)))
    assert before["sweep_sha256"] != after["sweep_sha256"]
    assert {name for name in before["configs"] if before["configs"][name] != after["configs"][name]} == {
        "configs/surfaces/acp.yaml"
    }


def test_an_adapter_without_pins_is_an_error(loaded: LoadedSweep) -> None:
    with pytest.raises(KeyError):
        lock(loaded, adapters={})


def test_models_that_are_no_script_are_pinned_without_a_key(root: Path) -> None:
    write(root / "configs/models/big.yaml", UPSTREAM)
    write(root / "configs/cassettes/tape/cassette.yaml", CASSETTE)
    for name in ("one", "two"):
        write(root / f"configs/cassettes/tape/{name}.jsonl", name)
    sweep = root / "configs/sweeps/small.yaml"
    text = sweep.read_text().replace("[scripted/fix]", "[live/big, replay/tape]").replace(", cli]", "]")
    write(sweep, text)
    found = lock(load_sweep(sweep, Catalog(root)))["models"]
    assert found["replay/tape"]["tapes"]["one.jsonl"] == hashlib.sha256(b"one").hexdigest()
    assert found["replay/tape"]["timing"] == "fast"
    assert found["live/big"]["allow"] == ["api.example.com:443"]
    assert found["live/big"]["budget"]["requests"] == 10
    assert "key" not in found["live/big"]
