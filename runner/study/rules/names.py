"""Row 0: whether names of packages are dead, as the registries' own clients said.

The rule reads `adapters-check.json` in the sweep's folder, what `acpbench adapters check --format json` printed. It
asks no registry itself; where nobody asked, or no registry answered, nothing is known.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from runner.records.store import NAMES_FILE
from runner.study.model import ClaimFinding, Reference
from runner.study.runs import Study
from runner.study.verdicts import few, finding, not_measured, verdict_of
from runner.wire.values import as_list, as_object

_DAYS_A_MONTH = 365.25 / 12
#: Packages with their places in the answers.
_Packages = list[tuple[int, dict[str, Any]]]


def findings(study: Study) -> list[ClaimFinding]:
    return [_dead_name(study)]


def _dead_name(study: Study) -> ClaimFinding:
    """A name is dead by the registry's notice; where the registry at hand gives none, by an adapter's own word for it.

    That it still installs is that the pinned version is served. How long it has been dead is how far its last release
    lies behind those of the package under its new name.
    """
    if study.names is None:
        why = (
            "nobody asked the registries: `ask_registries: true` in the sweep's configuration does, and so does "
            f"`acpbench adapters check --format json > DIR/{NAMES_FILE}`"
        )
        return not_measured(study, "dead-name", why)
    listed = [as_object(package) for package in as_list(study.names.get("packages"))]
    known = [(index, package) for index, package in enumerate(listed) if not package.get("problem")]
    if not known:
        problem = study.names.get("problem") or next((package.get("problem") for package in listed), None)
        return not_measured(study, "dead-name", "no registry answered" + (f": {problem}" if problem else ""))
    noticed = [(index, package) for index, package in known if package.get("deprecated")]
    # None: the registry does not say; "": it says that there is none.
    accepted = [(i, package) for i, package in known if package.get("accepted") and package.get("deprecated") is None]
    dead = noticed + accepted
    if not dead and any(package.get("deprecated") is None for _, package in known):
        return not_measured(study, "dead-name", "the registry at hand gives no notices, and no adapter accepts one")
    own = [(index, package) for index, package in known if study.adapter in as_list(package.get("by"))]
    buried = {index for index, _ in dead}
    evidence = [_reference(index, "deprecated", package) for index, package in noticed]
    evidence += [_reference(index, "deprecated, says its adapter", package) for index, package in accepted]
    evidence += [_reference(index, "own pin", package) for index, package in own if index not in buried]
    heirs = {heir[0]: heir[1] for _, package in dead if (heir := _heir(package, known)) is not None}
    evidence += [_reference(index, "successor", package) for index, package in heirs.items()]
    gone = [package for _, package in dead if package.get("yanked")]
    limits = [f"withdrawn, does not install: {few(map(_name, gone))}"] if gone else []
    limits += [f"a pin of this adapter is dead: {_name(p)}" for index, p in own if index in buried]
    if accepted:
        limits.append(
            "the registry at hand gives no notices: that they are dead is the word of the adapters' own configurations"
        )
    months = {_name(package): behind for _, package in dead if (behind := _months(package, known)) is not None}
    redated = bool(months) and any(package.get("copies_dated") for _, package in dead)
    if redated:
        limits.append("it dates its copies, not the releases: the months are its own")
    if silent := len(listed) - len(known):
        limits.append(f"the registry did not answer for {silent} of {len(listed)} packages")
    return finding(
        study,
        "dead-name",
        verdict_of(fails=not dead, limited=gone or accepted or silent or redated),
        _text(study.adapter, dead, own, known),
        shown=("deprecated", "deprecated, says its adapter", "own pin", "successor"),
        figures={"packages": len(listed), "months behind": months},
        evidence=evidence,
        limits=limits,
        unit="pinned packages",
        n=len(known),
    )


def _text(adapter: str, dead: _Packages, own: _Packages, known: _Packages) -> str:
    """Which names are dead and yet served, and how far this adapter's own pins lie behind."""
    served = few(_dead(package, known) for _, package in dead if not package.get("yanked"))
    text = f"dead and still served: {served or 'none'}"
    # The adapter's own package is the first that its name is in.
    ours = sorted((package for _, package in own), key=lambda package: str(package.get("name")) not in adapter)
    if own:
        text += f"; pins of this adapter: {few(map(_behind, ours), 2)}"
    return text


def _name(package: dict[str, Any]) -> str:
    return f"{package.get('name')} {package.get('version')}"


def _reference(index: int, shows: str, package: dict[str, Any]) -> Reference:
    return Reference(run=".", kind="record", path=f"packages.{index}", shows=shows, what=_name(package))


def _dead(package: dict[str, Any], known: _Packages) -> str:
    """A dead name, its last release, and how far that lies behind the newest one of the name it was given."""
    last, heir, behind = _date(package.get("newest_released")), _heir(package, known), _months(package, known)
    if behind is None or heir is None or last is None:
        return _name(package)
    return f"{_name(package)} (last released {last:%Y-%m-%d}, {behind} months behind {heir[1].get('name')})"


def _months(package: dict[str, Any], known: _Packages) -> float | None:
    """Months from a dead name's last release to the newest one under its new name; None where the dates do not say."""
    heir = _heir(package, known)
    last, newest = _date(package.get("newest_released")), _date(heir[1].get("newest_released") if heir else None)
    if last is None or newest is None or newest < last:
        return None
    return round((newest - last).days / _DAYS_A_MONTH, 1)


def _heir(package: dict[str, Any], known: _Packages) -> tuple[int, dict[str, Any]] | None:
    """The package under its new name: the notice's, else the longest pinned name in the adapter's word for it."""
    said = str(package.get("accepted") or "")
    names = (
        {package.get("renamed")}
        if package.get("renamed")
        else {p.get("name") for _, p in known if str(p.get("name")) in said}
    )
    found = [(index, p) for index, p in known if p.get("name") in names and p.get("name") != package.get("name")]
    return max(found, key=lambda one: (len(str(one[1].get("name"))), str(one[1].get("newest_released"))), default=None)


def _behind(package: dict[str, Any]) -> str:
    versions, days = package.get("behind_versions"), package.get("behind_days")
    if versions == 0:
        return f"{_name(package)} is the newest"
    if not isinstance(versions, int):
        return _name(package)
    ago = f", {days:.0f} days" if isinstance(days, int | float) else ""
    return f"{_name(package)} is {versions} versions{ago} behind {package.get('newest')}"


def _date(value: Any) -> datetime | None:
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found is not None and found.tzinfo is None else found
