"""Frames against the JSON Schema that ships inside the official SDK (protocol v1), with jsonschema-rs.

Two severities. The schema annotates fields that the SDKs repair silently (`x-deserialize-default-on-error`,
`x-deserialize-skip-invalid-items`, `x-deserialize-default-on-null`): a message that is wrong in such places only is
`schema-invalid-tolerated`, any other wrong one `schema-invalid`. So each definition is compiled twice: as it is, and
lenient, with what the annotations forgive forgiven.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import jsonschema_rs

from runner.acp import findings as f
from runner.acp.findings import FrameFinding
from runner.wire import jsonrpc
from runner.wire.frames import Direction, Frame

#: Where the SDK keeps the v1 schema below its package folder: 2.x first, then 1.x.
LAYOUTS: Final = ("schema/v1/schema.json", "schema/schema.json")

#: `x-side` of a definition: who serves the method. client: the agent calls (a2c).
_SIDES: Final[dict[str, tuple[Direction, ...]]] = {
    "client": ("a2c",),
    "agent": ("c2a",),
    "both": ("a2c", "c2a"),
    "protocol": ("a2c", "c2a"),
}
_SHAPES: Final = ("Request", "Response", "Notification")

#: Open requests that are remembered for their responses.
_MAX_OPEN: Final = 20_000

#: (shape, direction of the call, method) -> definition
_Table: TypeAlias = dict[tuple[str, str, str], str]


@dataclass(frozen=True, slots=True)
class SchemaProblem:
    """One message that the schema refuses. `severity` is a finding's id, `path` a JSON Pointer into the params."""

    severity: str
    definition: str
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.definition}{self.path}: {self.message}"


def find_schema(package: Path) -> Path:
    """The v1 schema file in an unpacked SDK (or the file itself). FileNotFoundError where there is none."""
    if package.is_file():
        return package
    for layout in LAYOUTS:
        if (package / layout).is_file():
            return package / layout
    raise FileNotFoundError(f"{package}: none of {', '.join(LAYOUTS)}")


class Validator:
    """Compiled definitions of one schema file; each is compiled at its first use."""

    def __init__(self, schema_path: Path) -> None:
        """`schema_path`: the file, or the SDK's package folder. Raises OSError, ValueError (no ACP schema)."""
        self.path = find_schema(schema_path)
        document = json.loads(self.path.read_bytes())
        defs: dict[str, Any] = document.get("$defs", {}) if isinstance(document, dict) else {}
        self._table = _methods(defs)
        if not self._table:
            raise ValueError(f"{self.path}: no definition has x-side and x-method, not an ACP schema")
        self._strict: dict[str, Any] = defs
        self._lenient: dict[str, Any] = {name: _lenient(definition) for name, definition in defs.items()}
        self._compiled: dict[tuple[str, bool], jsonschema_rs.Validator] = {}

    def check(self, direction: Direction, message: jsonrpc.Message, method: str | None = None) -> SchemaProblem | None:
        """The problem of a message, None where there is none or the schema does not know its method.

        `method` is the one a response answers; a response without is checked for its id and error only.
        """
        match message:
            case jsonrpc.Request():
                return self._call("Request", direction, message) or self._id(message.id)
            case jsonrpc.Notification():
                return self._call("Notification", direction, message)
            case jsonrpc.Response():
                return self._response(direction, message, method) or self._id(message.id)
        return None

    def validate(self, definition: str, value: Any) -> SchemaProblem | None:
        """`value` against one definition. KeyError where the schema has none of that name."""
        try:
            return self._validate(definition, value)
        except (ValueError, RecursionError):  # lone surrogates, great depth: what the library has no form for
            pass
        try:
            return self._validate(definition, _printable(value))
        except (ValueError, RecursionError):
            return SchemaProblem(f.SCHEMA_INVALID, definition, "", "nested too deep to say what is wrong")

    def _validate(self, definition: str, value: Any) -> SchemaProblem | None:
        if self._validator(definition, lenient=False).is_valid(value):
            return None
        errors = list(self._validator(definition, lenient=True).iter_errors(value))
        severity = f.SCHEMA_INVALID if errors else f.SCHEMA_INVALID_TOLERATED
        errors = errors or list(self._validator(definition, lenient=False).iter_errors(value))
        path, words = _explain(errors[0])
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        return SchemaProblem(severity, definition, path, words + more)

    def _validator(self, definition: str, *, lenient: bool) -> jsonschema_rs.Validator:
        key = (definition, lenient)
        if key not in self._compiled:
            defs = self._lenient if lenient else self._strict
            defs[definition]
            # mask: an agent's text may be megabytes and has no place in a message
            schema = {"$ref": f"#/$defs/{definition}", "$defs": defs}
            self._compiled[key] = jsonschema_rs.validator_for(schema, mask="the value")
        return self._compiled[key]

    def _call(
        self, shape: str, direction: Direction, message: jsonrpc.Request | jsonrpc.Notification
    ) -> SchemaProblem | None:
        definition = self._table.get((shape, direction, message.method))
        params = {} if message.params is None else message.params
        return self.validate(definition, params) if definition else None

    def _response(self, direction: Direction, message: jsonrpc.Response, method: str | None) -> SchemaProblem | None:
        """A response runs against its call, so its definition is the one of the other direction."""
        if message.failed:
            return self.validate("Error", message.error)
        called = "c2a" if direction == "a2c" else "a2c"
        definition = self._table.get(("Response", called, method or ""))
        return self.validate(definition, message.result) if definition else None

    def _id(self, id: jsonrpc.Id) -> SchemaProblem | None:
        return self.validate("RequestId", float(id) if isinstance(id, float) else id)


