"""What all configuration models share: unknown keys are errors, values are frozen."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints

#: An id a user writes: `claude-agent-acp@0.64.0`, `acp-nocaps`, `fix-semver`.
Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+@-]*$", max_length=120)]

#: What `@`, `:` and `/` become where an id names a file, an image or a cell.
_UNSAFE = re.compile(r"[@:/]")


def _regex(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as problem:
        raise ValueError(f"not a regular expression: {problem}") from None
    return pattern


#: A regular expression that Python and JavaScript read alike; searched, not anchored.
Regex = Annotated[str, AfterValidator(_regex)]


class Config(BaseModel):
    """Root of all models of what a user writes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def on_disk(name: str) -> str:
    """The form of an id that may stand in a path or a cell name (`@`, `:` and `/` become `-`)."""
    return _UNSAFE.sub("-", name)
