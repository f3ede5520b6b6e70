"""Which packages an image holds, read from the locks in its folder."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from runner.errors import BuildError

#: What images are built for: npm's names of it.
OS, CPU, LIBC = "linux", "x64", "glibc"

_REQUIREMENT = re.compile(r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[^\s;\\]+)")
_HASH = re.compile(r"--hash=(sha256:[0-9a-f]{64})")


@dataclass(frozen=True, order=True)
class InstalledPackage:
    """One installed package. `integrity`: npm's `sha512-<base64>`, or pip's `sha256:<hex>` (several: space between)."""

    registry: Literal["npm", "pypi"]
    name: str
    version: str
    integrity: str


def canonical(name: str) -> str:
    """A package's name as registries compare it (PEP 503: runs of - _ . are one -, case does not count)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def packages(folder: Path) -> tuple[InstalledPackage, ...]:
    """What `folder`'s package-lock.json and requirements.txt install on the images' platform, sorted.

    Raises BuildError for a lock that cannot be read or a package without a hash: nothing may be installed unpinned.
    """
    pins: set[InstalledPackage] = set()
    lock = folder / "package-lock.json"
    if lock.exists():
        pins.update(_npm(lock))
    requirements = folder / "requirements.txt"
    if requirements.exists():
        pins.update(_pypi(requirements))
    return tuple(sorted(pins))


def _npm(lock: Path) -> list[InstalledPackage]:
    try:
        entries: dict[str, dict[str, Any]] = json.loads(lock.read_text("utf-8"))["packages"]
    except (ValueError, KeyError) as error:
        raise BuildError(f"{lock}: not a package lock of version 2 or 3 ({error})") from error
    pins = []
    for place, entry in entries.items():
        if not place or not _fits(entry):
            continue
        name = entry.get("name") or place.rpartition("node_modules/")[2]
        if not entry.get("integrity"):
            raise BuildError(f"{lock}: {name} has no integrity hash; write the lock anew with npm install")
        if entry.get("resolved"):
            raise BuildError(f"{lock}: {name} names a download address; set omit-lockfile-registry-resolved=true")
        pins.append(InstalledPackage("npm", name, entry["version"], entry["integrity"]))
    return pins


def _fits(entry: dict[str, Any]) -> bool:
    """False for the variants of optional packages that npm leaves out on the images' platform."""
    wanted = (("os", OS), ("cpu", CPU), ("libc", LIBC))
    return all(key not in entry or value in entry[key] for key, value in wanted)


def _pypi(requirements: Path) -> list[InstalledPackage]:
    text = requirements.read_text("utf-8").replace("\\\n", " ")
    pins = []
    for line in text.splitlines():
        match = _REQUIREMENT.match(line.strip())
        if match is None:
            continue
        hashes = _HASH.findall(line)
        if not hashes:
            raise BuildError(f"{requirements}: {match['name']} has no hash")
        pins.append(InstalledPackage("pypi", match["name"], match["version"], " ".join(sorted(hashes))))
    return pins
