r"""The one rule for text and numbers that leave this process in a record, a report, a history or a line of output.

In memory, text may hold lone surrogates: JSON can say one (`"\ud800"`), and Python gives a file name that is not UTF-8
as such (`b"\xff"` is `"\udcff"`). No UTF-8 file, no Parquet column and no XML can hold one. JSON files can, as an
escape, but their readers disagree: jq turns each into U+FFFD, so that two names become one, and pydantic refuses the
whole file.

So a lone surrogate is *written out*: as the six ASCII characters `\udXXX`, hex digits in lower case. A text that has
these six characters of its own gets its backslashes doubled, so different texts stay different, and `original` gives
every text back. U+0000, non-characters and all other characters are valid text and stay. Of numbers, NaN, the
infinities and integers beyond 64 bits become text, and so does what is nested too deep for JSON writers.

Where it is applied: once, by whoever makes evidence of text from outside (`written_out`): a record before it is
committed, the JSON files of an attempt, and raw logs that `findings` reads. Readers of those files use `repaired`,
which changes nothing in them; it makes files readable that were written by somebody else or before this rule.

Where it is not applied: raw logs, whose bytes are the evidence. frames.jsonl holds bytes as received (base64 where they
are not UTF-8). model.jsonl and tapes hold JSON as the agent said it, lone surrogates as JSON escapes (`json_line`),
since a replay is matched against them. Text output (a terminal, CSV, HTML, Markdown) writes a surrogate that is still
there in the same form, by the error handler `backslashreplace`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel

_Model = TypeVar("_Model", bound=BaseModel)

#: What changes: lone surrogates, and what looks like one written out; with all backslashes before it.
_ODD: Final = re.compile(r"(?<!\\)(\\*)([\ud800-\udfff])|(?<!\\)(\\+)(?=ud[89a-f][0-9a-f]{2})")
_WRITTEN: Final = re.compile(r"(?<!\\)(\\+)ud([89a-f][0-9a-f]{2})")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
#: How a JSON file may say a surrogate, lone or not.
_ESCAPED: Final = re.compile(rb"\\u[dD][89a-fA-F]")
#: Levels of nesting; pydantic and Python's own JSON stop at some hundreds.
_DEEPEST: Final = 100
_MAX_INT: Final = 2**63
#: Digits of an integer that is written whole.
_DIGITS: Final = 40


def text_written_out(text: str) -> str:
    """Valid Unicode for any text; different texts give different ones. To be applied once: see `original`."""
    if "\\ud" not in text and not has_surrogate(text):
        return text
    return _ODD.sub(_write_out, text)


def original(text: str) -> str:
    """The inverse of `text_written_out`."""
    return _WRITTEN.sub(_read_back, text) if "\\ud" in text else text


def written_out(value: Any) -> Any:
    """A JSON-like value with all its text, keys too, written out, and its numbers and depth bounded."""
    return _tree(value, text_written_out, _DEEPEST)


def repaired(value: Any) -> Any:
    """The value as it is where every writer can write it, else written out."""
    return value if _is_plain(value, _DEEPEST) else written_out(value)


def has_surrogate(text: str) -> bool:
    return not text.isascii() and _SURROGATE.search(text) is not None


def may_hold_surrogate(raw: bytes) -> bool:
    """Whether JSON says a surrogate anywhere, or text that looks like one written out."""
    return _ESCAPED.search(raw) is not None


def json_line(value: Any, *, separators: tuple[str, str] = (",", ":")) -> bytes:
    """One line of a raw log, without its line feed: UTF-8, or ASCII with escapes where UTF-8 has no form for it."""
    text = json.dumps(value, ensure_ascii=False, separators=separators)
    if has_surrogate(text):
        text = json.dumps(value, ensure_ascii=True, separators=separators)
    return text.encode("utf-8")


def validated(model: type[_Model], data: bytes | str, *, raw: bool = False) -> _Model:
    """A model from JSON that may hold lone surrogates, which pydantic's own reader refuses: repaired, or as the JSON
    says it (`raw`).

    Raises pydantic's ValidationError, and ValueError for what is no JSON.
    """
    encoded = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if not may_hold_surrogate(encoded):
        return model.model_validate_json(encoded)
    value = json.loads(encoded)
    return model.model_validate(value if raw else repaired(value))


def _write_out(found: re.Match[str]) -> str:
    before, surrogate, lookalike = found.groups()
    if surrogate is None:
        return str(lookalike) * 2
    return f"{before * 2}\\u{ord(surrogate):04x}"


def _read_back(found: re.Match[str]) -> str:
    before, rest = found.groups()
    half = "\\" * (len(before) // 2)
    return half + (chr(int(f"d{rest}", 16)) if len(before) % 2 else f"ud{rest}")


def _tree(value: Any, of_text: Any, depth: int) -> Any:
    if isinstance(value, str):
        return of_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, int):
        return value if -_MAX_INT <= value < _MAX_INT else _large(value)
    if isinstance(value, Mapping):
        if not depth:
            return "..."
        return {_tree(key, of_text, depth): _tree(part, of_text, depth - 1) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_tree(part, of_text, depth - 1) for part in value] if depth else "..."
    return value


def _large(value: int) -> str:
    # Counted by bits: Python refuses to write out what has more than some thousand digits.
    exponent = math.floor(value.bit_length() * math.log10(2))
    return str(value) if exponent < _DIGITS else f"{'-' if value < 0 else ''}1e{exponent} or so"


def _is_plain(value: Any, depth: int) -> bool:
    if isinstance(value, str):
        return not has_surrogate(value)
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return -_MAX_INT <= value < _MAX_INT
    if isinstance(value, Mapping):
        return depth > 0 and all(_is_plain(key, 1) and _is_plain(part, depth - 1) for key, part in value.items())
    if isinstance(value, list | tuple):
        return depth > 0 and all(_is_plain(part, depth - 1) for part in value)
    return True
