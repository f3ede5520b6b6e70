r"""Where bytes say a secret, in any form that text takes on its way: found exactly, in linear time, in bounded memory.

Found are, of a known secret of ASCII characters:

- the secret itself; its hex digits (lower or upper case, plain or with a blank or a colon between bytes); its base64,
  standard or URL-safe, at any of the three alignments, so that it is found inside a larger text that was encoded as a
  whole (up to one character at either end of it, which holds some bits of a neighbour too, stays);
- each of these with any of its characters escaped, all or only some: percent (`%2d`), JSON and JavaScript
  (`\u002D`, `\x2d`, `\/`, `\u{2d}`), octal (`\055`), HTML (`&#45;`, `&#x2d;`, `&amp;`), a backslash before a sign;
- each of these interrupted by ends of lines (with the indentation after them), NUL (UTF-16) or a terminal's escape
  sequences;
- up to three such layers, as JSON inside JSON has them.

Not found, in principle: what computes (encryption, compression, hashes, arithmetic, other letters or another order of
them, decimal codes, base32), a layer of base64 or hex around another one, and parts of a secret, unless a text begins
or ends with twelve characters or more of it (`edges`), as where an echo was cut short. A secret that has a `%`, a `&`
or a backslash of its own is found plain, and where all such characters are escaped too. Hex with blanks is found as it
stands.
"""

from __future__ import annotations

import base64
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

#: From, to: of bytes.
Span = tuple[int, int]

#: What stands in the place of a secret.
STRUCK: Final = b"***"
#: Layers of escapes that are undone.
_LAYERS: Final = 3
#: Characters of a secret at a text's beginning or end that are taken for it.
EDGE: Final = 12
_NAMED: Final = {b"amp": b"&", b"lt": b"<", b"gt": b">", b"quot": b'"', b"apos": b"'"}
#: What may stand between the characters of a secret, or before one, and means nothing.
_PADDING: Final = b"\\ \t\r\n\0"
_RUN: Final = rb"\\(?<!\\\\)\\*+"  # a whole run of backslashes, matched from its first one alone
_CODE: Final = rb"(?:u00|U000000)[0-7][0-9a-fA-F]|u\{0{0,4}[0-7]?[0-9a-fA-F]\}|x[0-7][0-9a-fA-F]|[01][0-7]{2}"
_CODES: Final = re.compile(_RUN + rb"(?:" + _CODE + rb")")
_PERCENT: Final = re.compile(rb"%[0-7][0-9a-fA-F]")
_ENTITY: Final = re.compile(rb"&(?:#0{0,5}[0-9]{1,3}|#[xX]0{0,5}[0-7]?[0-9a-fA-F]|amp|lt|gt|quot|apos);")
_TERMINAL: Final = re.compile(rb"\x1b(?:\[[0-?]{0,32}[ -/]{0,4}[@-~]|[()][0-9A-B]|[@-Z\\-_])")


class Forms:
    """The forms of some secrets. Raises ValueError for one that is empty or not ASCII.

    `in_patches`: a line begins with a patch's mark (`+`, `-` or a blank), which is no part of what it says.
    """

    def __init__(self, secrets: Iterable[str], *, in_patches: bool = False) -> None:
        self.secrets = frozenset(secrets)
        known = sorted((secret.encode("ascii") for secret in self.secrets), key=lambda one: (-len(one), one))
        if b"" in known:
            raise ValueError("an empty secret is in every text")
        #: Forms without an escape, long ones first.
        self.literals = tuple(dict.fromkeys(form for secret in known for form in literals(secret)))
        self._breaks = re.compile(rb"\r*\n[+ -][ \t]{0,256}" if in_patches else rb"[\r\n]+[ \t]{0,256}")
        self._token = _tokens(set(b"".join(self.literals)), self._breaks)
        self._bare = tuple({form.translate(None, _PADDING) for form in self.literals})

    def spans(self, data: bytes) -> list[Span]:
        """Where `data` says a secret, in order, none overlapping another."""
        if not self._may_hold(data):
            return []
        found = list(self._plain(data))
        layers: list[_Layer] = []
        text = data
        for _ in range(_LAYERS):
            layer = _Layer.of(text, self._token)
            if layer is None:
                break
            layers.append(layer)
            text = layer.text
            for start, end in self._plain(text):
                for outer in reversed(layers):
                    start, end = outer.start(start), outer.end(end)
                found.append((start, end))
        return merged(found)

    def edges(self, data: bytes) -> list[Span]:
        """Where `data` begins with the end of a secret's form, or ends with its beginning: at least EDGE characters."""
        spans: list[Span] = []
        for form in self.literals:
            most = len(form) - 1
            if form[-EDGE:] in data[:most]:
                size = next((n for n in range(min(most, len(data)), EDGE - 1, -1) if data.startswith(form[-n:])), 0)
                spans += [(0, size)] if size else []
            if form[:EDGE] in data[-most:]:
                size = next((n for n in range(min(most, len(data)), EDGE - 1, -1) if data.endswith(form[:n])), 0)
                spans += [(len(data) - size, len(data))] if size else []
        return spans

    def _may_hold(self, data: bytes) -> bool:
        """False: there is none, which is told a hundred times faster than where one is."""
        if any(form in data for form in self.literals):
            return True
        for _ in range(_LAYERS):
            bare = _bare(self._breaks.sub(b"", data))
            if any(form in bare for form in self._bare):
                return True
            if len(bare) == len(data):
                return False
            data = bare
        return False

    def _plain(self, data: bytes) -> Iterator[Span]:
        for form in self.literals:
            at = data.find(form)
            while at >= 0:
                yield at, at + len(form)
                at = data.find(form, at + len(form))


