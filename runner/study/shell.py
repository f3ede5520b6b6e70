"""A shell line read by its grammar: what it does, and the paths it names. Nothing is run.

The grammar is tree-sitter's for bash. Pipes, lists, subshells, substitutions, loops, `bash -c`, `env`, `xargs`,
`find -exec`, assignments before a command and redirections count as what they do; the meaning of each program is
`runner.study.commands`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from runner.study import commands as table
from runner.study.commands import STRENGTH, Does

_LANGUAGE = Language(tree_sitter_bash.language())
#: `bash -c "bash -c ..."` deeper than this is unknown.
_MAX_DEPTH = 8
#: A word whose value only the shell knows.
_DYNAMIC = "\0"
_NOT_ASCII = re.compile(r"[^\0-\x7f]")
#: For a character that is none of ASCII's; stands in no keyword.
_STAND_IN = "Q"
_NAMED = frozenset(
    ["expansion", "simple_expansion", "command_substitution", "process_substitution", "arithmetic_expansion"]
)


@dataclass(frozen=True)
class Path:
    """A path that a command names. `text` as written, quotes taken off; `writes`: it is written, not only read."""

    text: str
    writes: bool = False


@dataclass(frozen=True)
class Simple:
    """One simple command of a line. `program` '' for a bare redirection or assignment."""

    program: str
    does: Does
    paths: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Line:
    """A whole command line. `dynamic`: a path in it is only known to the shell that runs it."""

    text: str
    does: Does
    parts: tuple[Simple, ...]
    dynamic: bool = False

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(path for part in self.parts for path in part.paths))

    def reaches(self, cwd: str, home: str, roots: Iterable[str] = ()) -> frozenset[Path]:
        """Paths that lie outside `cwd` and `roots`, by name alone: links are not resolved. Absolute POSIX paths."""
        inside = [posixpath.normpath(root) for root in (cwd, *roots)]
        found = set()
        #: `cd` moves what the rest of the line is relative to.
        here = cwd
        for part in self.parts:
            for path in part.paths:
                full = absolute(path.text, here, home)
                if full not in table.SINKS and not any(within(full, root) for root in inside):
                    found.add(path)
                if part.program == "cd":
                    here = full
        return frozenset(found)


def read(text: str) -> Line:
    """The line as its grammar has it; `unknown` where it has none."""
    return _read(text, 0)


def absolute(path: str, cwd: str, home: str) -> str:
    """A path as the shell would resolve it, by name alone."""
    for prefix in ("~", "$HOME", "${HOME}"):
        if path == prefix or path.startswith(prefix + "/"):
            path = home + path[len(prefix) :]
    return posixpath.normpath(posixpath.join(cwd, path))


def within(path: str, root: str) -> bool:
    """Whether `path` is `root` or below it; both normalised."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def strongest(found: Iterable[Does]) -> Does:
    """What a line is that does all of these; nothing at all is an inspection."""
    return min(found, key=STRENGTH.index, default="inspection")


@lru_cache(maxsize=4096)
def _read(text: str, depth: int) -> Line:
    if depth > _MAX_DEPTH:
        return Line(text, "unknown", (), dynamic=True)
    # The grammar's scanner looks characters up in C's tables (`isdigit`), which have an end: some of those above it end
    # the process. To the grammar one letter is like another, so it gets another, and one byte for each character.
    tree = Parser(_LANGUAGE).parse(_NOT_ASCII.sub(_STAND_IN, text).encode("ascii"))
    root = tree.root_node
    if root.has_error:
        return Line(text, "unknown", (), dynamic=True)
    reader = _Reader(text, depth)
    reader.visit(root)
    return Line(text, strongest(part.does for part in reader.parts), tuple(reader.parts), reader.dynamic)


