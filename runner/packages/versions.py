"""Version numbers of npm and PyPI: which are releases, which is newer, and the one in a text."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: `1.2.3`, also with PyPI's `.post1` and npm's build metadata; everything else is a pre-release.
_FINAL = re.compile(r"v?(\d+(?:\.\d+)*)(?:\.?post(\d+))?(?:\+[0-9A-Za-z.-]+)?")
#: A version inside a longer text: at least two numbers.
_INSIDE = re.compile(r"(?<![\w.])v?(\d+(?:\.\d+)+(?:-[0-9A-Za-z.-]*\w)?)")

Key = tuple[tuple[int, ...], int]


def key(version: str) -> Key | None:
    """What releases are ordered by; None for a pre-release or a text that is no version."""
    found = _FINAL.fullmatch(version)
    if found is None:
        return None
    numbers = tuple(int(part) for part in found[1].split("."))
    # PyPI: 1.0 is 1.0.0.
    return numbers + (0,) * (4 - len(numbers)), int(found[2] or 0)


def releases(versions: Iterable[str]) -> list[str]:
    """The releases among them, oldest first."""
    keyed = [(found, version) for version in versions if (found := key(version)) is not None]
    return [version for _, version in sorted(keyed)]


def between(versions: Iterable[str], low: str, high: str) -> list[str]:
    """The releases from `low` to `high`, both included, oldest first."""
    first, last = key(low), key(high)
    if first is None or last is None:
        return []
    return [version for version in releases(versions) if first <= (key(version) or last) <= last]


def nearest(wanted: str, versions: Iterable[str]) -> str | None:
    """The newest release that is not newer than `wanted`, else the oldest one; None where there is none."""
    known = releases(versions)
    goal = key(wanted)
    older = [version for version in known if goal is not None and (key(version) or goal) <= goal]
    return older[-1] if older else (known[0] if known else None)


def inside(text: str) -> str | None:
    """The first version in a text such as `2.1.220 (Claude Code)`."""
    found = _INSIDE.search(text)
    return found[1] if found else None
