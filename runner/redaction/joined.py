"""Secrets that are cut over several lines: a model's answer comes in pieces, and so does a tool call's input.

Of each JSON line the texts are taken by their place: the path of keys to it (all items of a list share one), with what
says which stream the line belongs to (`type`, `sessionUpdate`, `index`, ...). The texts at one place of consecutive
lines are one text, however many other lines come between. A line that is no JSON object is a text by itself, joined to
the next such line. Looked for are the forms of a secret without escapes (after JSON's own are undone).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from runner.redaction.forms import Forms, Span

#: Members whose values tell one stream of pieces from another.
_STREAMS: Final = frozenset({"sessionUpdate", "type", "index", "toolCallId", "messageId"})
#: Places whose last text ended with a secret's beginning; the oldest is forgotten first.
_OPEN: Final = 4096
_TOKEN: Final = re.compile(rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)"(\s*+:)?|[{}\[\]]', re.DOTALL)
_CHARACTER: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class TextSpan:
    """Characters `start` to `end` of the text at `path`, the `nth` one there (from 0); None: of the whole line."""

    path: str | None
    nth: int
    start: int
    end: int

    def spans(self, raw: bytes) -> Iterator[Span]:
        """Where that is in the line's bytes."""
        if self.path is None:
            yield self.start, self.end
            return
        there = [(start, end) for path, start, end in _strings(raw) if path == self.path]
        if self.nth < len(there):
            yield _in_bytes(raw, *there[self.nth], self.start, self.end)


class _Part(NamedTuple):
    """A stretch of a text that may be a part of a secret."""

    line: int
    path: str | None
    nth: int
    start: int
    size: int


class Joined:
    """Feed it lines in order; `found`: a line's number -> its parts of secrets that are cut over lines."""

    def __init__(self, forms: Forms) -> None:
        self._literals = [form.decode("ascii") for form in forms.literals]
        self._firsts = {form[0] for form in self._literals}
        #: The last two characters of a beginning -> (its length, its form), the longest first.
        self._ends: dict[str, list[tuple[int, str]]] = {}
        for form in self._literals:
            for size in range(2, len(form)):
                self._ends.setdefault(form[size - 2 : size], []).append((size, form))
        for beginnings in self._ends.values():
            beginnings.sort(key=lambda beginning: -beginning[0])
        #: By stream and place: the secret's beginning with which it ended, and where that stands.
        self._open: dict[Any, tuple[str, list[_Part]]] = {}
        self.found: dict[int, list[TextSpan]] = {}

    def feed(self, line: int, channel: str, raw: bytes) -> None:
        """One line. `channel`: lines of different ones are never joined."""
        seen: dict[str | None, int] = {}
        stream, texts = _texts(raw)
        for path, text in texts:
            nth = seen.get(path, 0)
            seen[path] = nth + 1
            if text:
                self._piece((channel, stream, path), _Part(line, path, nth, 0, len(text)), text)

    def _piece(self, key: Any, part: _Part, text: str) -> None:
        begun, parts = self._open.pop(key, ("", []))
        joined = begun + text
        after = 0
        if begun:
            for form in self._literals:
                at = joined.find(form, 0, len(begun) + len(form))
                if 0 <= at < len(begun) < at + len(form):
                    after = max(after, at + len(form))
                    self._strike([*parts, part], at, at + len(form))
        size = self._beginning(joined[after:])
        if size:
            self._open[key] = joined[-size:], _last([*parts, part], size)
            if len(self._open) > _OPEN:
                del self._open[next(iter(self._open))]

    def _beginning(self, text: str) -> int:
        """Length of the longest beginning of a secret that `text` ends with."""
        for size, form in self._ends.get(text[-2:], ()):
            if size <= len(text) and text.endswith(form[:size]):
                return size
        return int(text[-1:] in self._firsts)

    def _strike(self, parts: list[_Part], start: int, end: int) -> None:
        at = 0
        for part in parts:
            first, last = max(start, at) - at, min(end, at + part.size) - at
            if first < last:
                place = TextSpan(part.path, part.nth, part.start + first, part.start + last)
                self.found.setdefault(part.line, []).append(place)
            at += part.size


def _last(parts: list[_Part], size: int) -> list[_Part]:
    """The parts that hold the last `size` characters."""
    kept: list[_Part] = []
    for part in reversed(parts):
        taken = min(size, part.size)
        if not taken:
            break
        kept.append(part._replace(start=part.start + part.size - taken, size=taken))
        size -= taken
    return kept[::-1]


class _Pairs(list[tuple[str, Any]]):
    """An object with every member as it stands, twice where it stands twice."""


def _texts(raw: bytes) -> tuple[tuple[str, ...], list[tuple[str | None, str]]]:
    """(what tells its stream, texts with their paths) of a line, in order."""
    if raw.lstrip()[:1] == b"{":
        try:
            value = json.loads(raw, object_pairs_hook=_Pairs)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, _Pairs):
            return _walked(value)
    return (), [(None, raw.decode("latin-1"))]


def _walked(value: _Pairs) -> tuple[tuple[str, ...], list[tuple[str | None, str]]]:
    stream: list[str] = []
    texts: list[tuple[str | None, str]] = []
    pending: list[tuple[str, str, Any]] = [("", "", value)]
    while pending:
        path, name, one = pending.pop()
        if isinstance(one, str):
            texts.append((path, one))
        if name in _STREAMS and isinstance(one, str | int):
            stream.append(str(one))
        elif isinstance(one, _Pairs):
            pending += [(f"{path}.{key}", key, part) for key, part in reversed(one)]
        elif isinstance(one, list):
            pending += [(f"{path}[]", "", part) for part in reversed(one)]
    return tuple(stream), texts


def _strings(raw: bytes) -> Iterator[tuple[str, int, int]]:
    """(path, from, to) of every text of a JSON line that is no key, in order; without its quotes."""
    #: Of each open container: the path of its members, with the key of the one that comes.
    stack: list[tuple[str, bool]] = []
    key = ""
    for token in _TOKEN.finditer(raw):
        path = (f"{stack[-1][0]}.{key}" if stack[-1][1] else f"{stack[-1][0]}[]") if stack else ""
        match token[0][:1]:
            case b"{":
                stack.append((path, True))
            case b"[":
                stack.append((path, False))
            case b"}" | b"]":
                if stack:
                    stack.pop()
            case _ if token[2] is not None:
                key = json.loads(b'"' + token[1] + b'"')
            case _:
                yield path, token.start(1), token.end(1)


def _in_bytes(raw: bytes, first: int, last: int, start: int, end: int) -> Span:
    """Characters `start` to `end` of the JSON text between `first` and `last`, as bytes of the line."""
    at = first
    edges = [first]
    for character in _CHARACTER.findall(raw[first:last].decode("utf-8")):
        at += len(character.encode("utf-8"))
        edges.append(at)
        if len(edges) > end:
            break
    return edges[min(start, len(edges) - 1)], edges[min(end, len(edges) - 1)]