class _Reader:
    """Walks one tree in the order of the text."""

    def __init__(self, source: str, depth: int) -> None:
        self._source = source
        self.parts: list[Simple] = []
        self.dynamic = False
        self._depth = depth

    def visit(self, node: Node) -> None:
        match node.type:
            case "command":
                self._command(node)
            case "file_redirect":
                self._redirect(node)
            case _:
                for child in node.named_children:
                    self.visit(child)

    def _command(self, node: Node) -> None:
        words: list[str] = []
        for child in node.named_children:
            if child.type in ("command_name", *_WORDS):
                words.append(_text(child, self._source))
                self._substitutions(child)
            else:
                self.visit(child)
        self._simple(words)

    def _simple(self, words: list[str]) -> None:
        for part in self._meaning(words):
            self.dynamic |= any(_DYNAMIC in path.text for path in part.paths)
            paths = tuple(path for path in part.paths if _DYNAMIC not in path.text)
            self.parts.append(Simple(part.program, part.does, paths))

    def _substitutions(self, node: Node) -> None:
        """Visit the command substitutions inside a word."""
        if node.type in ("command_substitution", "process_substitution"):
            self.visit(node)
            return
        for child in node.named_children:
            self._substitutions(child)

    def _redirect(self, node: Node) -> None:
        target = node.child_by_field_name("destination")
        if target is None:
            return
        self._substitutions(target)
        operator = next((child.type for child in node.children if not child.is_named), "")
        name = _text(target, self._source)
        if target.type == "number" or name in table.SINKS or (operator.endswith("&") and name.isdigit()):
            return
        writes = ">" in operator
        self.dynamic |= _DYNAMIC in name
        paths = () if _DYNAMIC in name else (Path(name, writes),)
        self.parts.append(Simple("", "change" if writes else "inspection", paths))

    # what the words of one command do

    def _meaning(self, words: list[str]) -> Iterator[Simple]:
        if not words:
            return
        program, arguments = posixpath.basename(words[0]), words[1:]
        if _DYNAMIC in words[0]:
            yield Simple(program, "unknown")
        elif "/" in words[0] and posixpath.dirname(words[0]) not in table.SYSTEM:
            # Code that lies somewhere; whatever it is called, it is not the system's.
            yield Simple(program, "project")
        elif arguments and all(argument in table.ABOUT for argument in arguments):
            yield Simple(program, "inspection")
        elif program in table.WRAPPERS:
            yield from self._wrapped(program, arguments)
        elif program in table.SHELLS:
            yield from self._shell(program, arguments)
        elif program == "eval":
            yield from self._line(" ".join(arguments))
        elif program in table.SOURCES:
            yield Simple(program, "project", tuple(map(Path, arguments[:1])))
        elif program == "find":
            yield from self._find(arguments)
        elif program == "git":
            yield _git(arguments)
        elif program in table.SUBCOMMANDS:
            yield Simple(program, _subcommand(program, arguments))
        elif program in ("sed", "perl") and _in_place(arguments):
            yield Simple(program, "change", tuple(Path(p.text, writes=True) for p in _operands(program, arguments)))
        elif program in table.INSPECTION:
            yield Simple(program, _looking(program, arguments), _operands(program, arguments))
        elif program in table.CHANGE:
            yield Simple(program, "change", tuple(Path(p.text, writes=True) for p in _operands(program, arguments)))
        elif program in table.NETWORK:
            yield Simple(program, "network")
        elif program in table.PROJECT:
            yield Simple(program, "project")
        else:
            yield Simple(program, "unknown")

    def _wrapped(self, program: str, arguments: list[str]) -> Iterator[Simple]:
        """What the program behind a wrapper does; a wrapper alone looks (`env`, `time`)."""
        rest = list(arguments)
        left = table.OPERANDS.get(program, 0)
        while rest:
            word = rest[0]
            if word in table.WRAPPERS[program]:
                if word in ("-S", "--split-string") and len(rest) > 1:
                    yield from self._line(" ".join(rest[1:]))
                    return
                rest = rest[2:]
            elif word.startswith("-") or (program == "env" and "=" in word):
                rest = rest[1:]
            elif left:
                left -= 1
                rest = rest[1:]
            else:
                yield from self._meaning(rest)
                return
        yield Simple(program, "inspection")

    def _shell(self, program: str, arguments: list[str]) -> Iterator[Simple]:
        for index, word in enumerate(arguments):
            if word.startswith("-") and not word.startswith("--") and "c" in word:
                yield from self._line(arguments[index + 1] if index + 1 < len(arguments) else "")
                return
            if not word.startswith("-"):
                yield Simple(program, "project", (Path(word),))
                return
        # Reads its commands from standard input.
        yield Simple(program, "unknown")

    def _line(self, text: str) -> Iterator[Simple]:
        """A text that a shell reads again. What stands in it only at run time makes it unknown."""
        if _DYNAMIC in text:
            yield Simple("", "unknown")
            return
        inner = _read(text, self._depth + 1)
        self.dynamic |= inner.dynamic
        yield from inner.parts if inner.parts or inner.does != "unknown" else [Simple("", "unknown")]

    def _find(self, arguments: list[str]) -> Iterator[Simple]:
        starts: list[str] = []
        for word in arguments:
            if word.startswith(("-", "(", "!")) or word == "\\(":
                break
            starts.append(word)
        changes = any(word in table.FIND_CHANGES for word in arguments)
        paths = tuple(Path(word, writes=changes) for word in starts)
        yield Simple("find", "change" if changes else "inspection", paths)
        for index, word in enumerate(arguments):
            if word in table.FIND_RUNS:
                until = next((n for n in range(index, len(arguments)) if arguments[n] in (";", "\\;", "+")), None)
                run = [argument for argument in arguments[index + 1 : until] if argument != "{}"]
                for part in self._meaning(run):
                    yield Simple(part.program, part.does)


