"""Arms and reports out of figures, for tests of what is made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runner.analysis.report import Arm, Exact, Report
from runner.analysis.samples import summary
from runner.config.base import on_disk

IDS = {
    "adapter": "an-adapter@1.2.3",
    "surface": "acp",
    "fixture": "semver",
    "policy": "allow_once",
    "model": "scripted/fix-semver",
    "reset": "container",
}


def arm(
    exact: Mapping[str, Sequence[Any]] | None = None,
    sampled: Mapping[str, Sequence[float]] | None = None,
    n: int | None = None,
    **fields: Any,
) -> Arm:
    """An arm that spoke ACP unless `exact` says otherwise; `n` runs, by default as many as the longest list."""
    values = {"permission_requests": [0], **(exact or {})}
    figures = {name: summary(found) for name, found in (sampled or {}).items()}
    size = n or max(len(found) for found in [*values.values(), *(one.values for one in figures.values())])
    values = {name: list(found) * (size if len(found) == 1 else 1) for name, found in values.items()}
    ids = {**IDS, **{key: value for key, value in fields.items() if key in IDS}}
    twin = fields.get("twin", False)
    whole: dict[str, Any] = {
        "name": "--".join(map(on_disk, ids.values())) + ("--twin" if twin else ""),
        "expect": "passed",
        "n": size,
        "outcomes": {"passed": size},
        "unexpected": 0,
        "warnings": [],
        "exact": {name: Exact.of(list(found)) for name, found in values.items()},
        "sampled": figures,
        **ids,
        **fields,
    }
    return Arm(**whole)


def report(*arms: Arm, sweep: str = "a-sweep", **lock: Any) -> Report:
    return Report(sweep=sweep, lock={"jobs": 1, **lock}, arms=list(arms))
