"""Row 0: whether names of packages are dead, as the registries' own clients said.

The rule reads `adapters-check.json` in the sweep's folder, what `acpbench adapters check --format json` printed. It
asks no registry itself; where nobody asked, or no registry answered, nothing is known.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

from runner.evidence.messages import as_list, as_object, as_text
from runner.findings.judge import few, finding, not_measured
from runner.findings.loaded import NAMES_FILE, Study
from runner.findings.model import Finding, Reference

_DAYS_A_MONTH = 365.25 / 12


def findings(study: Study) -> list[Finding]:
    return [_dead_name(study)]


def _dead_name(study: Study) -> Finding:
    if study.names is None:
        why = f"nobody asked the registries (acpbench adapters check --format json > DIR/{NAMES_FILE})"
        return not_measured(study, "dead-name", why)
    listed = [as_object(package) for package in as_list(study.names.get("packages"))]
    known = [(index, package) for index, package in enumerate(listed) if package.get("reached") is not False]
    if not known:
        return not_measured(study, "dead-name", "no registry answered")
    dead = [(index, package) for index, package in known if package.get("deprecated")]
    own = [(index, package) for index, package in known if package.get("adapter") == study.adapter]
    evidence = [_reference(index, "deprecated", package) for index, package in dead]
    evidence += [_reference(index, "own pin", package) for index, package in own if not package.get("deprecated")]
    limits = [
        f"{package.get('name')}, a pin of this adapter: {as_text(package.get('deprecated'))}"
        for _, package in own
        if package.get("deprecated")
    ]
    limits += [
        f"{package.get('name')} {package.get('pinned')} is yanked" for _, package in own if package.get("yanked")
    ]
    if silent := len(listed) - len(known):
        limits.append(f"the registry did not answer for {silent} of {len(listed)} packages")
    counts = Counter(one.shows for one in evidence)
    text = f"deprecated: {few(_dead(package, known) for _, package in dead) or 'none'}"
    if own:
        text += f"; this adapter's pins: {few((_behind(package) for _, package in own), 2)}"
    return finding(
        study,
        "dead-name",
        "does-not-hold" if not dead else "holds-with-limits" if silent else "holds",
        text,
        figures={"deprecated": counts["deprecated"], "own pin": counts["own pin"], "packages": len(listed)},
        evidence=evidence,
        limits=limits,
        unit="pinned packages",
        n=len(known),
    )


def _reference(index: int, shows: str, package: dict[str, Any]) -> Reference:
    what = f"{package.get('name')} {package.get('pinned')}"
    return Reference(run=".", kind="record", path=f"packages.{index}", shows=shows, what=what)


def _dead(package: dict[str, Any], known: list[tuple[int, dict[str, Any]]]) -> str:
    """A dead name, and how far its last version lies behind the newest of the name it was given, if both are known."""
    name = f"{package.get('name')} {package.get('pinned')}"
    heir = next((other for _, other in known if other.get("name") == package.get("renamed_to")), None)
    last, newest = _date(package.get("newest_published")), _date((heir or {}).get("newest_published"))
    if last is None or newest is None:
        return name
    return f"{name} (frozen {(newest - last).days / _DAYS_A_MONTH:.1f} months behind {(heir or {}).get('name')})"


def _behind(package: dict[str, Any]) -> str:
    name = f"{package.get('name')} {package.get('pinned')}"
    versions, days = package.get("behind_versions"), package.get("behind_days")
    if versions == 0:
        return f"{name} is the newest"
    if not isinstance(versions, int):
        return name
    ago = f", {days:.0f} days" if isinstance(days, int | float) else ""
    return f"{name} is {versions} versions{ago} behind {package.get('newest')}"


def _date(value: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
