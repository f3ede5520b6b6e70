"""Text that an agent wrote, made safe for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """Every character that could steer a terminal or turn the text's direction as `\\uXXXX`; line feeds stay."""
    return "".join(c if c == "\n" or c.isprintable() else _escape(c) for c in text)


def shortened(text: str, limit: int) -> str:
    """On one line, at most `limit` characters, control characters escaped. `limit` is at least 3."""
    # Cut first: a frame may have millions of characters.
    line = printable(text[: limit + 1].replace("\r", " ").replace("\n", " ").replace("\t", " "))
    return line if len(line) <= limit else line[: limit - 3] + "..."


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
