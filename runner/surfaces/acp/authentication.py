"""The authentication methods that an agent offers, and which of them can be used without a person. Pure.

ACP v1: initialize names `authMethods`; one of them may be chosen by `authenticate`. A method of type `terminal` runs
the agent's login in a terminal for somebody to type in, which is never supported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Methods that a message names, and characters of each id.
_NAMED = 8
_SHOWN = 60
#: What a method that names no type is.
_PLAIN = "agent"
_UNSUPPORTED = frozenset({"terminal"})


@dataclass(frozen=True, slots=True)
class Method:
    """One entry of `authMethods`."""

    id: str
    type: str

    @property
    def supported(self) -> bool:
        return self.type not in _UNSUPPORTED

    def __str__(self) -> str:
        kind = "" if self.type == _PLAIN else f" (type {self.type[:_SHOWN]})"
        return f"{self.id[:_SHOWN]!r}{kind}"


def offered(initialized: Mapping[str, Any]) -> list[Method]:
    """The methods of an initialize result; entries without an id are none."""
    listed = initialized.get("authMethods")
    return [
        Method(method["id"], method["type"] if isinstance(method.get("type"), str) else _PLAIN)
        for method in (listed if isinstance(listed, list) else [])
        if isinstance(method, Mapping) and isinstance(method.get("id"), str)
    ]


def named(methods: list[Method]) -> str:
    """The methods for a message."""
    more = f" and {len(methods) - _NAMED} more" if len(methods) > _NAMED else ""
    return ", ".join(map(str, methods[:_NAMED])) + more if methods else "none"


def advice(methods: list[Method], chosen: str | None) -> str:
    """What to do about an agent that wants to be authenticated; `chosen`: the adapter's `session.authenticate`."""
    if chosen is not None:
        return f"the agent still wants it after 'session: {{ authenticate: {chosen} }}'; it offers {named(methods)}"
    if any(method.supported for method in methods):
        return f"the agent offers {named(methods)}: name one in the adapter's file, 'session: {{ authenticate: <id> }}'"
    return f"the agent offers {named(methods)}, which needs a person: give it its key by the adapter's 'env' or 'home'"
