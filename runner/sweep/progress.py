"""What a sweep tells while it works: a bar on a terminal, plain lines elsewhere. Always on standard error."""

from __future__ import annotations

import sys
import threading
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column

from runner.config.plan import Cell
from runner.records.schema import Record
from runner.redaction.redact import spoken
from runner.text.visible import error_text, one_line

#: Longest reason in a line: an agent's error may be a book.
_REASON = 300


class SweepProgress(Protocol):
    """Called from any thread. A cell is started once, may have several attempts, and is done once.

    One progress may see several sweeps after each other (a night and its confirmation): each begins anew.
    """

    def begin(self, total: int) -> None: ...
    def note(self, text: str) -> None: ...
    def started(self, cell: Cell) -> None: ...
    def attempted(self, record: Record) -> None: ...
    def done(self, cell: Cell) -> None: ...
    def end(self) -> None: ...


def _seconds(record: Record) -> float:
    return (record.end_ns - record.start_ns) / 1e9


def _rest(record: Record) -> str:
    """What is worth saying beyond the outcome: which attempt, and why."""
    attempt = f" (attempt {record.attempt})" if record.attempt > 1 else ""
    return f"{attempt}: {one_line(record.reason, _REASON)}" if record.reason else attempt


class PlainProgress:
    """One line when an attempt ends; nothing that rewrites itself."""

    def __init__(self, out: TextIO = sys.stderr) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._total = 0
        self._numbers: dict[str, int] = {}

    def begin(self, total: int) -> None:
        with self._lock:
            self._total = total
            self._numbers.clear()

    def note(self, text: str) -> None:
        with self._lock:
            print(error_text(spoken(text)), file=self._out, flush=True)

    def started(self, cell: Cell) -> None:
        with self._lock:
            self._numbers[cell.name] = len(self._numbers) + 1

    def attempted(self, record: Record) -> None:
        with self._lock:
            number = self._numbers.get(record.cell, 0)
            line = spoken(f"{record.outcome:<11} {_seconds(record):5.1f} s  {one_line(record.cell)}{_rest(record)}")
            print(f"[{number}/{self._total}] {line}", file=self._out, flush=True)

    def done(self, cell: Cell) -> None:
        """Nothing: its last attempt's line has said it."""

    def end(self) -> None:
        self._out.flush()


class BarProgress:
    """A bar with the cell that was started last; attempts that ended scroll by above it, to fit 80 columns."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._bar = Progress(
            TextColumn(
                "{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")
            ),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            expand=True,
        )
        self._task = self._bar.add_task("sweep", total=None)

    def begin(self, total: int) -> None:
        self._bar.reset(self._task, total=total)
        self._bar.start()

    def note(self, text: str) -> None:
        self._print(error_text(spoken(text)))

    def started(self, cell: Cell) -> None:
        self._bar.update(self._task, description=_short(cell))

    def attempted(self, record: Record) -> None:
        kind = "warm-up" if record.warmup else "run"
        what = one_line(f"{record.adapter} {record.surface} {kind} {record.replicate}")
        line = f"{record.outcome:<11} {_seconds(record):5.1f} s  {what}{_rest(record)}"
        self._print(spoken(line))

    def done(self, cell: Cell) -> None:
        self._bar.advance(self._task)

    def end(self) -> None:
        self._bar.stop()

    def _print(self, text: str) -> None:
        """As it is: the library knows marks ([red]), names of pictures (:x:) and numbers, and would break lines."""
        self._console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)


def _short(cell: Cell) -> str:
    """A cell in the words that tell it from its neighbours."""
    kind = "warm-up" if cell.warmup else "run"
    return one_line(f"{cell.surface} {cell.fixture} {cell.policy} {kind} {cell.replicate}")


def progress_for(out: TextIO | None = None) -> SweepProgress:
    """The bar where `out` (default standard error) is a terminal, lines where it is not (CI, a file, a pipe)."""
    out = out if out is not None else sys.stderr
    return BarProgress() if out.isatty() else PlainProgress(out)
