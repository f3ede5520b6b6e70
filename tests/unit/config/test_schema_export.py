from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from ruamel.yaml import YAML

from runner.config.schema_export import KINDS, json_schema
from runner.errors import UsageError


@pytest.mark.parametrize("kind", list(KINDS))
def test_is_a_schema(kind: str) -> None:
    schema = json_schema(kind)
    jsonschema_rs.meta.validate(schema)
    assert schema["additionalProperties"] is False


def test_tells_right_from_wrong() -> None:
    schema = jsonschema_rs.validator_for(json_schema("surface"))
    assert schema.is_valid(YAML(typ="safe").load("id: acp\ntransport: acp\n"))
    assert not schema.is_valid(YAML(typ="safe").load("id: acp\ntransprot: acp\n"))


def test_unknown_kind() -> None:
    with pytest.raises(UsageError, match="unknown kind of configuration 'sweeps'; did you mean 'sweep'"):
        json_schema("sweeps")


def _numbers(schema: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, schema) of everything in a schema that may be a number."""
    if isinstance(schema, dict):
        if schema.get("type") in ("integer", "number"):
            yield place, schema
        for key, below in schema.items():
            yield from _numbers(below, f"{place}/{key}")
    elif isinstance(schema, list):
        for index, below in enumerate(schema):
            yield from _numbers(below, f"{place}/{index}")


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_number_has_an_end(kind: str) -> None:
    # 1e300 seconds overflow a clock and 10**30 bytes the engine's integers: known before the first run, with file:line.
    endless = [
        place
        for place, number in _numbers(json_schema(kind))
        if not {"maximum", "exclusiveMaximum"} & set(number) or not {"minimum", "exclusiveMinimum"} & set(number)
    ]
    assert endless == []
