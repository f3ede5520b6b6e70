"""Results go to standard output, everything else to standard error; a reader that went away is not an error.

All of it is made visible here, whatever was done before: no verb can print what a terminal or a CI service obeys.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO

from tabulate import tabulate

from runner.errors import InfraError, UsageError
from runner.redaction.redact import spoken
from runner.text.visible import one_line, printable

#: Longest cell of a table.
_CELL = 200


def out(text: str) -> None:
    """Print to standard output, at once."""
    _print(printable(text), sys.stdout)


def err(text: str) -> None:
    """Print to standard error, at once."""
    _print(printable(text), sys.stderr)


def out_as_is(text: str) -> None:
    """Print what a renderer made for a machine (JSON, CSV, workflow commands) and made safe itself. On a terminal it is
    read by eyes as well, and what is left of control characters there (a CR in a field of CSV) is shown."""
    _print(printable(text) if sys.stdout.isatty() else text, sys.stdout)


def out_or_file(text: str, file: Path | None) -> None:
    """Print, or write to `file` where one is given. Raises UsageError where it cannot be written."""
    if file is None:
        out_as_is(text.removesuffix("\n"))
        return
    try:
        file.write_text(spoken(text), encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror}") from None


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows as plain text; None is shown as `-`, a text on one line."""
    shown = [[one_line(cell, _CELL) if isinstance(cell, str) else cell for cell in row] for row in rows]
    heads = [one_line(head, _CELL) for head in headers]
    return printable(tabulate(shown, headers=heads, missingval="-", disable_numparse=True))


def soften(stream: TextIO) -> None:
    """Let text that the stream's encoding lacks (odd file names) come out as escapes, not as an exception."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def open_streams() -> None:
    """Where the caller closed standard output or error (`>&-`), what is said there goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open till the end


def _print(text: str, stream: TextIO) -> None:
    try:
        stream.write(spoken(text) + "\n")
        stream.flush()
    except OSError as problem:
        # The descriptor is replaced so that the interpreter's last flush does not complain either.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
        # `acpbench report DIR | head -1` goes on silently, with the exit code that was due anyway.
        if not isinstance(problem, BrokenPipeError) and stream is sys.stdout:
            raise InfraError(f"standard output cannot be written: {problem.strerror}") from problem
