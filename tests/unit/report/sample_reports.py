"""A small sweep: three surfaces, three runs each, one warm-up; figures as round as a reader likes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runner.analysis.aggregate import build
from runner.analysis.report import Report
from runner.config.plan import Cell
from runner.records.schema import Record
from tests.unit.evidence.conversations import record

SWEEP = "three-surfaces"
ADAPTER = "an-adapter@1.2.3"
SHARED = {
    "adapter": ADAPTER,
    "fixture": "semver",
    "policy": "allow_once",
    "model": "scripted/fix-semver",
    "reset": "container",
    "expect": "passed",
}
LOCK: dict[str, Any] = {
    "lock_version": 1,
    "adapters": {
        ADAPTER: {
            "binaries": {
                "acp": {"path": "/opt/agent/a", "sha256": "a" * 64},
                "cli": {"path": "/opt/agent/a", "sha256": "a" * 64},
            }
        }
    },
}
SAME_FOR_ALL = {
    "tool_calls": 9,
    "tool_calls_by_kind.execute": 5,
    "tool_calls_by_kind.edit": 2,
    "tool_calls_by_kind.read": 2,
    "tool_calls_served": 9,
    "model_requests": 10,
    "side_requests": 1,
    "tokens_reported": 10_500,
    "tokens_served": 10_500,
    "files_changed": 1,
    "stop_reason": "end_turn",
    "frames": 80,
}
NULL_ON_CLI = {
    "permission_requests": 4,
    "permission_requests_by_kind.execute": 2,
    "permission_requests_by_kind.edit": 2,
    "client_fs_calls": 0,
    "client_terminal_calls": 0,
    "undeclared_calls": 0,
    "terminal_content_items": 0,
    "usage_updates": 2,
    "commands_announced": 36,
    "default_mode": "default",
    "schema_violations": 0,
    "late_updates": 0,
    "updates.tool_call": 9,
}


def cell(surface: str, replicate: int, warmup: bool = False, **fields: Any) -> Cell:
    identity = SHARED | fields
    arm = "--".join(
        str(part).replace("@", "-").replace("/", "-")
        for part in (identity["adapter"], surface, identity["fixture"], identity["policy"], identity["model"])
    )
    name = f"{arm}--{'w' if warmup else 'r'}{replicate}"
    return Cell(
        order=replicate,
        block=replicate,
        name=name,
        arm=arm,
        replicate=replicate,
        warmup=warmup,
        image="an-image",
        surface=surface,
        **identity,
    )


def exact(surface: str) -> dict[str, Any]:
    if surface != "cli":
        return SAME_FOR_ALL | NULL_ON_CLI
    return SAME_FOR_ALL | {name: None for name in NULL_ON_CLI if "." not in name}


def sampled(surface: str, replicate: int) -> dict[str, float | None]:
    """The three runs of a surface lie 10 % apart."""
    base: dict[str, float | None] = {
        "handshake_ms": 820.0,
        "turn_ms": 1100.0,
        "to_result_ms": 1950.0,
        "active_ms": 900.0,
        "model_ms": 120.0,
        "client_ms": 2.5,
        "agent_ms": 977.5,
        "wall_ms": 2300.0,
        "cpu_s": 1.5,
        "peak_anon_mb": 310.0,
        "overhead_ms": 700.0,
    }
    if surface == "cli":
        base |= {"handshake_ms": None, "client_ms": None, "agent_ms": None}
    return {name: None if value is None else value * (1 + 0.1 * (replicate - 2)) for name, value in base.items()}


def run(planned: Cell, attempt: int = 1, **fields: Any) -> Record:
    """The record of one attempt at a cell."""
    identity = planned.model_dump(exclude={"order", "block", "name", "image", "matrix", "twin"})
    figures = {"exact": exact(planned.surface), "sampled": sampled(planned.surface, planned.replicate)}
    return record(**(identity | figures | {"sweep": SWEEP, "cell": planned.name, "attempt": attempt} | fields))


def cells(n: int = 3) -> list[Cell]:
    measured = [cell(surface, number) for number in range(1, n + 1) for surface in ("cli", "acp", "acp-nocaps")]
    return [cell("acp", 1, warmup=True), *measured]


def runs(planned: list[Cell]) -> list[Record]:
    return [run(each) for each in planned]


def plain() -> Report:
    """Everything as it should be."""
    planned = cells()
    return build(SWEEP, LOCK, planned, runs(planned))


def troubled() -> Report:
    """What can go wrong in a sweep: a missing cell, a retry, a failure, a varying count, a difference between the ACP
    surfaces, a CLI of another build, and words that Markdown or a terminal would take for their own.
    """
    planned = cells()
    records = [run(each, **_trouble(each)) for each in planned if each.name != cell("cli", 3).name]
    again = cell("acp", 1)
    first = run(again, attempt=1, outcome="infra", reason="the gateway died", exact={}, sampled={})
    records = [each for each in records if each.cell != again.name] + [first, run(again, attempt=2)]
    other = {"acp": {"path": "/a", "sha256": "a" * 64}, "cli": {"path": "/b", "sha256": "b" * 64}}
    return build(SWEEP, {"adapters": {ADAPTER: {"binaries": other}}}, planned, records)


def _trouble(planned: Cell) -> dict[str, Any]:
    match planned.surface, planned.replicate:
        case "acp", 2:
            return {"exact": exact("acp") | {"tool_calls": 10}}
        case "acp-nocaps", _:
            return {"exact": exact("acp") | {"client_fs_calls": 2, "tool_calls_by_kind.read": 1, "tool_calls": 8}}
        case "cli", 1:
            return {"outcome": "task-failed", "reason": "1 of 3 tests | *failed*"}
    return {}


def golden(name: str) -> str:
    """A file of expected output beside the tests."""
    return (Path(__file__).parent / "golden" / name).read_text(encoding="utf-8")
