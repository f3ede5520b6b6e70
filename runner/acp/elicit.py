"""Fills an elicitation form as someone would who takes the first choice everywhere. Pure.

Source: ACP v1, elicitation/create in mode `form`: a flat object schema of primitives, enumerations and arrays of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runner.wire.numbers import bounded

#: By a property's `type`, where it has neither choices nor a default.
_PLAIN: Mapping[str, Any] = {"boolean": True, "string": "yes", "array": []}
_ABSENT: Any = object()


def filled(schema: Any) -> dict[str, Any]:
    """Content for `requestedSchema`: of each property its default or its first choice; where it has neither, a plain
    value if it is required, else nothing. Numbers that JSON has no word for, and what lies too deep, are text."""
    fields: Mapping[str, Any] = schema if isinstance(schema, Mapping) else {}
    properties, required = fields.get("properties"), fields.get("required")
    if not isinstance(properties, Mapping):
        return {}
    wanted = required if isinstance(required, list) else []
    values = {str(name): _value(spec, name in wanted) for name, spec in properties.items()}
    return {name: bounded(value) for name, value in values.items() if value is not _ABSENT}


def _value(spec: Any, required: bool) -> Any:
    if not isinstance(spec, Mapping):
        return _ABSENT
    if "default" in spec:
        return spec["default"]
    choices = _choices(spec)
    if choices:
        return choices[0]
    kind = spec.get("type")
    if kind == "array" and (inner := _choices(spec.get("items"))):
        return inner[:1]
    if not required:
        return _ABSENT
    if kind in ("number", "integer"):
        return spec.get("minimum", 0)
    return _PLAIN.get(str(kind), _ABSENT)


def _choices(spec: Any) -> list[Any]:
    if not isinstance(spec, Mapping):
        return []
    if isinstance(spec.get("enum"), list):
        return list(spec["enum"])
    for key in ("oneOf", "anyOf"):
        listed = spec.get(key)
        if isinstance(listed, list):
            return [choice["const"] for choice in listed if isinstance(choice, Mapping) and "const" in choice]
    return []
