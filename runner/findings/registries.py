"""What the package registries said of a sweep's pins (`adapters-check.json`), read back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runner.config.base import MAX_COUNT
from runner.errors import UsageError

_Number = Annotated[float | None, Field(ge=-MAX_COUNT, le=MAX_COUNT)]


class _Package(BaseModel):
    """What the findings rely on; a newer version may say more."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False, strict=True)

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


class _Answers(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)

    packages: list[_Package] = []
    problem: str | None = None


def check_answers(value: Any, path: Path) -> dict[str, Any]:
    """The value that was read from `path`. Raises UsageError, naming it, where it is no such answer."""
    try:
        _Answers.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        told = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
        raise UsageError(f"{path}: not an answer of the registries: {told}") from None
    found: dict[str, Any] = value
    return found
