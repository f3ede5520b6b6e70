"""Text that an agent wrote, made safe for a terminal or for Markdown."""

from __future__ import annotations

import textwrap

#: Characters that Markdown would read as its own in running text or in a table's cell.
_SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\`*_[<>|"})


def printable(text: str) -> str:
    """Every character that could steer a terminal or turn the text's direction as `\\uXXXX`; line feeds stay."""
    return "".join(c if c == "\n" or c.isprintable() else _escape(c) for c in text)


def shortened(text: str, limit: int) -> str:
    """On one line, at most `limit` characters, control characters escaped. `limit` is at least 3."""
    # Cut first: a frame may have millions of characters.
    line = printable(text[: limit + 1].replace("\r", " ").replace("\n", " ").replace("\t", " "))
    return line if len(line) <= limit else line[: limit - 3] + "..."


def wrapped(note: str, width: int) -> str:
    """A note as a list's item for a terminal."""
    return textwrap.fill(printable(note), width, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)


def escaped(text: str) -> str:
    """On one line, with nothing in it that Markdown would take for its own."""
    return printable(" ".join(text.split())).translate(_SPECIAL)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
