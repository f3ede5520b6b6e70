"""One YAML file: its bytes, its data, and the line of every key and value.

The node graph is composed by ruamel.yaml (YAML 1.2: `yes`, `no` and dates are text) and built here, because the
library's own constructors lose lines of plain values, report one duplicate key at a time and expand aliases
without a bound.
"""

from __future__ import annotations

import math
import re
import stat
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from runner.config.nearest import nearest, quoted
from runner.errors import ConfigError

#: Largest file that is read, bytes.
MAX_BYTES = 1 << 20
#: Most values one file may expand to, aliases followed.
MAX_VALUES = 50_000
#: Deepest nesting.
MAX_DEPTH = 64

_TAG = "tag:yaml.org,2002:"
_TRUE = frozenset({"true", "yes", "on", "y"})

#: Quotes and escapes can say them; no argument, name or UTF-8 file can hold them.
_UNUSABLE = re.compile("[\x00\ud800-\udfff]")

#: A place in the data: keys and 0-based list indexes from the root.
Place = tuple[str | int, ...]


class ConfigErrors(ConfigError):
    """Several problems found at once; `str()` has one line each, `errors` holds them in file and line order."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        self.errors = tuple(errors)
        first = self.errors[0]
        super().__init__(first.path, first.line, first.problem)
        self.args = ("\n".join(str(error) for error in self.errors),)

    def __str__(self) -> str:
        return str(self.args[0])


def raise_all(errors: Sequence[ConfigError]) -> None:
    """Raise what was collected: nothing, one `ConfigError`, or `ConfigErrors` (flattened, duplicates dropped)."""
    flat: dict[str, ConfigError] = {}
    for error in errors:
        for part in error.errors if isinstance(error, ConfigErrors) else (error,):
            flat.setdefault(str(part), part)
    found = sorted(flat.values(), key=lambda e: (str(e.path), e.line or 0))
    if len(found) == 1:
        raise found[0]
    if found:
        raise ConfigErrors(found)


@dataclass(frozen=True)
class Source:
    """`path` as messages show it, `raw` bytes as read, `data` plain Python values."""

    path: Path
    raw: bytes
    data: Any
    #: Place -> (line of its key, or of the item; line of its value), 1-based.
    lines: dict[Place, tuple[int, int]] = field(repr=False)

    def line(self, place: Place) -> int:
        """1-based line of a place: a text's or number's own line, a list's or mapping's key. Unknown: its parent's."""
        while place not in self.lines:
            place = place[:-1]
        key, value = self.lines[place]
        # The mark of a value that is not there stands on the next line.
        return key if self.value(place) is None or isinstance(self.value(place), (dict, list)) else value

    def key_line(self, place: Place) -> int:
        """1-based line of a place's key."""
        while place not in self.lines:
            place = place[:-1]
        return self.lines[place][0]

    def value(self, place: Place) -> Any:
        """The value at a place that is in the file."""
        value = self.data
        for step in place:
            value = value[step]
        return value


def shown(path: Path) -> Path:
    """The path as a message shows it: relative to the current directory where it lies below it."""
    try:
        return path.absolute().relative_to(Path.cwd())
    except (ValueError, OSError):
        return path


def read_source(path: Path) -> Source:
    """Read and build one file. Raises ConfigError (or ConfigErrors) for whatever is wrong with it as YAML."""
    shown_path = shown(path)
    raw = _read(path, shown_path)
    text = _decode(raw, shown_path)
    node = _compose(text, shown_path)
    if node is None or (isinstance(node, ScalarNode) and node.tag == _TAG + "null" and not node.value):
        raise ConfigError(shown_path, 1, "the file is empty")
    builder = _Builder(shown_path)
    lines: dict[Place, tuple[int, int]] = {(): (_line(node), _line(node))}
    if not isinstance(node, MappingNode):
        what = "a list" if isinstance(node, SequenceNode) else "a single value"
        raise ConfigError(shown_path, _line(node), f"the file holds {what}; it must be a mapping (`key: value` lines)")
    data = builder.build(node, (), lines, 0)
    raise_all(builder.errors)
    return Source(shown_path, raw, data, lines)


@dataclass(frozen=True)
class Spans:
    """Where the pairs of a file's outermost mapping stand in its text, as offsets of characters.

    `flow`: it is written in braces. `spans`: key -> (end of the key, start and end of the value).
    """

    text: str
    flow: bool
    spans: dict[str, tuple[int, int, int]]


