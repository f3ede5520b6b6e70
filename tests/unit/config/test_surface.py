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


SERVER = {"name": "s", "command": "python3", "args": ["s.py"], "env": [{"name": "A", "value": "b"}]}


def test_servers_are_told_where_to_say_that_they_are_ready() -> None:
    remote = {"type": "http", "name": "h", "url": "http://127.0.0.1"}
    servers = [remote, SERVER, {"name": "t", "command": "x"}]
    waiting, addresses = surface(prompt_when="mcp-connected", mcp_servers=servers).notifying()
    assert addresses == ["@acpbench-mcp-1", "@acpbench-mcp-2"]
    assert waiting[0] == remote
    assert waiting[1]["env"] == [{"name": "A", "value": "b"}, {"name": "NOTIFY_SOCKET", "value": "@acpbench-mcp-1"}]
    assert waiting[2]["env"] == [{"name": "NOTIFY_SOCKET", "value": "@acpbench-mcp-2"}]
    # Nobody waits: the session is the one that was written.
    assert surface(mcp_servers=servers).notifying() == (servers, [])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"prompt_when": "mcp-connected"}, "needs 'mcp_servers', one of them over stdio"),
        ({"prompt_when": "mcp-connected", "transport": "cli", "mcp_servers": [SERVER]}, "needs 'mcp_servers'"),
        ({"prompt_when": "mcp-connected", "mcp_servers": [{"type": "sse", "url": "x"}]}, "one of them over stdio"),
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
