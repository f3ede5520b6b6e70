"""A command line that answers first and works later, and a prompt that waits for an MCP server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runner.evidence.cost import TIMES
from tests.engine.lab import PUPPET, PYTHON, Lab, attempt, repaired, stderr

pytestmark = pytest.mark.engine

MODEL: dict[str, Any] = {"do": "model"}
REPAIR: dict[str, Any] = {"do": "write", "path": "src/semver.js", "text": repaired()}
PAUSE: dict[str, Any] = {"do": "sleep", "seconds": 0.2}
BODY = {"type": "result", "subtype": "success", "duration_ms": 5, "num_turns": 1, "usage": {"input_tokens": 1}}
RESULT: dict[str, Any] = {"do": "raw", "text": json.dumps(BODY) + "\n"}
BY_A_CHILD = (
    "cp src/semver.js .git/prepared; git checkout src; (sleep 0.2; cp .git/prepared src/semver.js) >/dev/null 2>&1 &"
)


def command_line(lab: Lab, name: str, acts: list[dict[str, Any]]) -> str:
    """A puppet whose CLI tells its result by a line of its own, wherever the acts say it."""
    cli = {
        "home": {".puppet.py": PUPPET, ".puppet.json": json.dumps(acts)},
        "binary": "/usr/bin/env",
        "command": [PYTHON, "{home}/.puppet.py", "cli"],
        "parser": "claude-stream-json",
    }
    return lab.puppet(name, [], cli=cli)


@pytest.mark.parametrize(
    ("name", "acts", "late"),
    [
        ("in-time", [MODEL, REPAIR, RESULT], False),
        ("asks-late", [RESULT, PAUSE, MODEL, REPAIR], True),
        ("repairs-late", [MODEL, RESULT, PAUSE, REPAIR], True),
        ("by-a-child", [MODEL, REPAIR, {"do": "shell", "command": BY_A_CHILD}, RESULT, PAUSE, PAUSE], True),
    ],
)
def test_a_command_line_that_works_after_its_result(
    lab: Lab, name: str, acts: list[dict[str, Any]], late: bool
) -> None:
    result, (record,) = lab.sweep(command_line(lab, name, acts), surfaces=["cli"])
    assert record.outcome == "passed", record.reason
    assert ("works-after-answer" in [finding.id for finding in record.findings]) is late
    timed = {metric for metric in TIMES if record.sampled.get(metric) is not None}
    assert timed == (set() if late else {"to_result_ms", "turn_ms", "active_ms", "model_ms", "wall_ms"})
    (arm,) = result.report.arms
    assert ("times-left-out" in [warning.id for warning in arm.warnings]) is late
    assert arm.sampled["to_result_ms"].n == (not late)


def test_a_command_line_s_numbers_are_read_as_numbers(lab: Lab) -> None:
    usage = {"input_tokens": -1, "output_tokens": 2**64, "cache_read_input_tokens": "3"}
    line = json.dumps({**BODY, "duration_ms": -1, "num_turns": 1.5, "usage": usage}) + "\n"
    adapter = command_line(lab, "numbers", [MODEL, REPAIR, {"do": "raw", "text": line}])
    _, (record,) = lab.sweep(adapter, surfaces=["cli"])
    assert record.outcome == "passed", record.reason
    told = [finding.message for finding in record.findings if finding.id == "bad-number"]
    assert [words.partition(":")[0] for words in told] == [
        "duration_ms",
        "num_turns",
        "usage.input_tokens",
        "usage.output_tokens",
        "usage.cache_read_input_tokens",
    ]
    assert (record.exact["tokens_reported"], record.sampled["turn_ms"]) == (None, None)


def connecting(*acts: dict[str, Any]) -> list[dict[str, Any]]:
    """An agent that plays `acts` when it has answered session/new, and then turns to its prompt."""
    return [
        {"do": "await", "method": "initialize"},
        {"do": "answer", "result": {"protocolVersion": 1}},
        {"do": "await", "method": "session/new"},
        {"do": "answer", "result": {"sessionId": "puppet-session"}},
        *acts,
        {"do": "prompt"},
        MODEL,
        REPAIR,
        {"do": "end"},
    ]


def waiting(lab: Lab) -> str:
    server = {"name": "tools", "command": "/usr/bin/python3", "args": ["/opt/toolbox/server.py"], "env": []}
    body = {"id": "acp-waiting", "transport": "acp", "toolbox": "mcp", "mcp_servers": [server]}
    lab.write("surfaces", {**body, "prompt_when": "mcp-connected"})
    return "acp-waiting"


def test_the_prompt_waits_until_the_server_has_listed_its_tools(lab: Lab) -> None:
    adapter = lab.puppet("connects", connecting({"do": "mcp", "after": 1.0}), mode=["wire"])
    result, (record,) = lab.sweep(adapter, surfaces=[waiting(lab)])
    assert record.outcome == "passed", (record.reason, stderr(result, record))
    assert "mcp-not-connected" not in [finding.id for finding in record.findings]
    listed = next(line for line in stderr(result, record).splitlines() if '"tools":[' in line)
    (turn,) = record.turns
    (waited,) = [phase for phase in record.phases if phase.name == "mcp_connected"]
    assert waited.end_ns - waited.start_ns > 0.9e9
    # The puppet reads what the server wrote before it said that it is ready, at about the same moment.
    assert int(listed.split()[1]) - record.clock_offset_ns < turn.sent_ns + 0.1e9
    assert record.sampled["turn_ms"] is not None
    assert record.sampled["to_result_ms"] is not None
    assert (
        record.sampled["to_result_ms"]
        < (turn.result_ns or 0) / 1e6 - (record.agent.spawn_ns if record.agent else 0) / 1e6 - 900
    )


def test_a_server_that_nobody_starts_is_a_finding_and_no_end(lab: Lab) -> None:
    adapter = lab.puppet("connects-not", connecting(), mode=["wire"])
    knobs = {"deadlines": {"mcp_connected": 0.5}}
    result, (record,) = lab.sweep(adapter, surfaces=[waiting(lab)], knobs=knobs)
    assert record.outcome == "passed", (record.reason, stderr(result, record))
    assert "mcp-not-connected" in [finding.id for finding in record.findings]


def test_whoever_says_it_in_the_server_s_name_is_only_prompted_earlier(lab: Lab) -> None:
    forge = "import socket; socket.socket(1, 2).sendto(b'READY=1', b'\\0acpbench-mcp-0')"
    acts = connecting({"do": "shell", "command": f'python3 -c "{forge}"'})
    result, (record,) = lab.sweep(lab.puppet("forges", acts, mode=["wire"]), surfaces=[waiting(lab)])
    assert record.outcome == "passed", (record.reason, stderr(result, record))
    assert "mcp-not-connected" not in [finding.id for finding in record.findings]


def test_what_was_seen_of_the_workspace_is_kept(lab: Lab) -> None:
    result, (record,) = lab.sweep(lab.puppet("seen", [MODEL, REPAIR]))
    kept = json.loads((attempt(result, record) / "fsdiff.json").read_text())["changed"]
    assert [(one["path"], one["kind"]) for one in kept["changes"]] == [("src/semver.js", "file")]
    assert kept["steady"] is True
