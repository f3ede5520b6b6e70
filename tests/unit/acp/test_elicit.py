"""Forms filled by whoever takes the first choice."""

from __future__ import annotations

from typing import Any

import pytest

from runner.acp.elicit import filled
from runner.wire import jsonrpc


@pytest.mark.parametrize(
    ("spec", "required", "value"),
    [
        ({"type": "string", "enum": ["a", "b"]}, False, {"x": "a"}),
        ({"type": "string", "oneOf": [{"const": "c", "title": "C"}, {"const": "d"}]}, False, {"x": "c"}),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, False, {"x": ["a"]}),
        ({"type": "array", "items": {"anyOf": [{"const": "q"}]}}, False, {"x": ["q"]}),
        ({"type": "boolean", "default": False}, False, {"x": False}),
        ({"type": "string"}, False, {}),
        ({"type": "string"}, True, {"x": "yes"}),
        ({"type": "boolean"}, True, {"x": True}),
        ({"type": "integer", "minimum": 3}, True, {"x": 3}),
        ({"type": "number"}, True, {"x": 0}),
        ({"type": "array", "items": {"type": "string"}}, True, {"x": []}),
        ({"type": "thing"}, True, {}),
        ("nonsense", True, {}),
    ],
)
def test_each_kind_of_property(spec: Any, required: bool, value: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"x": spec}, "required": ["x"] if required else []}
    assert filled(schema) == value


@pytest.mark.parametrize("schema", [None, [], {}, {"properties": 3}, {"properties": {}, "required": 1}])
def test_what_is_no_form_is_left_empty(schema: Any) -> None:
    assert filled(schema) == {}


@pytest.mark.parametrize("value", [1e999, 10**4299, -1e999])
def test_a_default_that_json_has_no_word_for_can_still_be_sent(value: Any) -> None:
    deep: Any = 1
    for _ in range(2000):
        deep = [deep]
    schema = {"properties": {"x": {"default": value}, "y": {"type": "number", "minimum": value}, "z": {"enum": [deep]}}}
    line = jsonrpc.result(1, filled({**schema, "required": ["y"]}))
    assert jsonrpc.decode(line.removesuffix(b"\n")) is not None
