"""Results go to standard output, everything else to standard error; a reader that went away is not an error."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO

from tabulate import tabulate

from runner.errors import InfraError, UsageError
from runner.redact import spoken


def out(text: str) -> None:
    """Print to standard output, at once."""
    _print(text, sys.stdout)


def err(text: str) -> None:
    """Print to standard error, at once."""
    _print(text, sys.stderr)


def out_or_file(text: str, file: Path | None) -> None:
    """Print, or write to `file` where one is given. Raises UsageError where it cannot be written."""
    if file is None:
        out(text.removesuffix("\n"))
        return
    try:
        file.write_text(spoken(text), encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror}") from None


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows as plain text; None is shown as `-`."""
    return tabulate([list(row) for row in rows], headers=list(headers), missingval="-", disable_numparse=True)


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
