"""What the findings rely on in the smaller files of a record, checked when they are read.

A newer version may say more: keys that no rule reads may be anything.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from runner.config.base import MAX_COUNT
from runner.errors import UsageError


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as problem:
        raise ValueError(f"not a regular expression: {problem}") from None
    return text


_Number = Annotated[float | None, Field(ge=-MAX_COUNT, le=MAX_COUNT)]
_Index = Annotated[int, Field(ge=0, le=MAX_COUNT)]
_Pattern = Annotated[str, AfterValidator(_pattern)]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="allow", allow_inf_nan=False, strict=True)


class _Package(_Shape):
    name: str | None = None
    version: str | None = None
    by: list[str] = []
    deprecated: str | None = None
    accepted: str | None = None
    renamed: str | None = None
    newest: str | None = None
    behind_versions: _Number = None
    behind_days: _Number = None
    newest_released: str | None = None
    copies_dated: bool | None = None
    yanked: bool | None = None
    problem: str | None = None


class Answers(_Shape):
    """adapters-check.json: what the package registries said of a sweep's pins."""

    packages: list[_Package] = []
    problem: str | None = None


class _Call(_Shape):
    meaning: str | None = None


class _Effect(_Shape):
    shows: _Pattern | None = None
    changes: str | None = None


class _Step(_Shape):
    index: _Index | None = None
    label: str | None = None
    calls: list[_Call] = []
    effect: _Effect | None = None


class _Agent(_Shape):
    name: str | None = None
    steps: list[_Step] = []


class _Results(_Shape):
    rejected: list[_Pattern] = []
    blocked: list[_Pattern] = []


class ProgramShape(_Shape):
    """program.json: what the model was scripted to say."""

    steps: list[_Step] = []
    subagents: list[_Agent] = []
    results: _Results | None = None


class _Outside(_Shape):
    path: str
    kind: str | None = None
    sha256: str | None = None


class FsDiff(_Shape):
    """fsdiff.json: what lay outside the workspace after the run, and what of `.git` was not as before."""

    outside: list[_Outside] = []
    git_changes: list[str] = []


def checked(shape: type[_Shape], value: Any, path: Path) -> dict[str, Any]:
    """The value that was read from `path`. Raises UsageError, naming it, where it has not that shape."""
    try:
        # A name that is not UTF-8 is no text for the model, and is none of its business.
        shape.model_validate_json(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        told = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
        raise UsageError(f"{path}: not as it was written: {told}") from None
    found: dict[str, Any] = value
    return found