def top_level_spans(source: Source) -> Spans:
    """For changing single values of a file and nothing else of it."""
    text = _decode(source.raw, source.path)
    node = _compose(text, source.path)
    assert isinstance(node, MappingNode), "read_source takes nothing else"
    spans = {
        str(key.value): (key.end_mark.index, value.start_mark.index, value.end_mark.index)
        for key, value in node.value
        if isinstance(key, ScalarNode)
    }
    return Spans(text, bool(node.flow_style), spans)


def _read(path: Path, shown_path: Path) -> bytes:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise ConfigError(shown_path, None, "is a folder, not a file")
        if not stat.S_ISREG(mode):
            raise ConfigError(shown_path, None, "is not a regular file")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(shown_path, None, "no such file" + _missing(path)) from None
    except NotADirectoryError:
        raise ConfigError(shown_path, None, "no such file (a part of the path is a file, not a folder)") from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ConfigError(shown_path, None, f"cannot be read: {reason}") from None
    if len(raw) > MAX_BYTES:
        raise ConfigError(shown_path, None, f"is larger than {MAX_BYTES >> 20} MiB, too large for a configuration file")
    return raw


def _missing(path: Path) -> str:
    """The nearest file name in the same folder, or that the folder itself is not there."""
    parent = path.parent
    if not parent.is_dir():
        return f" (there is no folder {shown(parent)})"
    try:
        names = sorted(entry.name for entry in parent.iterdir() if entry.is_file())
    except OSError:
        return ""
    found = nearest(path.name, names)
    return f"; did you mean '{shown(parent / found)}'?" if found else ""


