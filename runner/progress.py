"""What a sweep tells while it works: a bar on a terminal, plain lines elsewhere. Always on standard error."""

from __future__ import annotations

import sys
import threading
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from runner.records.schema import Record


class SweepProgress(Protocol):
    """Called from any thread."""

    def begin(self, total: int) -> None: ...
    def note(self, text: str) -> None: ...
    def started(self, cell: str) -> None: ...
    def finished(self, record: Record) -> None: ...
    def end(self) -> None: ...


def _line(record: Record) -> str:
    seconds = (record.end_ns - record.start_ns) / 1e9
    reason = f": {record.reason}" if record.reason else ""
    attempt = f" (attempt {record.attempt})" if record.attempt > 1 else ""
    return f"{record.outcome:<11} {seconds:5.1f} s  {record.cell}{attempt}{reason}"


class PlainProgress:
    """One line when a run ends; nothing that rewrites itself."""

    def __init__(self, out: TextIO = sys.stderr) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._total = 0
        self._done = 0

    def begin(self, total: int) -> None:
        self._total = total

    def note(self, text: str) -> None:
        with self._lock:
            print(text, file=self._out, flush=True)

    def started(self, cell: str) -> None:
        """Said only at the end: in a log, one line a run is enough."""

    def finished(self, record: Record) -> None:
        with self._lock:
            self._done += 1
            print(f"[{self._done}/{self._total}] {_line(record)}", file=self._out, flush=True)

    def end(self) -> None:
        self._out.flush()


class BarProgress:
    """A bar with the running cells; finished runs scroll by above it."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._task = self._bar.add_task("sweep", total=None)

    def begin(self, total: int) -> None:
        self._bar.update(self._task, total=total)
        self._bar.start()

    def note(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False)

    def started(self, cell: str) -> None:
        self._bar.update(self._task, description=cell)

    def finished(self, record: Record) -> None:
        self._bar.advance(self._task)
        self._console.print(_line(record), markup=False, highlight=False)

    def end(self) -> None:
        self._bar.stop()


def progress_for(out: TextIO = sys.stderr) -> SweepProgress:
    """The bar where `out` is a terminal, lines where it is not (CI, a file, a pipe)."""
    return BarProgress() if out.isatty() else PlainProgress(out)
