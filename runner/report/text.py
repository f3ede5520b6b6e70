"""Text from outside, made safe for a note of ours or for Markdown. What is visible: `runner.text.visible`."""

from __future__ import annotations

import re
import textwrap

from runner.text.visible import SENTENCE, one_line, printable

__all__ = ["clipped", "escaped", "paragraph", "printable", "shortened", "wrapped"]

#: Characters that Markdown reads as its own in running text or in a table's cell: emphasis, code, links and pictures,
#: HTML and its entities, tables, mathematics, strikes.
_SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\`*_[<>|&~$"})
#: What GitHub makes of text: a link, a link to an issue, a call for somebody's attention.
_ADDRESS = re.compile(r":(?=//)|(?<=www)\.|#(?=\d)|(?<![A-Za-z0-9])@(?=[A-Za-z0-9])")
#: What makes a heading, a quote, a list or a rule of a paragraph that begins with it.
_BLOCK = re.compile(r"[#>+=-]|\d+[.)]")
#: What is folded to one blank.
_SPACE = re.compile(r"[ \t\r\n]+")


def shortened(text: str, limit: int) -> str:
    """On one line, at most `limit` characters, made visible. `limit` is at least 3."""
    return one_line(text, limit)


def clipped(names: list[str], limit: int = 12) -> str:
    """Names in a sentence: the first `limit` of them, and how many there are beyond."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def wrapped(note: str, width: int) -> str:
    """A note as a list's item for a terminal; what is too long for a sentence is cut."""
    text = one_line(note, 5 * SENTENCE)
    # Again at the end: wrapping puts words at the beginning of a line.
    return printable(textwrap.fill(text, width, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False))


def escaped(text: str) -> str:
    """On one line, with nothing in it that Markdown would take for its own."""
    line = printable(_SPACE.sub(" ", text).strip(" ")).translate(_SPECIAL)
    return _ADDRESS.sub(lambda found: f"\\\\u{ord(found[0]):04x}", line)


def paragraph(text: str) -> str:
    """The same where it begins a paragraph of its own."""
    line = escaped(text)
    begins = _BLOCK.match(line)
    return line if begins is None else f"{line[: begins.end() - 1]}\\{line[begins.end() - 1 :]}"
