from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from runner.analysis.comparability import across, within
from tests.unit.arms import arm

ADAPTER = "an-adapter@1.2.3"


def lock() -> dict[str, Any]:
    return {
        "acpbench": "0.1.0",
        "seed": 1,
        "guest_sha256": "ff",
        "gateway": {"aimock": "1"},
        "knobs": {"deadlines": {"turn": 600.0}},
        "jobs": 1,
        "images": {"an-image": {"id": "sha256:1"}},
        "adapters": {
            ADAPTER: {
                "image": "an-image",
                "packages": [
                    {"registry": "npm", "name": "a", "version": "1", "integrity": "sha512-a"},
                    {"registry": "npm", "name": "a", "version": "2", "integrity": None},
                ],
                "programs": {"node": "25"},
            }
        },
        "limits": {ADAPTER: {"cpus": 2.0, "memory_mb": 2048}, "other@1": {"cpus": 2.0, "memory_mb": 4096}},
        "fixtures": {"semver": {"tree": "t", "commit": "c"}},
        "verify": {"semver": {"timeout_s": 60.0, "limits": {"memory_mb": 2048, "pids": 512}}},
        "policies": {"allow_once": {"answer": "allow_once"}},
        "streaming": {"scripted/fix-semver": {"chunk_size": 32}},
        "models": {"scripted/fix-semver": {"tapes": {"a": "1"}}},
        "schemas": {"an-image": ["1.3.0"]},
        "configs": {
            "configs/adapters/an-adapter-1.2.3.yaml": "1" * 64,
            "configs/surfaces/acp.yaml": "2" * 64,
            "configs/models/fix-semver.yaml": "3" * 64,
            "fixtures/semver/fixture.yaml": "4" * 64,
        },
        "engine": {"version": "20.10"},
        "kernel": "6.1",
    }


def changed(path: str, value: Any) -> dict[str, Any]:
    """The lock with one value changed; the path's parts stand between dots, `>` within a part is a dot."""
    found = copy.deepcopy(lock())
    *parts, last = [part.replace(">", ".") for part in path.split(".")]
    at: Any = found
    for part in parts:
        at = at[int(part)] if part.isdigit() and isinstance(at, list) else at[part]
    at[last] = value
    return found


def test_the_same_sweep_twice_is_like_but_for_its_times() -> None:
    found = across(lock(), arm(), lock(), arm())
    assert (found.refused, found.noted) == ([], [])
    assert found.untimed == ["two sweeps: times are compared within one sweep only"]


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("acpbench", "0.2.0", "acpbench: 0.1.0 -> 0.2.0"),
        ("seed", 2, "seed: 1 -> 2"),
        ("guest_sha256", "fe", "guest_sha256: ff -> fe"),
        ("gateway.aimock", "2", "gateway.aimock: 1 -> 2"),
        ("knobs.deadlines.turn", 60.0, "knobs.deadlines.turn: 600.0 -> 60.0"),
        (f"adapters.{ADAPTER.replace('.', '>')}.programs.node", "26", f"adapters.{ADAPTER}.programs.node: 25 -> 26"),
        (
            f"adapters.{ADAPTER.replace('.', '>')}.packages.1.version",
            "3",
            f"adapters.{ADAPTER}.packages.a: 1 sha512-a, 2 -> 1 sha512-a, 3",
        ),
        ("fixtures.semver.tree", "u", "fixtures.semver.tree: t -> u"),
        ("verify.semver.limits.memory_mb", 512, "verify.semver.limits.memory_mb: 2048 -> 512"),
        ("verify.semver.timeout_s", 5.0, "verify.semver.timeout_s: 60.0 -> 5.0"),
        ("policies.allow_once.answer", "never", "policies.allow_once.answer: allow_once -> never"),
        ("streaming.scripted/fix-semver.chunk_size", 8, "streaming.scripted/fix-semver.chunk_size: 32 -> 8"),
        ("models.scripted/fix-semver.tapes.a", "2", "models.scripted/fix-semver.tapes.a: 1 -> 2"),
        ("schemas.an-image", ["2.0"], "schemas.an-image[0]: 1.3.0 -> 2.0"),
        ("configs.configs/surfaces/acp>yaml", "5" * 64, "configs/surfaces/acp.yaml: 222222222222 -> 555555555555"),
        (
            "configs.fixtures/semver/fixture>yaml",
            "5" * 64,
            "fixtures/semver/fixture.yaml: 444444444444 -> 555555555555",
        ),
    ],
)
def test_whatever_shapes_a_run_must_be_equal(path: str, value: Any, said: str) -> None:
    assert across(lock(), arm(), changed(path, value), arm()).refused == [said]


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("kernel", "6.2", "another machine: kernel: 6.1 -> 6.2"),
        ("engine.version", "28", "another machine: engine.version: 20.10 -> 28"),
        ("images.an-image.id", "sha256:2", "the image was built anew: sha256:1 -> sha256:2"),
    ],
)
def test_counts_do_not_depend_on_the_machine(path: str, value: Any, said: str) -> None:
    found = across(lock(), arm(), changed(path, value), arm())
    assert (found.refused, found.noted) == ([], [said])


def test_the_thing_compared_may_differ_and_its_pins_with_it() -> None:
    newer = lock()
    newer["adapters"] = {"other@1": {"image": "other", "packages": [], "programs": {}}}
    newer["schemas"] = {"other": ["9"]}
    assert across(lock(), arm(), newer, arm(adapter="other@1")).refused == []


@pytest.mark.parametrize("judge", [lambda one, other: across(lock(), one, lock(), other).refused,
                                   lambda one, other: within(lock(), one, other).refused])  # fmt: skip
def test_two_things_at_once_are_not_compared(judge: Callable[[Any, Any], list[str]]) -> None:
    said = judge(arm(), arm(adapter="other@1", surface="cli"))
    assert said == [f"adapter: {ADAPTER} -> other@1", "surface: acp -> cli"]
    assert judge(arm(), arm(surface="cli")) == []
    assert judge(arm(), arm(twin=True)) == []


def test_within_a_sweep() -> None:
    assert within(lock(), arm(), arm(adapter="other@1")).untimed == []
    faster = changed("limits.other@1.cpus", 4.0)
    assert within(faster, arm(), arm(adapter="other@1")).untimed == ["limits.cpus: 2.0 -> 4.0"]
    assert within(changed("jobs", 4), arm(), arm(twin=True)).untimed == ["jobs: 4 runs shared the machine at a time"]
