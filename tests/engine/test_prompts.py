"""How a prompt reaches an agent where no argument holds it: by standard input or a file; and a login before it."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest
from ruamel.yaml import YAML

from runner.errors import ConfigError
from tests.engine.lab import PUPPET, PYTHON, REPOSITORY, Lab, repaired, stderr

pytestmark = pytest.mark.engine

SIZE = 300_000
ACTS: list[dict[str, Any]] = [
    {"do": "model"},
    {"do": "write", "path": "src/semver.js", "text": repaired()},
]


def long_prompt(lab: Lab) -> None:
    """The lab's own semver, whose prompt no argument can hold."""
    (lab.root / "fixtures").unlink()
    shutil.copytree(REPOSITORY / "fixtures", lab.root / "fixtures", symlinks=True)
    path = lab.root / "fixtures/semver/fixture.yaml"
    body = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    body["prompt"] = "Fix it. " + "x" * (SIZE - 8)
    path.write_text(json.dumps(body), encoding="utf-8")


def launched(lab: Lab, name: str, count: str, *words: str, **more: Any) -> str:
    """A puppet whose command line takes the prompt otherwise, and says by `count` how many bytes it got."""
    acts = [{"do": "shell", "command": f"echo got-$({count}) >&2"}, *ACTS]
    cli = {
        "home": {".puppet.py": PUPPET, ".puppet.json": json.dumps(acts)},
        "binary": "/usr/bin/env",
        "command": [PYTHON, "{home}/.puppet.py", "cli", *words],
        **more,
    }
    return lab.puppet(name, ACTS, cli=cli)


@pytest.mark.parametrize(
    ("way", "count", "env", "got"),
    [
        # A line feed stands behind it.
        ("stdin", "wc -c", {}, SIZE + 1),
        ("file", 'wc -c < "$PROMPT"', {"PROMPT": "{prompt_file}"}, SIZE),
    ],
)
def test_a_prompt_that_no_argument_holds(lab: Lab, way: str, count: str, env: dict[str, str], got: int) -> None:
    long_prompt(lab)
    result, records = lab.sweep(launched(lab, way, count, prompt=way, env=env), surfaces=["acp", "cli"])
    assert [record.outcome for record in records] == ["passed", "passed"], [record.reason for record in records]
    cli = next(record for record in records if record.surface == "cli")
    assert f"got-{got}" in stderr(result, cli)
    assert cli.exact["files_outside"] == 0


def test_one_that_is_to_be_an_argument_is_refused_before_anything_starts(lab: Lab) -> None:
    long_prompt(lab)
    with pytest.raises(ConfigError, match=r"fixture\.yaml:1: adapter 'argv@1' cannot be started .* 'prompt: stdin'"):
        lab.sweep(launched(lab, "argv", "true", "{prompt}"), surfaces=["acp", "cli"])


KEYED: list[dict[str, Any]] = [
    {"do": "await", "method": "initialize"},
    {"do": "answer", "result": {"protocolVersion": 1, "authMethods": [{"id": "key", "name": "Key"}]}},
    {"do": "await", "method": "authenticate"},
    {"do": "sleep", "seconds": 0.3},
    {"do": "answer", "result": {}},
    {"do": "await", "method": "session/new"},
    {"do": "answer", "result": {"sessionId": "puppet-session"}},
    {"do": "prompt"},
    *ACTS,
    {"do": "end"},
]


def test_an_agent_that_wants_authenticate(lab: Lab) -> None:
    adapter = lab.puppet("keyed", KEYED, mode=["wire"], session={"authenticate": "key"})
    _, (record,) = lab.sweep(adapter)
    assert record.outcome == "passed", record.reason
    assert [phase.name for phase in record.phases][3:6] == ["initialize", "authenticate", "session_new"]
    assert record.sampled["handshake_ms"] is not None
    assert record.sampled["handshake_ms"] > 300


def test_an_agent_that_wants_it_and_is_not_given_it(lab: Lab) -> None:
    refused = [
        *KEYED[:2],
        {"do": "await", "method": "session/new"},
        {"do": "answer", "error": {"code": -32000, "message": "Authentication required"}},
    ]
    _, (record,) = lab.sweep(lab.puppet("keyless", refused, mode=["wire"]), expect="agent-error")
    assert record.outcome == "agent-error"
    assert "offers 'key': name one in the adapter's file, 'session: { authenticate: <id> }'" in record.reason
