"""Methods, and the capabilities that they need, as data."""

from __future__ import annotations

from typing import Any

import pytest

from runner.acp.methods import METHODS, PARAMS, UPDATES, bad_param, declared, needed_capability


@pytest.mark.parametrize(
    ("capabilities", "path", "expected"),
    [
        ({"terminal": True}, "terminal", True),
        ({"terminal": False}, "terminal", False),
        ({"terminal": None}, "terminal", False),
        ({"terminal": "yes"}, "terminal", False),
        ({"terminal": 1}, "terminal", False),
        ({}, "terminal", False),
        ({"fs": {"readTextFile": True}}, "fs.readTextFile", True),
        ({"fs": {"readTextFile": True}}, "fs.writeTextFile", False),
        ({"fs": True}, "fs.readTextFile", False),
        ({"elicitation": {"form": {}}}, "elicitation.form", True),
        ({"elicitation": {"form": None}}, "elicitation.form", False),
        ({"elicitation": {}}, "elicitation.form", False),
    ],
)
def test_declared(capabilities: dict[str, Any], path: str, expected: bool) -> None:
    assert declared(capabilities, path) is expected


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"mode": "form"}, "elicitation.form"),
        ({"mode": "url"}, "elicitation.url"),
        ({"mode": "form.x"}, "elicitation.{mode}"),
        ({"mode": 3}, "elicitation.{mode}"),
        ({}, "elicitation.{mode}"),
        (None, "elicitation.{mode}"),
    ],
)
def test_an_elicitation_s_gate_is_its_mode(params: Any, path: str) -> None:
    assert needed_capability("elicitation/create", params) == path


def test_every_update_gate_is_a_path_that_can_be_declared() -> None:
    for path in [*UPDATES.values(), *(path for path in METHODS.values() if path)]:
        *outer, last = path.split(".")
        capabilities: dict[str, Any] = {last: True}
        for name in reversed(outer):
            capabilities = {name: capabilities}
        assert declared(capabilities, path)


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("fs/read_text_file", {"sessionId": "s", "path": "/x", "line": -1}, "line"),
        ("fs/read_text_file", {"sessionId": "s", "path": "/x", "line": True}, "line"),
        ("fs/read_text_file", {"sessionId": "s", "path": "/x", "limit": 1.5}, "limit"),
        ("fs/read_text_file", {"sessionId": "s", "path": None}, "path"),
        ("fs/write_text_file", {"sessionId": "s", "path": "/x"}, "content"),
        ("terminal/create", {"sessionId": "s", "command": ["ls"]}, "command"),
        ("terminal/create", {"sessionId": "s", "command": "ls", "args": [1]}, "args"),
        ("terminal/create", {"sessionId": "s", "command": "ls", "env": [{"name": "a"}]}, "env"),
        ("terminal/create", {"sessionId": "s", "command": "ls", "cwd": 1}, "cwd"),
        ("terminal/output", {"sessionId": "s"}, "terminalId"),
        ("session/request_permission", {"sessionId": "s", "toolCall": {}, "options": []}, "toolCall"),
    ],
)
def test_bad_params_are_named(method: str, params: dict[str, Any], name: str) -> None:
    assert bad_param(method, params) == f"{name} is missing or of the wrong type"


def test_every_method_has_its_params() -> None:
    assert set(PARAMS) == set(METHODS)
