"""A configuration file -> its model; whatever is wrong becomes one line each with file:line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import ValidationError

from runner.config.base import Config
from runner.config.explain import explain
from runner.config.keys import line_with_key
from runner.config.source import ConfigErrors, Place, Source, raise_all, read_source
from runner.errors import ConfigError

__all__ = ["ConfigErrors", "LoadedFile", "load", "raise_all"]

M = TypeVar("M", bound=Config)


@dataclass(frozen=True)
class LoadedFile(Generic[M]):
    """A model and the file it came from."""

    value: M
    source: Source

    @property
    def path(self) -> Path:
        """The file, as messages show it."""
        return self.source.path

    def at(self, *place: str | int) -> tuple[Path, int]:
        """File and 1-based line of a place in it, e.g. `at("arms", 0, "adapters", 1)`."""
        return self.source.path, self.source.line(place)

    def error(self, place: Place, problem: str) -> ConfigError:
        """A ConfigError at a place of this file."""
        return ConfigError(self.source.path, self.source.line(place), problem)


def load(path: Path, model: type[M]) -> LoadedFile[M]:
    """Read `path` as `model`. Raises ConfigError, or ConfigErrors with every fault of the file in line order."""
    source = read_source(path)
    if (line := line_with_key(source.raw)) is not None:
        message = "this line holds what looks like a key; say where the key is, `key: {env: NAME}` or `{file: PATH}`"
        raise ConfigError(source.path, line, message)
    try:
        value = model.model_validate(source.data)
    except ValidationError as error:
        problems = explain(error.errors(include_url=False), source.data, model)
        errors = [
            ConfigError(source.path, (source.key_line if p.key else source.line)(p.place), p.text) for p in problems
        ]
        raise_all(errors)
        raise  # pragma: no cover - a ValidationError holds at least one error
    return LoadedFile(value, source)
