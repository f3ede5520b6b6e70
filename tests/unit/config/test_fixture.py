"""Canaries and what lies outside a workspace."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from runner.config.fixture import Fixture

CANARY = "canary-0123456789abcdef"


def fixture(**fields: Any) -> Fixture:
    verify = {"command": ["true"], "parser": "exit-code"}
    plain = {"id": "f", "tree": "0" * 40, "commit": "0" * 40, "prompt": "p", "verify": verify}
    return Fixture.model_validate({**plain, **fields})


def test_canaries_are_filled_in() -> None:
    made = fixture(canaries={"a": CANARY})
    assert made.fill("x {canary:a} {canary:b}") == f"x {CANARY} {{canary:b}}"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"canaries": {"a": "short"}}, "pattern"),
        ({"outside": [{"path": "/workspace/x"}]}, "either 'content' or 'link'"),
        ({"outside": [{"path": "/etc/passwd", "content": "a"}]}, "below /workspace/ or {home}/"),
        ({"outside": [{"path": "/workspace/../etc/x", "content": "a"}]}, "without '..'"),
        ({"outside": [{"path": "{home}/", "content": "a"}]}, "below /workspace/ or {home}/"),
        ({"prompt": " \n"}, "nothing in it to ask"),
        ({"prompt": "- Fix it."}, "a command line takes for an option"),
        ({"verify": {"command": ["node"], "parser": "node-test"}}, "node-test needs 'tests'"),
        ({"verify": {"command": ["true"], "parser": "exit-code", "tests": 3}}, "no other parser counts any"),
        ({"verify": {"command": [""], "parser": "exit-code"}}, "starts nothing"),
        ({"outside": [{"path": "/workspace/x", "content": "a", "link": "b"}]}, "either 'content' or 'link'"),
    ],
)
def test_what_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        fixture(**fields)