def check_frames(
    validator: Validator, frames: Iterable[Frame], directions: frozenset[Direction] = frozenset({"a2c"})
) -> Iterator[FrameFinding]:
    """One finding for each frame of `directions` that the schema refuses; responses are matched with their requests."""
    for frame, message, method in calls(frames, directions):
        problem = validator.check(frame.direction, message, method)
        if problem is not None:
            yield FrameFinding(problem.severity, str(problem), frame.seq)


def calls(
    frames: Iterable[Frame], directions: frozenset[Direction] = frozenset({"a2c"})
) -> Iterator[tuple[Frame, jsonrpc.Message, str | None]]:
    """(frame, its message, the method that a response answers) of `directions`, for `Validator.check`."""
    called: dict[tuple[Direction, jsonrpc.Id], str] = {}
    for frame in frames:
        if frame.channel == "stderr" or frame.length > jsonrpc.MAX_MESSAGE_BYTES:
            continue
        message = jsonrpc.decode(frame.raw)
        method: str | None = None
        if isinstance(message, jsonrpc.Request):
            # An agent may ask any number of things that are never answered.
            if len(called) < _MAX_OPEN:
                called[frame.direction, message.id] = message.method
        elif isinstance(message, jsonrpc.Response):
            method = called.pop(("c2a" if frame.direction == "a2c" else "a2c", message.id), None)
        if frame.direction in directions:
            yield frame, message, method


def _methods(defs: Mapping[str, Any]) -> _Table:
    """Reads `x-side` and `x-method`; the shape is the end of the definition's name."""
    table: _Table = {}
    for name, definition in defs.items():
        side, method = definition.get("x-side"), definition.get("x-method")
        shape = next((shape for shape in _SHAPES if name.endswith(shape)), None)
        if shape is not None and isinstance(method, str):
            table.update({(shape, direction, method): name for direction in _SIDES.get(side, ())})
    return table


def _lenient(node: Any) -> Any:
    """The schema with what the SDKs repair allowed.

    oneOf becomes anyOf: where a discriminating field is forgiven, several branches may fit.
    """
    if isinstance(node, list):
        return [_lenient(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("x-deserialize-default-on-error") is True:
        return {}
    copy = {("anyOf" if key == "oneOf" and "anyOf" not in node else key): _lenient(item) for key, item in node.items()}
    if node.get("x-deserialize-skip-invalid-items") is True:
        copy.pop("items", None)
    if node.get("x-deserialize-default-on-null") is True:
        return {"anyOf": [copy, {"type": "null"}]}
    return copy


def _explain(error: jsonschema_rs.ValidationError) -> tuple[str, str]:
    """JSON Pointer and words of the error that says most: of alternatives, the branch that was meant."""
    context = error.kind.as_dict().get("context") if error.kind.name in ("anyOf", "oneOf") else None
    branches = [branch for branch in context or [] if branch]
    meant = [branch for branch in branches if not any(_is_marker(item) for item in branch)]
    if len(meant) == 1:
        return _explain(meant[0][0])
    if branches and not meant:
        return _pointer(branches[0][0]), "none of the known values"
    return _pointer(error), "fits none of the alternatives" if branches else error.message


def _is_marker(error: jsonschema_rs.ValidationError) -> bool:
    """Whether it says only that another branch was meant: a discriminating constant differs, or it is not null."""
    return error.kind.name == "const" or (error.kind.name == "type" and error.kind.value == ["null"])


def _pointer(error: jsonschema_rs.ValidationError) -> str:
    return "".join(f"/{part}" for part in error.instance_path)


def _printable(value: Any) -> Any:
    """The value with lone surrogates replaced: they have no form outside Python."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [_printable(item) for item in value]
    if isinstance(value, dict):
        return {_printable(key): _printable(item) for key, item in value.items()}
    return value
