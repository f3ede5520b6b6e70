"""What all configuration models share: unknown keys are errors, values are frozen."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints

#: An id a user writes: `claude-agent-acp@0.64.0`, `acp-nocaps`, `fix-semver`.
Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+@-]*$", max_length=120)]

#: What `@`, `:` and `/` become where an id names a file, an image or a cell.
_UNSAFE = re.compile(r"[@:/]")


#: What Python's `re` reads and JavaScript does not, or otherwise; character classes and escaped characters first.
_ALIEN = re.compile(
    r"\\(?P<anchor>[AZ])|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<group>\(\?(?:P|>|#|\(|[aiLmsux]+\)|[a-zA-Z-]*[aLux][a-zA-Z-]*:))"
    r"|(?P<possessive>[*+?}]\+)",
    re.DOTALL,
)


def regex_fault(pattern: str) -> str | None:
    """Why `pattern` is no regular expression that Python and JavaScript read alike; None: it is one."""
    try:
        re.compile(pattern)
    except re.error as problem:
        return f"not a regular expression: {problem}"
    alien = next((found for found in _ALIEN.finditer(pattern) if found.lastgroup is not None), None)
    if alien is None:
        return None
    instead = {
        "anchor": "write ^ or $",
        "group": "write (...), (?:...) or (?i:...)",
        "possessive": "leave out the second +",
    }[str(alien.lastgroup)]
    return f"'{alien[0]}' is not read alike by Python and JavaScript; {instead}"


def _regex(pattern: str) -> str:
    if (fault := regex_fault(pattern)) is not None:
        raise ValueError(fault)
    return pattern


#: A regular expression that Python and JavaScript read alike; searched, not anchored.
Regex = Annotated[str, AfterValidator(_regex)]


class Config(BaseModel):
    """Root of all models of what a user writes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def on_disk(name: str) -> str:
    """The form of an id that may stand in a path or a cell name (`@`, `:` and `/` become `-`)."""
    return _UNSAFE.sub("-", name)
