"""What an agent offers, announces and leaves behind, by name.

Each name is a metric of its own, so that a comparison of two versions shows which one came or went.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from runner.evidence.handshake import Handshake
from runner.evidence.permissions import Ask
from runner.gateway.journal import JournalEntry
from runner.wire.numbers import bounded

#: A nested object of capabilities is followed this deep; what lies below stands as its JSON text.
_DEPTH = 6
#: Parts of a path that are kept, below HOME (or the root) and in the workspace; all that lies deeper is one name.
_PARTS_OUTSIDE = 4
_PARTS_INSIDE = 8
#: Parts of a file's name that no two runs share: ids, dates, times (some with a random tag behind), long numbers.
_FLEETING = re.compile(
    r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
    r"|\d{4}-\d\d-\d\d(?:[T_-]?\d\d-\d\d(?:-\d\d(?:-\d+)?)?Z?)?"
    r"|\d{10,}(?:_[0-9A-Za-z]{4,8}(?![0-9A-Za-z]))?"
    r"|(?<![0-9A-Za-z])(?=[0-9a-f]*\d)[0-9a-f]{7,}(?![0-9A-Za-z])"
    r"|(?<![0-9A-Za-z])\d{2,}(?![0-9A-Za-z])",
    re.IGNORECASE,
)
#: Folders for the moment: what still lies there depends on how soon the agent was ended, so it has no name here.
_TEMPORARY = frozenset({"tmp", "temp", ".tmp"})
#: Files that a SQLite database has beside it or not, by how soon its process ends.
_BESIDE = re.compile(r"-(?:shm|wal|journal)$")


def offered_tools(entries: Iterable[JournalEntry]) -> list[str]:
    """Names of the tools that the main requests of the run's own conversation offer."""
    return sorted(
        {tool for entry in entries if entry.kind == "main" and entry.subagent is None for tool in entry.tools}
    )


def options(requests: Iterable[Ask]) -> dict[str, int]:
    """`<optionId>:<kind>` -> permission requests that offered it."""
    return dict(Counter(f"{option.id}:{option.kind}" for ask in requests for option in ask.options))


def capabilities(hello: Handshake) -> dict[str, Any]:
    """Dotted path -> value of each leaf of the agent's capabilities; an empty object, which declares by being there,
    is True. A list of words is a set: each word is a leaf.
    """
    found: dict[str, Any] = {}
    _leaves(hello.capabilities, "", _DEPTH, found)
    return found


def _leaves(value: Any, path: str, depth: int, found: dict[str, Any]) -> None:
    prefix = f"{path}." if path else ""
    if isinstance(value, dict) and value and depth:
        for key, part in value.items():
            _leaves(part, f"{prefix}{key}", depth - 1, found)
    elif isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        found.update({f"{prefix}{part}": True for part in value})
    elif path:
        found[path] = True if value == {} else _plain(value)


def config_options(hello: Handshake) -> dict[str, Any]:
    """Id -> value at the start, as text where it is no plain one."""
    return {name: _plain(value) for name, value in hello.config_options.items()}


def _plain(value: Any) -> bool | int | str:
    """A value as a metric's: what is neither a word nor a number that all readers can hold is its JSON text."""
    value = bounded(value)
    return value if isinstance(value, bool | int | str) else json.dumps(value)


def inside(paths: Iterable[str]) -> list[str]:
    """Files of the workspace by name, those in very deep folders by their folder."""
    return sorted({_folded(path.split("/"), _PARTS_INSIDE) for path in paths})


def outside(
    files: Iterable[Mapping[str, Any]], given: Mapping[str, str | None], home: str, fleeting: Iterable[str] = ()
) -> list[str]:
    """Names of the files left outside the workspace: `~` for `home`, `*` for what no two runs share.

    files: `outside` of fsdiff.json. fleeting: names, as globs, that are there or not by how soon the agent was ended:
    left out, as is what lies in folders of temporary files. given: path -> sha256 (None: a link) of what lay there
    before the start; what is still the same is nobody's doing.
    """
    left = [
        str(file["path"]) for file in files if file["path"] not in given or given[file["path"]] != file.get("sha256")
    ]
    named = {name for path in left if (name := stable(path, home)) is not None}
    return sorted(name for name in named if not any(fnmatch.fnmatchcase(name, glob) for glob in fleeting))


def stable(path: str, home: str) -> str | None:
    """An absolute path as every run would name it; None in a folder of temporary files."""
    top, base = ("~/", f"{home}/") if path.startswith(f"{home}/") else ("/", "/")
    parts: list[str] = []
    for part in path[len(base) :].split("/"):
        if parts and parts[-1] in _TEMPORARY:
            return None
        parts.append(_FLEETING.sub("*", _BESIDE.sub("", part)))
    return top + _folded(parts, _PARTS_OUTSIDE)


def _folded(parts: Sequence[str], most: int) -> str:
    return "/".join(parts if len(parts) <= most else [*parts[:most], "**"])
