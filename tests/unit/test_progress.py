from __future__ import annotations

import io

from rich.console import Console

from runner.progress import BarProgress, PlainProgress, SweepProgress
from tests.unit.report.builders import cell, run


def played(progress: SweepProgress, cells: int) -> None:
    progress.begin(cells)
    for number in range(1, cells + 1):
        one = cell("acp", number)
        progress.started(one)
        progress.attempted(run(one))
        progress.done(one)
    progress.end()


def test_a_second_sweep_is_counted_anew() -> None:
    """A night and its confirmation go through one progress, and have cells of the same names."""
    said = io.StringIO()
    progress = PlainProgress(said)
    played(progress, 3)
    played(progress, 2)
    assert [line.split()[0] for line in said.getvalue().splitlines()] == ["[1/3]", "[2/3]", "[3/3]", "[1/2]", "[2/2]"]


def test_so_is_the_bar() -> None:
    said = io.StringIO()
    progress = BarProgress(Console(file=said, width=80, force_terminal=True))
    played(progress, 3)
    played(progress, 2)
    assert "2/2" in said.getvalue()
    assert "5/2" not in said.getvalue()