def literals(secret: bytes) -> Iterator[bytes]:
    """The forms of a secret that hold no escape."""
    yield secret
    for between in ("", " ", ":"):
        digits = secret.hex(between) if between else secret.hex()
        yield digits.encode()
        yield digits.upper().encode()
    for before in range(3):
        # Only characters whose six bits are all the secret's own.
        first, last = -(-8 * before // 6), 8 * (before + len(secret)) // 6
        core = base64.b64encode(b"\0" * before + secret)[first:last]
        yield core
        yield core.translate(bytes.maketrans(b"+/", b"-_"))


def _tokens(characters: set[int], breaks: re.Pattern[bytes]) -> re.Pattern[bytes]:
    """Escapes, and what may interrupt a secret. Signs stand behind a backslash only where a secret has them."""
    signs = bytes(c for c in sorted(characters) if not chr(c).isalnum() and c not in b" \\")
    sign = b"|[" + b"".join(b"\\" + bytes([c]) for c in signs) + b"]" if signs else b""
    codes = _RUN + rb"(?:" + _CODE + rb"|[rn][ \t]{0,256}" + sign + rb")"
    others = (_PERCENT.pattern, _ENTITY.pattern, _TERMINAL.pattern, breaks.pattern, rb"\x00+")
    return re.compile(b"|".join((codes, *others)))


def _meaning(token: bytes) -> bytes:
    """What an escape stands for; empty: it only interrupts."""
    head = token[:1]
    if head == b"\\":
        rest = token.lstrip(b"\\")
        kind = rest[:1]
        if kind in (b"u", b"U"):
            return _character(int(rest[1:].strip(b"{}"), 16))
        if kind == b"x":
            return _character(int(rest[1:], 16))
        if kind in (b"0", b"1"):
            return _character(int(rest, 8))
        return b"" if kind in (b"r", b"n") else rest
    if head == b"%":
        return _character(int(token[1:], 16))
    if head == b"&":
        name = token[1:-1]
        if name[:1] != b"#":
            return _NAMED[name]
        digits = name[1:]
        return _character(int(digits[1:], 16) if digits[:1] in b"xX" else int(digits))
    return b""


def _character(code: int) -> bytes:
    # Nothing beyond ASCII is part of a secret.
    return bytes([code]) if code < 0x80 else b"\x80"


def _bare(data: bytes) -> bytes:
    """Without a layer of escapes, and without anything that may stand inside a form: more than a layer undoes."""
    if b"\\" in data:
        if any(head in data for head in (b"\\u", b"\\U", b"\\x", b"\\0", b"\\1")):
            data = _CODES.sub(_of_match, data)
        data = data.replace(b"\\n", b"").replace(b"\\r", b"")
    if b"%" in data:
        data = _PERCENT.sub(_of_match, data)
    if b"&" in data:
        data = _ENTITY.sub(_of_match, data)
    if b"\x1b" in data:
        data = _TERMINAL.sub(b"", data)
    return data.translate(None, _PADDING)


def _of_match(found: re.Match[bytes]) -> bytes:
    return _meaning(found[0])


class _Layer:
    """Text without one layer of escapes, and where in the text before each of its bytes stood."""

    def __init__(self) -> None:
        self.text = b""
        #: Of stretches: where they begin here, where they began before, and how many bytes before are one byte here
        #: (0: as many as here).
        self._here = [0]
        self._before = [0]
        self._escaped = [0]

    @classmethod
    def of(cls, data: bytes, token: re.Pattern[bytes]) -> _Layer | None:
        """None: there is no escape."""
        layer = cls()
        parts: list[bytes] = []
        size = at = 0
        for found in token.finditer(data):
            start, end = found.span()
            if start > at:
                parts.append(data[at:start])
                size += start - at
            meaning = _meaning(found[0])
            if meaning:
                layer._mark(size, start, end - start)
                parts.append(meaning)
                size += 1
            layer._mark(size, end, 0)
            at = end
        if not at:
            return None
        parts.append(data[at:])
        layer.text = b"".join(parts)
        return layer

    def _mark(self, here: int, before: int, escaped: int) -> None:
        self._here.append(here)
        self._before.append(before)
        self._escaped.append(escaped)

    def start(self, at: int) -> int:
        """Where the byte `at` began before."""
        n = bisect_right(self._here, at) - 1
        return self._before[n] if self._escaped[n] else self._before[n] + at - self._here[n]

    def end(self, at: int) -> int:
        """Where what ends before the byte `at` ended before."""
        n = bisect_right(self._here, at - 1) - 1
        return self._before[n] + (self._escaped[n] or at - self._here[n])


def merged(spans: Iterable[Span]) -> list[Span]:
    """In order, none overlapping or touching another."""
    apart: list[Span] = []
    for start, end in sorted(spans):
        if apart and start <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(end, apart[-1][1]))
        else:
            apart.append((start, end))
    return apart


def struck(data: bytes, spans: Iterable[Span], *, same_length: bool = False) -> bytes:
    """The data with `STRUCK` in the place of each span, or with as many stars as it had bytes."""
    parts: list[bytes] = []
    at = 0
    for start, end in spans:
        parts += [data[at:start], b"*" * (end - start) if same_length else STRUCK]
        at = end
    return b"".join([*parts, data[at:]]) if parts else data
