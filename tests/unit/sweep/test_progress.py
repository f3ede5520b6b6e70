from __future__ import annotations

import io

from rich.console import Console

from runner.sweep.progress import BarProgress, PlainProgress, SweepProgress
from tests.unit.report.sample_reports import cell, run


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


#: What a terminal, this library, a CI service would obey.
HOSTILE = "\x1b[2J\u202e[red]:x:[/red]\r\n::error::bad\n##[error]" + "y" * 5000


def told(progress: SweepProgress, said: io.StringIO) -> list[str]:
    odd = cell("acp", 1).model_copy(update={"surface": "[bold]:x:\x1b[31m"})
    progress.begin(1)
    progress.started(odd)
    progress.attempted(run(odd, outcome="agent-error", reason=HOSTILE))
    progress.note(f"a note: {HOSTILE}")
    progress.end()
    return said.getvalue().splitlines()


def test_a_reason_is_shown_on_its_line_and_is_not_obeyed() -> None:
    said = io.StringIO()
    lines = told(PlainProgress(said), said)
    assert lines[0].startswith("[1/1] agent-error")
    assert "\\u001b[2J\\u202e[red]:x:[/red]  ::error::bad #\\u0023[error]" in lines[0]
    assert len(lines[0]) < 600
    assert lines[1].startswith("a note: \\u001b[2J\\u202e")
    assert lines[2] == "  \\u003a:error::bad"
    assert lines[3].startswith("  #\\u0023[error]yyy")
    assert len(lines) == 4


def test_neither_is_it_by_the_bar() -> None:
    said = io.StringIO()
    lines = told(BarProgress(Console(file=said, width=80)), said)
    text = "\n".join(lines)
    assert "[red]:x:[/red]  ::error::bad" in text
    assert "[bold]:x:\\u001b[31m" in text
    assert "\x1b[2J" not in text
    assert "\u202e" not in text
    assert not [line for line in lines if line.strip().startswith("::")]
