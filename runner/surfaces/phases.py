"""The phases of a run on one clock (CLOCK_MONOTONIC)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from runner.records.schema import Phase


class PhaseClock:
    """Records phases as they pass; a phase that raises is recorded too."""

    def __init__(self) -> None:
        self.done: list[Phase] = []

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.monotonic_ns()
        try:
            yield
        finally:
            self.add(name, start, time.monotonic_ns())

    def add(self, name: str, start_ns: int, end_ns: int) -> None:
        self.done.append(Phase(name=name, start_ns=start_ns, end_ns=end_ns))
