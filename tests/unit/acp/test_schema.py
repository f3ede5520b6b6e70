"""Frames against a schema of the SDK's form: severities, directions, both layouts, words that name the fault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runner.acp.schema import LAYOUTS, Validator, check_frames, find_schema
from runner.wire import jsonrpc
from runner.wire.frames import Channel, Direction, Frame

SOFT = {"x-deserialize-default-on-error": True}
SKIP = {"x-deserialize-skip-invalid-items": True}

#: The shapes of the real file in small: x-side and x-method, discriminated oneOf, allOf references, annotations.
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$defs": {
        "RequestId": {"anyOf": [{"type": "null"}, {"type": "integer", "format": "int64"}, {"type": "string"}]},
        "Error": {
            "type": "object",
            "properties": {"code": {"type": "integer"}, "message": {"type": "string"}},
            "required": ["code", "message"],
        },
        "InitializeRequest": {
            "type": "object",
            "properties": {"protocolVersion": {"type": "integer"}},
            "required": ["protocolVersion"],
            "x-side": "agent",
            "x-method": "initialize",
        },
        "InitializeResponse": {
            "type": "object",
            "properties": {
                "protocolVersion": {"type": "integer"},
                "authMethods": {"type": "array", "items": {"type": "object"}, **SKIP},
                "title": {"type": "string", **SOFT},
                "args": {"type": "array", "items": {"type": "string"}, "x-deserialize-default-on-null": True},
            },
            "required": ["protocolVersion"],
            "x-side": "agent",
            "x-method": "initialize",
        },
        "ReadTextFileRequest": {
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
            "x-side": "client",
            "x-method": "fs/read_text_file",
        },
        "ReadTextFileResponse": {
            "type": "object",
            "properties": {"content": {"type": "string"}},
            "required": ["content"],
            "x-side": "client",
            "x-method": "fs/read_text_file",
        },
        "ToolKind": {"oneOf": [{"const": "read"}, {"const": "edit"}]},
        "ToolCall": {
            "type": "object",
            "properties": {
                "title": {"type": "string"},
                "kind": {"anyOf": [{"$ref": "#/$defs/ToolKind"}, {"type": "null"}], **SOFT},
                "hard": {"anyOf": [{"$ref": "#/$defs/ToolKind"}, {"type": "null"}]},
            },
            "required": ["title"],
        },
        "SessionUpdate": {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"sessionUpdate": {"const": "tool_call"}},
                    "required": ["sessionUpdate"],
                    "allOf": [{"$ref": "#/$defs/ToolCall"}],
                },
                {
                    "type": "object",
                    "properties": {"sessionUpdate": {"const": "plan"}, "entries": {"type": "array"}},
                    "required": ["sessionUpdate", "entries"],
                },
            ]
        },
        "SessionNotification": {
            "type": "object",
            "properties": {"sessionId": {"type": "string"}, "update": {"$ref": "#/$defs/SessionUpdate"}},
            "required": ["sessionId", "update"],
            "x-side": "client",
            "x-method": "session/update",
        },
        "CancelRequestNotification": {
            "type": "object",
            "properties": {"requestId": {"$ref": "#/$defs/RequestId"}},
            "required": ["requestId"],
            "x-side": "protocol",
            "x-method": "$/cancel_request",
        },
    },
}


@pytest.fixture(scope="module")
def validator(tmp_path_factory: pytest.TempPathFactory) -> Validator:
    path = tmp_path_factory.mktemp("sdk") / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    return Validator(path)


def verdict(validator: Validator, direction: Direction, message: dict[str, Any], method: str | None = None) -> Any:
    decoded = jsonrpc.decode(json.dumps({"jsonrpc": "2.0", **message}).encode())
    problem = validator.check(direction, decoded, method)
    return (problem.severity, str(problem)) if problem else None


def update(**fields: Any) -> dict[str, Any]:
    return {"method": "session/update", "params": {"sessionId": "s", "update": fields}}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_both_layouts_are_found(tmp_path: Path, layout: str) -> None:
    path = tmp_path / layout
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(SCHEMA))
    assert find_schema(tmp_path) == path
    assert Validator(tmp_path).path == path


def test_the_v1_file_of_2_x_is_preferred(tmp_path: Path) -> None:
    for layout in LAYOUTS:
        (tmp_path / layout).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / layout).write_text(json.dumps(SCHEMA))
    assert find_schema(tmp_path) == tmp_path / "schema/v1/schema.json"


def test_what_is_no_schema_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none of schema/v1/schema\.json"):
        Validator(tmp_path)
    for text in ("[]", "{}", '{"$defs":{}}'):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(ValueError, match="not an ACP schema"):
            Validator(tmp_path / "x.json")


@pytest.mark.parametrize(
    "fields",
    [
        {"sessionUpdate": "tool_call", "title": "t"},
        {"sessionUpdate": "tool_call", "title": "t", "kind": "edit", "unknown": 1},
        {"sessionUpdate": "tool_call", "title": "t", "kind": None},
        {"sessionUpdate": "plan", "entries": []},
    ],
)
def test_valid_updates(validator: Validator, fields: dict[str, Any]) -> None:
    assert verdict(validator, "a2c", update(**fields)) is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"sessionUpdate": "tool_call"}, 'SessionNotification/update: "title" is a required property'),
        ({"sessionUpdate": "plan"}, 'SessionNotification/update: "entries" is a required property'),
        (
            {"sessionUpdate": "plan", "entries": 1},
            'SessionNotification/update/entries: the value is not of type "array"',
        ),
        ({"sessionUpdate": "never"}, "SessionNotification/update/sessionUpdate: none of the known values"),
        (
            {"sessionUpdate": "tool_call", "title": "t", "hard": "x"},
            "SessionNotification/update/hard: none of the known values",
        ),
    ],
)
def test_invalid_updates_name_the_fault(validator: Validator, fields: dict[str, Any], words: str) -> None:
    assert verdict(validator, "a2c", update(**fields)) == ("schema-invalid", words)


@pytest.mark.parametrize(
    "result",
    [
        {"protocolVersion": 1, "authMethods": [1]},
        {"protocolVersion": 1, "authMethods": [{}, "x"]},
        {"protocolVersion": 1, "title": 5},
        {"protocolVersion": 1, "args": None},
    ],
)
def test_what_the_sdks_repair_is_tolerated(validator: Validator, result: dict[str, Any]) -> None:
    severity, words = verdict(validator, "a2c", {"id": 1, "result": result}, "initialize")
    assert severity == "schema-invalid-tolerated"
    assert words.startswith("InitializeResponse/")


@pytest.mark.parametrize(
    "result",
    [
        None,
        {},
        {"protocolVersion": "1"},
        {"protocolVersion": "1", "title": 5},
        {"protocolVersion": 1, "authMethods": {}},
        {"protocolVersion": 1, "args": [1]},
    ],
)
def test_what_they_do_not_repair_is_not(validator: Validator, result: Any) -> None:
    severity, _ = verdict(validator, "a2c", {"id": 1, "result": result}, "initialize")
    assert severity == "schema-invalid"


def test_a_tolerated_field_inside_a_branch(validator: Validator) -> None:
    severity, words = verdict(validator, "a2c", update(sessionUpdate="tool_call", title="t", kind="bash"))
    assert (severity, words) == (
        "schema-invalid-tolerated",
        "SessionNotification/update/kind: none of the known values",
    )


def test_a_direction_has_its_own_methods(validator: Validator) -> None:
    bad = {"id": 1, "method": "fs/read_text_file", "params": {}}
    assert verdict(validator, "a2c", bad) == ("schema-invalid", 'ReadTextFileRequest: "path" is a required property')
    assert verdict(validator, "c2a", bad) is None
    assert verdict(validator, "c2a", {"id": 1, "result": {}}, "fs/read_text_file") == (
        "schema-invalid",
        'ReadTextFileResponse: "content" is a required property',
    )
    for direction in ("a2c", "c2a"):
        assert verdict(validator, direction, {"method": "$/cancel_request"}) is not None


def test_absent_params_count_as_empty(validator: Validator) -> None:
    assert verdict(validator, "c2a", {"id": 1, "method": "initialize"}) == (
        "schema-invalid",
        'InitializeRequest: "protocolVersion" is a required property',
    )


def test_errors_and_ids_are_checked(validator: Validator) -> None:
    assert verdict(validator, "a2c", {"id": 1, "error": {"code": 1, "message": "m"}}, "initialize") is None
    assert verdict(validator, "a2c", {"id": 1, "error": {"code": 1}}, "initialize")[0] == "schema-invalid"
    assert verdict(validator, "a2c", {"id": 1.5, "result": 1}) == (
        "schema-invalid",
        "RequestId: fits none of the alternatives",
    )
    assert verdict(validator, "a2c", {"id": 1.0, "result": 1}) is None
    assert verdict(validator, "a2c", {"id": 1.5, "method": "_x"})[0] == "schema-invalid"


def test_what_the_schema_does_not_know_is_not_judged(validator: Validator) -> None:
    assert verdict(validator, "a2c", {"id": 1, "method": "_vendor/x", "params": 7}) is None
    assert verdict(validator, "a2c", {"id": 1, "result": 7}, "_vendor/x") is None
    assert validator.check("a2c", jsonrpc.decode(b"no json")) is None
    with pytest.raises(KeyError):
        validator.validate("NoSuchDefinition", {})


def test_values_that_only_python_can_hold_are_judged_all_the_same(validator: Validator) -> None:
    good = {"protocolVersion": 1, "title": "\ud800", "x": float("inf"), "\udfff": 1}
    assert validator.validate("InitializeResponse", good) is None
    bad = validator.validate("InitializeResponse", {"protocolVersion": "\ud800", "\udfff": 1})
    assert bad is not None
    assert str(bad) == 'InitializeResponse/protocolVersion: the value is not of type "integer"'


def test_an_agent_s_text_does_not_land_in_the_message(validator: Validator) -> None:
    problem = validator.validate("InitializeResponse", {"protocolVersion": "x" * 100_000})
    assert problem is not None
    assert len(str(problem)) < 200


def test_a_fault_nested_too_deep_to_explain_is_a_problem_all_the_same(validator: Validator) -> None:
    deep: Any = "\ud800"
    for _ in range(800):
        deep = [deep]
    problem = validator.validate("InitializeResponse", {"protocolVersion": deep})
    assert problem is not None
    assert (problem.severity, problem.message) == ("schema-invalid", "nested too deep to say what is wrong")


def frame(seq: int, direction: Direction, members: dict[str, Any], channel: Channel = "stdout") -> Frame:
    return Frame(seq, seq, direction, channel, json.dumps({"jsonrpc": "2.0", **members}).encode())


def test_frames_are_matched_with_their_requests(validator: Validator) -> None:
    frames = [
        frame(1, "c2a", {"id": 1, "method": "initialize", "params": {}}),
        frame(2, "a2c", {"id": 1, "method": "fs/read_text_file", "params": {"path": "/x"}}),
        frame(3, "c2a", {"id": 1, "result": {}}),
        frame(4, "a2c", {"id": 1, "result": {"protocolVersion": 1, "title": 1}}),
        frame(5, "a2c", {"id": 1, "result": {"protocolVersion": "second answer"}}),
        frame(6, "a2c", update(sessionUpdate="plan")),
        frame(7, "a2c", update(sessionUpdate="plan"), "stderr"),
        Frame(8, 8, "a2c", "stdout", b"not json"),
    ]
    found = [(finding.seq, finding.id) for finding in check_frames(validator, frames)]
    assert found == [(4, "schema-invalid-tolerated"), (6, "schema-invalid")]
    ours = [finding.seq for finding in check_frames(validator, frames, frozenset({"c2a"}))]
    assert ours == [1, 3]
