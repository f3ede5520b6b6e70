"""What a surface may list: probes and open documents that say all they need."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from runner.config.surface import Surface


def surface(**fields: Any) -> Surface:
    return Surface.model_validate({"id": "s", "transport": "acp", **fields})


def test_probes_and_buffers() -> None:
    made = surface(
        probes=[{"do": "set-config-option", "option": "mode", "value": "acceptEdits"}, {"do": "prompt"}],
        open_buffers=[{"path": "a", "append": "x"}],
    )
    assert [probe.do for probe in made.probes] == ["set-config-option", "prompt"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"probes": [{"do": "set-config-option", "option": "mode"}]}, "needs 'option' and 'value'"),
        ({"probes": [{"do": "set-mode", "value": True}]}, "needs 'value', the mode's id"),
        ({"probes": [{"do": "explode"}]}, "Input should be"),
        ({"open_buffers": [{"path": "../../etc/passwd", "text": "x"}]}, "without '..'"),
        ({"open_buffers": [{"path": "", "text": "x"}]}, "relative"),
        ({"additional_directories": ["next"]}, "pattern"),
        ({"additional_directories": ["{workspac}/next"]}, "pattern"),
        ({"resolver": {"command": [""], "query": "(a)"}}, "starts nothing"),
        ({"resolver": {"command": ["x"], "query": "query .*"}}, "needs a group"),
        ({"open_buffers": [{"path": "a"}]}, "either 'text' or 'append'"),
        ({"open_buffers": [{"path": "a", "text": "x", "append": "y"}]}, "either 'text' or 'append'"),
    ],
)
def test_what_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        surface(**fields)