_WORDS = (
    frozenset(
        [
            "word",
            "string",
            "raw_string",
            "ansi_c_string",
            "translated_string",
            "concatenation",
            "number",
            "brace_expression",
        ]
    )
    | _NAMED
)


def _text(node: Node, source: str) -> str:
    """A word of `source` as the shell would pass it on, `_DYNAMIC` for what only it knows. `$HOME` stays: known."""
    raw = source[node.start_byte : node.end_byte]
    if node.type in ("simple_expansion", "expansion"):
        return raw if raw in ("$HOME", "${HOME}") else _DYNAMIC
    if node.type in _NAMED:
        return _DYNAMIC
    if node.type == "raw_string":
        return raw[1:-1]
    if node.type in ("ansi_c_string", "translated_string"):
        return raw[2:-1]
    if node.type in ("command_name", "concatenation"):
        words = [_text(child, source) for child in node.named_children]
        return "".join(words) if words else _unescaped(raw)
    if node.type == "string":
        return _string(node, source)
    return _unescaped(raw)


def _string(node: Node, source: str) -> str:
    """A double-quoted string: its text between the substitutions, which are unknown."""
    out = ""
    at = node.start_byte + 1
    for child in node.named_children:
        if child.type in _NAMED:
            out += source[at : child.start_byte] + _text(child, source)
            at = child.end_byte
    out += source[at : node.end_byte - 1]
    return out.replace('\\"', '"').replace("\\\\", "\\")


def _unescaped(raw: str) -> str:
    """A bare word without its backslashes."""
    out, escaped = [], False
    for character in raw:
        if character == "\\" and not escaped:
            escaped = True
        else:
            out.append(character)
            escaped = False
    return "".join(out)


def _git(arguments: list[str]) -> Simple:
    paths: list[Path] = []
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        if rest[0] in table.GIT_VALUES:
            if rest[0] in ("-C", "--git-dir", "--work-tree"):
                paths += map(Path, rest[1:2])
            rest = rest[2:]
        else:
            rest = rest[1:]
    sub, operands = (rest[0], rest[1:]) if rest else ("", [])
    does = table.SUBCOMMANDS["git"].get(sub, table.SUBCOMMANDS["git"]["*"])
    if sub in table.LISTING and (operands[0] if operands else "") in table.LISTING[sub]:
        does = "inspection"
    if does == "inspection" and any(word.startswith("--output") for word in operands):
        does = "change"
    return Simple("git", does, tuple(paths))


def _subcommand(program: str, arguments: list[str]) -> Does:
    known = table.SUBCOMMANDS[program]
    sub = next((word for word in arguments if not word.startswith("-")), "")
    return known.get(sub, known["*"])


def _in_place(arguments: list[str]) -> bool:
    return any(
        word.startswith(("-i", "--in-place")) or (word.startswith("-") and word[1:2] in "np" and "i" in word[1:4])
        for word in arguments
    )


def _looking(program: str, arguments: list[str]) -> Does:
    """A program that looks, unless its script or an option makes it do more."""
    if program == "awk" and any("system(" in word or "|" in word or ">" in word for word in arguments):
        return "unknown"
    if program == "sort" and any(word.startswith(("-o", "--output")) for word in arguments):
        return "change"
    return "inspection"


def _operands(program: str, arguments: list[str]) -> tuple[Path, ...]:
    """The operands of a program that are paths."""
    if program in table.PATHLESS:
        return ()
    values = table.VALUES.get(program, frozenset())
    patterns = table.PATTERNS.get(program, 0)
    if program != "tr" and any(word in table.PATTERN_OPTIONS for word in arguments):
        patterns = 0
    paths: list[Path] = []
    skip = False
    options = True
    for word in arguments:
        if skip:
            skip = False
        elif options and word == "--":
            options = False
        elif options and word.startswith("-") and word != "-":
            skip = word in values or (program in table.PATTERNS and word in table.PATTERN_OPTIONS)
        elif program == "[":
            if "/" in word:
                paths.append(Path(word))
        elif patterns:
            patterns -= 1
        elif word != "-":
            paths.append(Path(word))
    return tuple(paths)
