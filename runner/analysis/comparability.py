"""May two arms be held against each other? What must be the same beyond the thing that is compared. Pure.

Within one sweep machine, knobs and seed are common to all arms; what is left is that two arms differ in one dimension
alone. Across sweeps the locks are compared: what shapes a run must be equal, and times are never compared, since two
sweeps share neither machine nor minute. Counts do not depend on the machine, so another one is said, not refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runner.analysis.report import Arm
from runner.config.base import on_disk
from runner.records.lock import differences

#: What tells arms apart, in the order of an arm's name.
DIMENSIONS = ("adapter", "surface", "fixture", "policy", "model", "reset", "twin")
#: Parts of a lock that hold for every run of a sweep and must be equal across sweeps.
_COMMON = ("acpbench", "guest_sha256", "gateway", "knobs", "seed")
#: Parts that pin one value each of a dimension.
_PINNED = (
    ("fixtures", "fixture"),
    ("verify", "fixture"),
    ("policies", "policy"),
    ("streaming", "model"),
    ("models", "model"),
    ("adapters", "adapter"),
)
#: Parts that say where a sweep ran.
_MACHINE = ("engine", "kernel")


@dataclass(frozen=True)
class Likeness:
    """Why arms may not be compared. `refused`: at all; `untimed`: their sampled metrics; `noted`: what a reader must
    know although they may.
    """

    refused: list[str] = field(default_factory=list)
    untimed: list[str] = field(default_factory=list)
    noted: list[str] = field(default_factory=list)


def differing(base: Arm, new: Arm) -> list[str]:
    """The dimensions in which two arms differ."""
    return [name for name in DIMENSIONS if getattr(base, name) != getattr(new, name)]


def within(lock: Mapping[str, Any], base: Arm, new: Arm) -> Likeness:
    """Two arms of one sweep."""
    likeness = Likeness(_dimensions(base, new))
    limits = [lock.get("limits", {}).get(arm.adapter, {}) for arm in (base, new)]
    # More processors are another machine; more memory is none until it runs out, and that has its own outcome.
    if base.adapter != new.adapter:
        cpus = [limit.get("cpus") for limit in limits]
        likeness.untimed.extend(f"limits.cpus: {said}" for said in _changed(cpus))
    likeness.untimed.extend(_parallel(lock))
    return likeness


def across(base_lock: Mapping[str, Any], base: Arm, new_lock: Mapping[str, Any], new: Arm) -> Likeness:
    """Two arms of two sweeps."""
    likeness = Likeness(_dimensions(base, new))
    locks = (base_lock, new_lock)
    for name in _COMMON:
        likeness.refused.extend(differences(base_lock.get(name), new_lock.get(name), name))
    for part, key in _PINNED:
        if getattr(base, key) == getattr(new, key):
            shared = getattr(base, key)
            old, pins = (_own(part, lock, shared) for lock in locks)
            likeness.refused.extend(differences(old, pins, f"{part}.{shared}"))
    for path in _configs(base, new):
        digests = [lock.get("configs", {}).get(path) for lock in locks]
        likeness.refused.extend(f"{path}: {said}" for said in _changed([(digest or "none")[:12] for digest in digests]))
    if base.adapter == new.adapter:
        image = str(_own("adapters", base_lock, base.adapter).get("image"))
        old, schemas = (lock.get("schemas", {}).get(image) for lock in locks)
        likeness.refused.extend(differences(old, schemas, f"schemas.{image}"))
        ids = [str(lock.get("images", {}).get(image, {}).get("id"))[:19] for lock in locks]
        likeness.noted.extend(f"the image was built anew: {said}" for said in _changed(ids))
    likeness.untimed.append("two sweeps: times are compared within one sweep only")
    for name in _MACHINE:
        likeness.noted.extend(
            f"another machine: {said}" for said in differences(base_lock.get(name), new_lock.get(name), name)
        )
    return likeness


def _dimensions(base: Arm, new: Arm) -> list[str]:
    names = [name for name in differing(base, new) if name != "twin"]
    if len(names) < 2:
        return []
    return [f"{name}: {getattr(base, name)} -> {getattr(new, name)}" for name in names]


def _own(part: str, lock: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = lock.get(part, {}).get(name) or {}
    if "packages" not in found:
        return found
    packages: dict[str, str] = {}
    for package in found["packages"]:
        pin = f"{package['version']} {package['integrity'] or ''}".rstrip()
        packages[package["name"]] = f"{packages[package['name']]}, {pin}" if package["name"] in packages else pin
    return {**found, "packages": packages}


def _configs(base: Arm, new: Arm) -> Iterator[str]:
    """Files, below the root, of what both arms share."""
    shared = {name for name in DIMENSIONS if getattr(base, name) == getattr(new, name)}
    for kind, key in (("adapters", "adapter"), ("surfaces", "surface")):
        if key in shared:
            yield f"configs/{kind}/{on_disk(getattr(base, key))}.yaml"
    if "fixture" in shared:
        yield f"fixtures/{on_disk(base.fixture)}/fixture.yaml"
    if "model" in shared:
        yield f"configs/models/{on_disk(base.model.partition('/')[2])}.yaml"


def _changed(values: Sequence[Any]) -> Iterable[str]:
    old, new = values
    return [] if old == new else [f"{old} -> {new}"]


def _parallel(lock: Mapping[str, Any]) -> list[str]:
    jobs = lock.get("jobs", 1)
    return [] if jobs == 1 else [f"jobs: {jobs} runs shared the machine at a time"]