def _decode(raw: bytes, path: Path) -> str:
    for mark, name in ((b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"), (b"\x00\x00\xfe\xff", "UTF-32")):
        if raw.startswith(mark):
            raise ConfigError(path, 1, f"the file is {name}; save it as UTF-8")
    try:
        # YAML 1.2, section 5.2, allows a byte order mark; some editors always write one.
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(path, line, f"the file is not UTF-8 (byte 0x{raw[error.start]:02x})") from None


def _compose(text: str, path: Path) -> Node | None:
    try:
        with warnings.catch_warnings():
            # An anchor name used twice is legal YAML; the library warns.
            warnings.simplefilter("ignore")
            node: Node | None = YAML(typ="safe", pure=True).compose(StringIO(text))
            return node
    except RecursionError:
        raise ConfigError(path, None, f"values are nested deeper than {MAX_DEPTH} levels") from None
    except ReaderError as error:
        line = text.count("\n", 0, int(error.position)) + 1
        raise ConfigError(path, line, f"character U+{_code(error.character):04X} is not allowed in YAML") from None
    except MarkedYAMLError as error:
        raise _syntax(error, path) from None
    except (YAMLError, ValueError) as error:
        raise ConfigError(path, None, f"cannot be read as YAML: {' '.join(str(error).split())}") from None


def _code(character: object) -> int:
    return character if isinstance(character, int) else ord(str(character)[0])


def _syntax(error: MarkedYAMLError, path: Path) -> ConfigError:
    """The parser's complaint in plain words, at the line where the fault began."""
    problem = " ".join(str(error.problem or error.context or "not valid YAML").split())
    context = str(error.context or "")
    mark = error.problem_mark or error.context_mark
    if "'\\t'" in problem:
        words = "a tab where YAML allows only spaces; indent and separate with spaces"
    elif "quoted scalar" in context and "end of stream" in problem:
        words, mark = "the quote opened here is never closed", error.context_mark or mark
    elif "end of stream" in problem or ("<stream end>" in problem and "flow" not in context):
        words = "the file ends in the middle of a value: is a bracket or a quote not closed?"
    elif "flow sequence" in context:
        words, mark = "the list opened here with '[' is not closed properly", error.context_mark or mark
    elif "flow mapping" in context:
        words, mark = "the mapping opened here with '{' is not closed properly", error.context_mark or mark
    elif "another document" in problem:
        words = "a second document starts here ('---'); one file holds one mapping"
    elif "undefined alias" in problem:
        words = f"{problem.replace('found ', '')}; no anchor of that name stands above it"
    elif "mapping values are not allowed" in problem:
        words = "a ':' that does not fit here: wrong indentation, or text with ': ' that needs quotes"
    elif "could not find expected ':'" in problem:
        words, mark = "a key without ':' after it", error.context_mark or mark
    elif "cannot start any token" in problem:
        words = (
            f"{problem.replace('found ', '').replace('that cannot start any token', 'cannot start a value')}; quote it"
        )
    else:
        words = f"not valid YAML: {problem}"
    return ConfigError(path, mark.line + 1 if mark is not None else None, words)


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


class _Builder:
    """Nodes -> plain values. Collects faults a user may have several of (`errors`); raises those that end all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.errors: list[ConfigError] = []
        self._count = 0
        self._open: set[int] = set()

    def _fault(self, node: Node, problem: str) -> None:
        self.errors.append(ConfigError(self.path, _line(node), problem))

    def build(self, node: Node, place: Place, lines: dict[Place, tuple[int, int]], depth: int) -> Any:
        self._count += 1
        if self._count > MAX_VALUES:
            raise ConfigError(self.path, _line(node), f"the file expands to more than {MAX_VALUES} values (aliases?)")
        if id(node) in self._open:
            raise ConfigError(self.path, _line(node), "an anchor holds an alias of itself")
        if depth > MAX_DEPTH:
            raise ConfigError(self.path, _line(node), f"values are nested deeper than {MAX_DEPTH} levels")
        if isinstance(node, ScalarNode):
            return self._scalar(node)
        self._open.add(id(node))
        try:
            if isinstance(node, MappingNode) and node.tag == _TAG + "map":
                return self._mapping(node, place, lines, depth)
            if isinstance(node, SequenceNode) and node.tag == _TAG + "seq":
                return self._sequence(node, place, lines, depth)
        finally:
            self._open.discard(id(node))
        self._fault(node, f"the tag {quoted(_tag(node))} is not supported")
        return None

    def _sequence(self, node: SequenceNode, place: Place, lines: dict[Place, tuple[int, int]], depth: int) -> list[Any]:
        items = []
        for index, child in enumerate(node.value):
            lines[(*place, index)] = (_line(child), _line(child))
            items.append(self.build(child, (*place, index), lines, depth + 1))
        return items

    def _mapping(
        self, node: MappingNode, place: Place, lines: dict[Place, tuple[int, int]], depth: int
    ) -> dict[str, Any]:
        result: dict[str, Any] = {}
        first: dict[str, int] = {}
        for key_node, child in node.value:
            if not isinstance(key_node, ScalarNode):
                self._fault(key_node, "a key must be text, not a list or a mapping")
                continue
            key = self._text(key_node)
            if key_node.tag == _TAG + "merge":
                self._fault(key_node, "merge keys ('<<') are not supported; write the keys out")
                continue
            if key_node.tag not in (_TAG + "str", _TAG + "timestamp"):
                self._fault(key_node, f"the key {quoted(key)} must be text; put it in quotes")
                continue
            if key in first:
                self._fault(key_node, f"duplicate key {quoted(key)} (first on line {first[key]})")
                continue
            first[key] = _line(key_node)
            lines[(*place, key)] = (_line(key_node), _line(child))
            result[key] = self.build(child, (*place, key), lines, depth + 1)
        return result

    def _text(self, node: ScalarNode) -> str:
        """The node's text. Two escapes of halves (`"\\ud83d\\ude00"`, as JSON writes it) are one character."""
        text = str(node.value).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        if (odd := _UNUSABLE.search(text)) is not None:
            message = f"the text holds U+{ord(odd[0]):04X}, which neither a program's arguments nor a file can take"
            self._fault(node, message)
        return text

    def _scalar(self, node: ScalarNode) -> Any:
        text = self._text(node)
        tag = node.tag
        if tag in (_TAG + "str", _TAG + "timestamp", "!"):
            return text
        if tag == _TAG + "null":
            return None
        if tag == _TAG + "bool":
            return text.lower() in _TRUE
        if tag in (_TAG + "int", _TAG + "float"):
            return self._number(node, text, tag == _TAG + "int")
        self._fault(node, f"the tag {quoted(_tag(node))} is not supported")
        return None

    def _number(self, node: Node, text: str, whole: bool) -> int | float | None:
        plain = text.replace("_", "")
        try:
            if whole:
                digits = plain.lstrip("+-")
                return int(plain, 0) if digits[:2].lower() in ("0x", "0o", "0b") else int(plain, 10)
            number = float(plain.lower().replace(".inf", "inf").replace(".nan", "nan"))
        except ValueError:
            self._fault(node, f"cannot read {quoted(text)} as a number; put it in quotes if it is text")
            return None
        if not math.isfinite(number):
            self._fault(node, f"{quoted(text)} is not a finite number")
            return None
        return number


def _tag(node: Node) -> str:
    return str(node.tag).replace(_TAG, "!!")
