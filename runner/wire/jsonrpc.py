"""JSON-RPC 2.0 as ACP uses it: one line in, one message out; one message in, one line out. Pure.

`decode` never raises: what is no message becomes `Invalid` with a reason. It is lenient where a peer of the official
SDK would still understand (a byte order mark, a duplicate key, a missing "jsonrpc") and says so in `notes`; reasons
and notes are ids of `runner.acp.findings`. Numbers and strings keep their JSON type; an id written as `1.0` or `1e2`
is echoed as it was written.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

from runner.wire.cost import too_costly

#: A request's id: string, number or null. Equal numbers are the same id in any form: JSON has one number type.
Id: TypeAlias = str | int | float | None

#: Error codes of JSON-RPC and ACP.
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
REQUEST_CANCELLED: Final = -32800
#: Longest line that is parsed: the official SDK 2.x gives up at the same size.
MAX_MESSAGE_BYTES: Final = 32 * 1024 * 1024
AUTH_REQUIRED: Final = -32000
RESOURCE_NOT_FOUND: Final = -32002

_BOM: Final = b"\xef\xbb\xbf"


class FloatId(float):
    """A number id with a fraction or an exponent; `literal` is how the peer wrote it."""

    __slots__ = ("literal",)

    literal: str

    def __new__(cls, literal: str) -> Self:
        self = super().__new__(cls, literal)
        self.literal = literal
        return self


@dataclass(frozen=True, slots=True)
class Request:
    id: Id
    method: str
    params: Any
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Notification:
    method: str
    params: Any
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Response:
    """`failed` tells an error from a result; `result` may be null, `error` is as received."""

    id: Id
    failed: bool
    result: Any = None
    error: Any = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """A JSON-RPC batch array. `items` are the raw values."""

    items: tuple[Any, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Invalid:
    """No message. `reason`: blank-line, not-utf8, not-json, not-object, not-jsonrpc, bad-id, too-deep,
    number-out-of-range or message-too-large.
    """

    reason: str
    detail: str
    notes: tuple[str, ...] = ()


Message: TypeAlias = Request | Notification | Response | Batch | Invalid


class _Notes:
    """Collects notes while one line is read, each once, in order."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}

    def add(self, id: str) -> None:
        self._ids[id] = None

    def object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Hook for json.loads: a dict, and a note where a key stands twice (the last one counts, as everywhere)."""
        value = dict(pairs)
        if len(value) != len(pairs):
            self.add("duplicate-key")
        return value

    def done(self) -> tuple[str, ...]:
        return tuple(self._ids)


def decode(raw: bytes) -> Message:
    """The message on one line (without its LF). Never raises."""
    notes = _Notes()
    if too_costly(raw):
        return Invalid("message-too-large", f"{len(raw)} bytes, whose values take too much memory", notes.done())
    if raw.startswith(_BOM):
        notes.add("byte-order-mark")
        raw = raw[len(_BOM) :]
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return Invalid("not-utf8", f"byte {error.start}: {error.reason}", notes.done())
    if not text.strip(" \t\r"):
        return Invalid("blank-line", "an empty line", notes.done())
    value = _load(text, notes)
    if isinstance(value, Invalid):
        return value
    if isinstance(value, list):
        return Batch(tuple(value), notes.done())
    if not isinstance(value, dict):
        return Invalid("not-object", f"a JSON {_type_name(value)}", notes.done())
    if isinstance(value.get("id"), float):
        value["id"] = _float_id(text)
    return _message(value, notes)


def _load(text: str, notes: _Notes) -> Any:
    """The value, or `Invalid`. NaN and Infinity are no JSON; Python reads them unless told otherwise."""
    try:
        return json.loads(text, object_pairs_hook=notes.object, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        return Invalid("not-json", f"character {error.pos}: {error.msg}", notes.done())
    except RecursionError:
        return Invalid("too-deep", "nested too deep to read", notes.done())
    except _Constant as error:
        return Invalid("not-json", f"{error} is no JSON value", notes.done())
    except ValueError as error:  # Python's limit on the digits of an integer
        return Invalid("number-out-of-range", str(error), notes.done())


class _Constant(ValueError):
    """NaN, Infinity or -Infinity stood where a value is due."""


def _no_constant(name: str) -> Any:
    raise _Constant(name)


def _float_id(text: str) -> FloatId:
    """The top level's id as written. A second reading, so that only messages with such an id pay for it."""
    value = json.loads(text, parse_float=FloatId)["id"]
    assert isinstance(value, FloatId)
    return value


def _message(value: dict[str, Any], notes: _Notes) -> Message:
    if value.get("jsonrpc") != "2.0":
        notes.add("jsonrpc-version")
    id = value.get("id")
    if isinstance(id, bool | dict | list):
        return Invalid("bad-id", f"the id is a JSON {_type_name(id)}", notes.done())
    if "method" in value:
        return _call(value, id, notes)
    if "id" in value and ("result" in value or "error" in value):
        return _response(value, id, notes)
    return Invalid("not-jsonrpc", "neither a method nor a response with an id", notes.done())


def _call(value: dict[str, Any], id: Id, notes: _Notes) -> Message:
    method, params = value["method"], value.get("params")
    if not isinstance(method, str):
        return Invalid("not-jsonrpc", f"the method is a JSON {_type_name(method)}", notes.done())
    if "id" not in value:
        return Notification(method, params, notes.done())
    return Request(id, method, params, notes.done())


def _response(value: dict[str, Any], id: Id, notes: _Notes) -> Response:
    """JSON-RPC 1.0 peers send both members, one of them null: only an error that is not null then counts."""
    if "result" in value and "error" in value:
        notes.add("result-and-error")
    failed = "result" not in value or value.get("error") is not None
    if failed and not _good_error(value["error"]):
        notes.add("bad-error")
    return Response(id, failed, None if failed else value["result"], value["error"] if failed else None, notes.done())


def _good_error(error: Any) -> bool:
    return isinstance(error, dict) and error_code(error) is not None and isinstance(error.get("message"), str)


def error_code(error: Any) -> int | None:
    """The numeric code of an error member; None where it has none."""
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def _type_name(value: Any) -> str:
    names = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


def request(id: Id, method: str, params: Any = None) -> bytes:
    """One line; params that are None are left out. ValueError for NaN and infinities, TypeError for what is no JSON."""
    return _line(f',"id":{_id(id)},"method":{_dump(method)}{_params(params)}')


def notification(method: str, params: Any = None) -> bytes:
    return _line(f',"method":{_dump(method)}{_params(params)}')


def result(id: Id, value: Any) -> bytes:
    return _line(f',"id":{_id(id)},"result":{_dump(value)}')


def error(id: Id, code: int, message: str, data: Any = None) -> bytes:
    """An error response; `data` is left out where None."""
    body: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        body["data"] = data
    return _line(f',"id":{_id(id)},"error":{_dump(body)}')


def _params(params: Any) -> str:
    return "" if params is None else f',"params":{_dump(params)}'


def _id(id: Id) -> str:
    return id.literal if isinstance(id, FloatId) else _dump(id)


def _dump(value: Any) -> str:
    """Compact, non-ASCII kept, keys in the order given: the same value gives the same bytes."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A lone surrogate is legal in JSON as an escape only: it has no UTF-8 form.
    return text if _encodable(text) else json.dumps(value, allow_nan=False, separators=(",", ":"))


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _line(members: str) -> bytes:
    return f'{{"jsonrpc":"2.0"{members}}}\n'.encode()
