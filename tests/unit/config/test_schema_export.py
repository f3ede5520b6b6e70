from __future__ import annotations

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
