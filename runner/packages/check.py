"""Are the pinned packages still what one should use? Deprecated, renamed, withdrawn, or left behind: as registries say.

What a registry does not say is null, never a guess. A mirror of npm may drop deprecation notices, and date its copies
in place of the releases; whether this one does is seen from one package that was released and marked years ago.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from runner.config.adapter import Adapter
from runner.packages.clients import Registries, without_addresses
from runner.packages.versions import between, releases
from runner.sandbox.pins import packages
from runner.sandbox.recipe import Recipe
from runner.wire.values import as_list, as_object

#: Marked as deprecated in the public npm registry since February 2020.
MARKED = "request@2.88.2"
#: When it was released, by the same registry.
MARKED_DAY = "2020-02-11"
#: The version of PyPI's simple API that has a project's status (PEP 792).
STATUS_API = (1, 4)

_RENAMED = re.compile(
    r"(?:renamed|moved|migrated|replaced|superseded|use|please use|in favou?r of|successor)"
    r"[^@a-z0-9]*(?:\b(?:to|by|with|as|is|now|has|been|package|the|at|instead)\b[^@a-z0-9]*)*"
    r"[`'\"]?(@[a-z0-9-]+/[a-z0-9._-]*[a-z0-9]|[a-z0-9]+(?:-[a-z0-9]+)+)",
    re.IGNORECASE,
)


@dataclass(frozen=True, order=True)
class PinnedPackage:
    """One package at one version, and the adapters and images that pin it."""

    registry: Literal["npm", "pypi"]
    name: str
    version: str
    by: tuple[str, ...] = ()
    #: Why a deprecation is accepted.
    accepted: str | None = None


@dataclass(frozen=True)
class CheckedPackage:
    """What the registry says of one pin. Null: it does not say; `problem`: it could not be asked at all."""

    pinned: PinnedPackage
    #: The notice, "" where the registry says that there is none.
    deprecated: str | None = None
    #: The name that the notice gives in its stead.
    renamed: str | None = None
    newest: str | None = None
    #: Releases that came after the pinned one, and days from the pinned one to the newest.
    behind: int | None = None
    behind_days: int | None = None
    #: When the pinned and the newest release came out (ISO 8601).
    released: str | None = None
    newest_released: str | None = None
    #: Those times, and `behind_days`, are when a mirror made its copies. None: nobody can tell.
    copies_dated: bool | None = None
    #: Withdrawn: yanked from PyPI, or no longer in npm.
    yanked: bool | None = None
    problem: str | None = None

    @property
    def ok(self) -> bool:
        """Not deprecated unless that is accepted, and asked at all."""
        return self.problem is None and (not self.deprecated or self.pinned.accepted is not None)

    def as_json(self) -> dict[str, Any]:
        pinned = self.pinned
        return {
            "registry": pinned.registry,
            "name": pinned.name,
            "version": pinned.version,
            "by": list(pinned.by),
            "ok": self.ok,
            "deprecated": self.deprecated,
            "accepted": pinned.accepted,
            "renamed": self.renamed,
            "newest": self.newest,
            "behind_versions": self.behind,
            "behind_days": self.behind_days,
            "released": self.released,
            "newest_released": self.newest_released,
            "copies_dated": self.copies_dated,
            "yanked": self.yanked,
            "problem": self.problem,
        }


def pins(adapters: Iterable[Adapter]) -> list[PinnedPackage]:
    """The packages of all adapters, each once, sorted.

    A reason in `accept_deprecated` is for the adapter's own package, its first one; where several adapters pin the same
    package it holds if all of those whose own it is accept it.
    """
    found: dict[tuple[Literal["npm", "pypi"], str, str], list[Adapter]] = {}
    for adapter in adapters:
        for package in adapter.packages:
            found.setdefault((package.registry, package.name, package.version), []).append(adapter)
    rows = []
    for (registry, name, version), users in found.items():
        owners = [user for user in users if user.packages[0].name == name]
        reasons = [owner.accept_deprecated for owner in owners]
        accepted = reasons[0] if reasons and all(reason is not None for reason in reasons) else None
        rows.append(PinnedPackage(registry, name, version, tuple(user.id for user in users), accepted))
    return sorted(rows, key=lambda row: (row.registry, row.name, row.version))


def image_pins(name: str, folder: Path) -> list[PinnedPackage]:
    """What an image's own folder names: the dependencies of its package.json, every line of its requirements."""
    manifest = folder / "package.json"
    direct = json.loads(manifest.read_text("utf-8")).get("dependencies", {}) if manifest.exists() else {}
    return [
        PinnedPackage(package.registry, package.name, package.version, (f"image {name}",))
        for package in packages(folder)
        if package.registry == "pypi" or package.name in direct
    ]


def merged(pinned: Iterable[PinnedPackage]) -> list[PinnedPackage]:
    """Each package once, sorted, with everybody who pins it; what one accepts is accepted."""
    found: dict[tuple[str, str, str], PinnedPackage] = {}
    for package in sorted(pinned):
        place = (package.registry, package.name, package.version)
        same = found.get(place)
        found[place] = (
            replace(same, by=same.by + package.by, accepted=same.accepted or package.accepted) if same else package
        )
    return list(found.values())


