"""What can start an agent, and what cannot: told with the file, not by a run that blames the agent."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from runner.config.adapter import Adapter, fill_in

PLAIN: dict[str, Any] = {
    "id": "a@1",
    "title": "An agent",
    "image": "a-1",
    "dialect": "anthropic",
    "packages": [{"registry": "npm", "name": "a", "version": "1"}],
    "programs": [{"name": "a", "command": ["a"], "expect": "1"}],
    "tools": {},
}
LAUNCH: dict[str, Any] = {"command": ["a", "{prompt}"], "binary": "/a"}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"acp": {**LAUNCH, "command": [""]}}, "starts nothing"),
        ({"acp": {**LAUNCH, "binary": "a"}}, "pattern"),
        ({"acp": {**LAUNCH, "binary": ""}}, "pattern"),
        ({"acp": {**LAUNCH, "command": ["a", "{promt}"]}}, r"nothing fills in '{promt}'; did you mean '{prompt}'\?"),
        ({"env": {"URL": "{model_ulr}/v1"}}, r"nothing fills in '{model_ulr}'; did you mean '{model_url}'\?"),
        ({"env": {"A=B": "x"}}, "pattern"),
        ({"env": {"": "x"}}, "pattern"),
        ({"home": {"../x": ""}}, "without '..'"),
        ({"home": {"/etc/x": ""}}, "relative"),
        ({"home": {".a/": ""}}, "relative"),
        ({"home": {".a": "{model_keys}"}}, "did you mean '{model_key}'"),
        ({"state_dirs": [""]}, "relative"),
        ({"state_dirs": ["../.."]}, "without '..'"),
        ({"tools": {"read": []}}, "at least 1 item"),
        ({"side_requests": [{"name": "all", "say": ""}]}, "has no condition"),
        ({"side_requests": [{"name": "all", "status": 9999, "path": "/x"}]}, "less than or equal to 599"),
    ],
)
def test_what_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Adapter.model_validate({**PLAIN, **fields})


def test_an_agents_own_braces_are_left_alone() -> None:
    made = Adapter.model_validate(
        {**PLAIN, "home": {".a.json": '{"key": "{env:KEY}", "m": "{e}", "model": "{model}"}'}}
    )
    assert fill_in(made.home[".a.json"], {"home": "/h"}) == made.home[".a.json"]


def test_what_is_filled_in_is_not_filled_in_again() -> None:
    # Over ACP the prompt goes as it is: a command line must not be told something else.
    assert fill_in("{prompt}, {home}", {"prompt": "What is {home}?", "home": "/h"}) == "What is {home}?, /h"
