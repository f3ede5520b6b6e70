"""Text from outside, made visible for people: it is shown, and nothing that reads our lines obeys it.

Agents, adapters, models, tests and files that others made say what they like. Three kinds of reader obey some of it: a
terminal (control characters, links, the clipboard), the eye (marks that turn the direction of text or take no room),
and a CI service that looks for commands in a log. Whatever prints applies this one rule. It is about display alone:
what stands in a record is kept as it came.

A character that is shown as something else stands as `\\uXXXX`. Applying the rule twice changes nothing.
"""

from __future__ import annotations

import re

#: Longest text from outside in a sentence of ours: a reason, a name, a message.
SENTENCE = 400
#: Lines of an error that are shown, and the longest of them.
_LINES, _LINE = 60, 1000

#: Characters that take no room, or are no sign of their own, though Unicode calls them letters or marks.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0") | frozenset(
    map(chr, (*range(0xFE00, 0xFE0F), *range(0xE0100, 0xE01F0)))  # U+FE0F makes an emoji of a sign: it stays
)
#: What starts a command wherever it stands in a line: `##[error]`, `##vso[...]`, `##teamcity[...]`.
_COMMAND = re.compile(r"##(?=[A-Za-z]*\[)")
#: What starts one at the beginning of a line, leading blanks aside: `::error::`, `::add-mask::`.
_LEADING = re.compile(r"^( *)::", re.MULTILINE)
#: What indents and ends lines in ordinary text.
_SPACE = str.maketrans("\t\r\n", "   ")


def printable(text: str) -> str:
    """The text, lines as they are, with nothing in it that a terminal, an eye or a CI service would obey."""
    if not text.isascii() or not text.isprintable():
        text = "".join(c if c == "\n" or (c.isprintable() and c not in _BLANK) else escape(c) for c in text)
    if "##" in text:
        text = _COMMAND.sub(r"#\\u0023", text)
    return _LEADING.sub(r"\1\\u003a:", text) if "::" in text else text


def one_line(text: str, limit: int | None = None) -> str:
    """The same on one line: a tab and the end of a line are a blank. `limit` (from 3): at most so many characters."""
    if limit is None:
        return printable(text.translate(_SPACE))
    # Cut first: an agent's line may have millions of characters.
    line = printable(text[: limit + 1].translate(_SPACE))
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def error_text(text: str, *, indented: bool = True) -> str:
    """An error for standard error: its first line, then the others. `indented`: the others are quotes of something
    else, and are set in so that none of them can be taken for a line of ours."""
    lines = text.split("\n")
    more = [f"... ({len(lines) - _LINES} more lines)"] if len(lines) > _LINES else []
    shown = [_cut(printable(line.rstrip("\r"))) for line in lines[:_LINES]] + more
    return "\n".join(
        f"  {line}" if indented and number and not line.startswith("  ") else line for number, line in enumerate(shown)
    )


def json_text(text: str) -> str:
    """JSON that shows as it is read: the same value, with nothing in it that a terminal or an eye would obey."""
    text = "".join(c if c == "\n" or (c.isprintable() and c not in _BLANK) else _json_escape(c) for c in text)
    return _COMMAND.sub(r"#\\u0023", text)


def escape(character: str) -> str:
    """`\\uXXXX`, or `\\UXXXXXXXX` above U+FFFF."""
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _json_escape(character: str) -> str:
    code = ord(character)
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def _cut(line: str) -> str:
    return line if len(line) <= _LINE else f"{line[: _LINE - 3]}..."