def everything(adapters: Sequence[Adapter], recipes: Mapping[str, Recipe]) -> list[PinnedPackage]:
    """Every pin of ours: the adapters' packages, and those of the images that no adapter has (`recipes`: of all)."""
    shared = sorted(recipes.keys() - {adapter.image for adapter in adapters})
    return merged(
        [*pins(adapters), *(image_pin for name in shared for image_pin in image_pins(name, recipes[name].folder))]
    )


def check(pinned: Sequence[PinnedPackage], registries: Registries) -> list[CheckedPackage]:
    """Ask the registries about every pin, in one go."""
    answers = registries.ask(
        [MARKED, *(f"{package.name}@{package.version}" for package in pinned if package.registry == "npm")],
        [package.name for package in pinned if package.registry == "pypi"],
    )
    marked = _npm_said(answers["npm"].get(MARKED, {}))
    day = as_object(marked.get("time")).get(MARKED.rpartition("@")[2])
    copies = None if day is None else not str(day).startswith(MARKED_DAY)
    return [
        replace(
            _npm(
                package,
                answers["npm"].get(f"{package.name}@{package.version}", {}),
                has_notices=bool(marked.get("deprecated")),
            ),
            copies_dated=copies,
        )
        if package.registry == "npm"
        else _pypi(package, answers["pypi"].get(package.name, {}))
        for package in pinned
    ]


def _npm(pinned: PinnedPackage, answer: Mapping[str, Any], *, has_notices: bool) -> CheckedPackage:
    if answer.get("absent"):
        return CheckedPackage(pinned, yanked=True)
    if "ok" not in answer:
        return CheckedPackage(pinned, problem=without_addresses(str(answer.get("error") or "no answer")))
    said = _npm_said(answer)
    notice = said.get("deprecated")
    tags = as_object(said.get("dist-tags"))
    versions = [str(release) for release in as_list(said.get("versions"))]
    times = {str(name): str(at) for name, at in as_object(said.get("time")).items()}
    text = str(notice) if notice else "" if has_notices else None
    return _judged(pinned, text, str(tags["latest"]) if "latest" in tags else None, versions, times, yanked=False)


def _npm_said(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """npm answers with a list where a name fits several versions: the last is the newest."""
    said = answer.get("ok")
    if isinstance(said, list):
        said = said[-1] if said else None
    return as_object(said)


def _pypi(pinned: PinnedPackage, answer: Mapping[str, Any]) -> CheckedPackage:
    if answer.get("absent"):
        return CheckedPackage(pinned, yanked=True)
    if "ok" not in answer:
        return CheckedPackage(pinned, problem=without_addresses(str(answer.get("error") or "no answer")))
    page = as_object(answer["ok"])
    files = [as_object(file) for file in as_list(page.get("files"))]
    mine = [file for file in files if _version_of(str(file.get("filename"))) == pinned.version]
    living = {version for file in files if not file.get("yanked") and (version := _version_of(str(file["filename"])))}
    times: dict[str, str] = {}
    for file in files:
        version = _version_of(str(file.get("filename")))
        if version and file.get("upload-time"):
            times.setdefault(version, str(file["upload-time"]))
    newest = next(reversed(releases(living)), None)
    yanked = all(bool(file.get("yanked")) for file in mine)
    return _judged(pinned, _status(page), newest, sorted(living | {pinned.version}), times, yanked=yanked)


def _status(page: Mapping[str, Any]) -> str | None:
    """The notice of a project's status (PEP 792); None where the index is too old to have one."""
    status = page.get("project-status")
    if isinstance(status, dict) and status.get("status") in ("archived", "deprecated", "quarantined"):
        return " ".join(f"{status['status']}: {status.get('reason') or 'no reason given'}".split())
    numbers = str(as_object(page.get("meta")).get("api-version", "0")).split(".")
    api = tuple(int(part) if part.isdigit() else 0 for part in numbers)
    return "" if isinstance(status, dict) or api >= STATUS_API else None


def _version_of(filename: str) -> str | None:
    """The version in a wheel's or source archive's name."""
    if filename.endswith(".whl"):
        return filename.split("-")[1] if filename.count("-") >= 4 else None
    stem = re.sub(r"\.(tar\.gz|zip|tar\.bz2)$", "", filename)
    return stem.rpartition("-")[2] if stem != filename and "-" in stem else None


def _judged(
    pinned: PinnedPackage,
    notice: str | None,
    newest: str | None,
    versions: Sequence[str],
    times: Mapping[str, str],
    *,
    yanked: bool,
) -> CheckedPackage:
    found = _RENAMED.search(notice) if notice else None
    later = between(versions, pinned.version, newest) if newest is not None else []
    released, newest_released = times.get(pinned.version), times.get(newest or "")
    return CheckedPackage(
        pinned,
        deprecated=notice,
        renamed=found[1] if found and found[1] != pinned.name else None,
        newest=newest,
        # A list without the pinned version itself cannot be counted from.
        behind=len(later) - 1 if pinned.version in later else None,
        behind_days=_days(released, newest_released),
        released=released,
        newest_released=newest_released,
        yanked=yanked,
    )


def _days(first: str | None, last: str | None) -> int | None:
    """Whole days; None where a time is missing, or the newest is said to be older."""
    if first is None or last is None:
        return None
    try:
        days = (datetime.fromisoformat(last) - datetime.fromisoformat(first)).days
    except (TypeError, ValueError):
        return None
    return days if days >= 0 else None
