"""What all verbs share: the root they were given, and what hangs on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from runner.config.catalog import Catalog, find_root

if TYPE_CHECKING:
    from docker import DockerClient


@dataclass(frozen=True)
class CliState:
    """`root`: option --root, None where it was not given."""

    root: Path | None = None


def catalog(context: typer.Context) -> Catalog:
    """The catalog of this invocation's root. Raises UsageError where there is no root."""
    state = context.obj if isinstance(context.obj, CliState) else CliState()
    return Catalog(find_root(state.root))


@contextmanager
def engine() -> Iterator[DockerClient]:
    """A client of the container engine, closed at the end. Raises EngineUnavailable."""
    # docker-py takes a third of a second to import; verbs that need no engine do not pay for it.
    from runner.sandbox.engine import connect

    client = connect()
    try:
        yield client
    finally:
        client.close()
