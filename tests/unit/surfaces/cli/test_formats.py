"""Each format as the real program printed it, cut to what is read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.surfaces.cli.parsers import CliResult, CliUsage, parse

FORMATS = ("gemini-stream-json", "codex-json", "opencode-json", "vibe-streaming", "cline-json")
KINDS = {"run_shell_command": "execute", "replace": "edit", "bash": "execute", "run_commands": "execute"}

GEMINI: list[dict[str, Any]] = [
    {"type": "init", "session_id": "71861985", "model": "auto"},
    {"type": "message", "role": "user", "content": "Fix it."},
    {"type": "message", "role": "assistant", "content": "I'll look at the ", "delta": True},
    {"type": "message", "role": "assistant", "content": "tests.", "delta": True},
    {"type": "tool_use", "tool_name": "run_shell_command", "tool_id": "a", "parameters": {"command": "node --test"}},
    {"type": "tool_result", "tool_id": "a", "status": "success", "output": ""},
    {"type": "tool_use", "tool_name": "replace", "tool_id": "b", "parameters": {}},
    {"type": "tool_result", "tool_id": "b", "status": "error", "output": "no such text"},
    {
        "type": "result",
        "status": "success",
        "stats": {
            "total_tokens": 301516,
            "duration_ms": 5440,
            "models": {
                "small": {"total_tokens": 110, "input_tokens": 100, "output_tokens": 10, "cached": 0, "input": 100},
                "big": {"total_tokens": 1566, "input_tokens": 1500, "output_tokens": 66, "cached": 500, "input": 1000},
            },
        },
    },
]
COMMAND = {"id": "item_1", "type": "command_execution", "command": "node --test"}
CHANGE = {"id": "item_2", "type": "file_change", "changes": [{"path": "a.js", "kind": "update"}]}
CODEX: list[dict[str, Any]] = [
    {"type": "thread.started", "thread_id": "01a22cce"},
    {"type": "turn.started"},
    {"type": "item.completed", "item": {"id": "item_0", "type": "agent_message", "text": "I'll look."}},
    {"type": "item.started", "item": {**COMMAND, "exit_code": None, "status": "in_progress"}},
    {"type": "item.completed", "item": {**COMMAND, "exit_code": 1, "status": "failed"}},
    {"type": "item.started", "item": {**CHANGE, "status": "in_progress"}},
    {"type": "item.completed", "item": {**CHANGE, "status": "completed"}},
    {"type": "turn.completed", "usage": {"input_tokens": 1500, "cached_input_tokens": 500, "output_tokens": 66}},
]
OPENCODE: list[dict[str, Any]] = [
    {"type": "step_start", "part": {"type": "step-start"}},
    {"type": "text", "part": {"type": "text", "text": "I'll look."}},
    {"type": "tool_use", "part": {"tool": "bash", "callID": "a", "state": {"status": "completed"}}},
    {
        "type": "step_finish",
        "part": {"reason": "tool-calls", "tokens": {"input": 600, "output": 6, "cache": {"read": 500, "write": 0}}},
    },
    {"type": "tool_use", "part": {"tool": "webfetch", "callID": "b", "state": {"status": "error"}}},
    {
        "type": "step_finish",
        "part": {"reason": "stop", "tokens": {"input": 400, "output": 60, "cache": {"read": 0, "write": 0}}},
    },
]
VIBE: list[dict[str, Any]] = [
    {"type": "message", "role": "user", "content": [{"type": "text", "text": "Fix it."}]},
    {
        "type": "effect",
        "id": "a",
        "detail": {"toolName": "file_system.bash", "kind": "shell"},
        "state": {"status": "completed", "decision": "execute"},
    },
    {
        "type": "effect",
        "id": "b",
        "detail": {"toolName": "file_system.search_replace", "kind": "file_edit"},
        "state": {"status": "failed", "decision": "skip"},
    },
    {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Done."}]},
]
CLINE: list[dict[str, Any]] = [
    {"type": "hook_event", "hookEventName": "agent_start"},
    {"type": "agent_event", "event": {"type": "content_start", "contentType": "text", "text": "I'll "}},
    {"type": "agent_event", "event": {"type": "content_end", "contentType": "text", "text": "I'll look."}},
    {
        "type": "agent_event",
        "event": {"type": "content_start", "contentType": "tool", "toolName": "run_commands", "toolCallId": "a"},
    },
    {
        "type": "agent_event",
        "event": {
            "type": "content_end",
            "contentType": "tool",
            "toolName": "run_commands",
            "toolCallId": "a",
            "output": [{"query": "node --test", "result": "1 failed", "success": False}],
        },
    },
    {
        "type": "run_result",
        "finishReason": "completed",
        "iterations": 11,
        "usage": {"inputTokens": 1000, "outputTokens": 66, "cacheReadTokens": 500, "cacheWriteTokens": 0},
        "durationMs": 7254,
        "text": "Done.",
        "model": {"id": "scripted", "provider": "p"},
    },
]


def read(name: str, lines: list[dict[str, Any]]) -> CliResult:
    """Line n came at n seconds."""
    return parse(name, [(n * 10**9, json.dumps(line).encode() + b"\n") for n, line in enumerate(lines, 1)], KINDS)


def calls(result: CliResult) -> list[tuple[str, str, bool | None]]:
    return [(call.id, call.kind, call.failed) for call in (result.tool_calls or {}).values()]


def test_gemini() -> None:
    result = read("gemini-stream-json", GEMINI)
    assert calls(result) == [("a", "execute", False), ("b", "edit", True)]
    # Of the model that did the work: the total would count the side requests' model too.
    assert result.usage == CliUsage(1000, 66, 500)
    assert (result.result_ns, result.duration_ms, result.subtype) == (9 * 10**9, 5440.0, "success")
    assert (result.text, result.model, result.is_error, result.findings) == (
        "I'll look at the tests.",
        "auto",
        False,
        [],
    )


def test_codex() -> None:
    result = read("codex-json", CODEX)
    assert calls(result) == [("item_1", "execute", True), ("item_2", "edit", False)]
    assert result.usage == CliUsage(1000, 66, 500)
    assert (result.result_ns, result.duration_ms) == (8 * 10**9, None)
    assert (result.subtype, result.is_error, result.text) == ("turn.completed", False, "I'll look.")
    failed = read("codex-json", [*CODEX[:-1], {"type": "turn.failed", "error": {"message": "no"}}])
    assert (failed.subtype, failed.is_error, failed.usage) == ("turn.failed", True, None)


def test_opencode() -> None:
    result = read("opencode-json", OPENCODE)
    assert calls(result) == [("a", "execute", False), ("b", "other", True)]
    assert result.usage == CliUsage(1000, 66, 500)
    assert (result.result_ns, result.turns, result.stop) == (6 * 10**9, 2, "stop")
    # It ended in the middle: the last step wanted tools.
    assert read("opencode-json", OPENCODE[:4]).findings[0].id == "no-result"


def test_vibe() -> None:
    result = read("vibe-streaming", VIBE)
    assert calls(result) == [("a", "execute", False), ("b", "edit", True)]
    assert (result.denied, result.usage, result.text, result.result_ns) == (("b",), None, "Done.", 4 * 10**9)


def test_cline() -> None:
    result = read("cline-json", CLINE)
    assert calls(result) == [("a", "execute", True)]
    assert result.usage == CliUsage(1000, 66, 500)
    assert (result.turns, result.duration_ms, result.subtype, result.model) == (11, 7254.0, "completed", "scripted")
    assert read("cline-json", [*CLINE[:-1], {**CLINE[-1], "finishReason": "error"}]).is_error


@pytest.mark.parametrize("name", FORMATS)
def test_output_that_ended_early_is_a_finding(name: str) -> None:
    result = read(name, [])
    assert (result.result_ns, result.usage, [finding.id for finding in result.findings]) == (None, None, ["no-result"])


@pytest.mark.parametrize("name", FORMATS)
def test_a_line_that_is_no_object_is_a_finding(name: str) -> None:
    result = parse(name, [(1, b"Warning: 256 colours\n"), (2, b"\n"), (3, b"[1]\n")], KINDS)
    assert [finding.id for finding in result.findings] == ["not-json", "not-json", "no-result"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("name", "lines"), list(zip(FORMATS, (GEMINI, CODEX, OPENCODE, VIBE, CLINE), strict=True)), ids=FORMATS
)
@given(data=st.data())
def test_no_value_breaks_a_parser(name: str, lines: list[dict[str, Any]], data: st.DataObject) -> None:
    """Any value may stand in place of any other one."""

    def doctored(value: Any) -> Any:
        if data.draw(st.booleans()):
            return data.draw(JSON)
        if isinstance(value, dict):
            return {key: doctored(inner) if key != "type" else inner for key, inner in value.items()}
        return [doctored(inner) for inner in value] if isinstance(value, list) else value

    line = data.draw(st.sampled_from(lines))
    changed = {key: doctored(value) if key != "type" else value for key, value in line.items()}
    assert read(name, [*lines, changed]).parser == name


def doctored(lines: list[dict[str, Any]], *path: str, value: Any) -> list[dict[str, Any]]:
    """The lines with `value` at `path` of the last one that has it."""
    copy = json.loads(json.dumps(lines))
    for line in reversed(copy):
        place = line
        for name in path[:-1]:
            place = place.get(name) if isinstance(place.get(name), dict) else {}
        if path[-1] in place:
            place[path[-1]] = value
            return list(copy)
    raise AssertionError(path)


OPENCODE_TOKENS = ("part", "tokens", "output")
NUMBERS: list[tuple[str, list[dict[str, Any]], tuple[str, ...], str]] = [
    ("gemini-stream-json", GEMINI, ("stats", "duration_ms"), "stats.duration_ms"),
    ("codex-json", CODEX, ("usage", "input_tokens"), "usage.input_tokens"),
    ("codex-json", CODEX, ("usage", "cached_input_tokens"), "usage.cached_input_tokens"),
    ("opencode-json", OPENCODE, OPENCODE_TOKENS, "tokens.output"),
    ("cline-json", CLINE, ("durationMs",), "durationMs"),
    ("cline-json", CLINE, ("usage", "inputTokens"), "usage.inputTokens"),
    ("cline-json", CLINE, ("iterations",), "iterations"),
]


@pytest.mark.parametrize("value", [-1, 2**63, 10**4299, 1e999, True, "7"])
@pytest.mark.parametrize(("parser", "lines", "path", "field"), NUMBERS)
def test_a_bad_number_is_a_finding_and_no_figure(
    parser: str, lines: list[dict[str, Any]], path: tuple[str, ...], field: str, value: Any
) -> None:
    result = read(parser, doctored(lines, *path, value=value))
    assert [(one.id, one.message.partition(": ")[0]) for one in result.findings] == [("bad-number", field)]
    figures = {"duration": result.duration_ms, "turns": result.turns, "usage": result.usage}
    name = "duration" if "duration" in field else "turns" if field == "iterations" else "usage"
    assert figures[name] is None


def test_more_from_the_cache_than_came_in_is_no_negative_input() -> None:
    result = read("codex-json", doctored(CODEX, "usage", "cached_input_tokens", value=10**6))
    assert result.usage is None
    assert [one.id for one in result.findings] == ["bad-number"]


def test_steps_add_up_to_no_more_than_a_number() -> None:
    tokens = {"input": 2**53 - 1, "output": 0, "cache": {"read": 0, "write": 0}}
    step = {"type": "step_finish", "part": {"reason": "stop", "tokens": tokens}}
    assert read("opencode-json", [step]).usage == CliUsage(2**53 - 1, 0)
    result = read("opencode-json", [step] * 300)
    assert result.usage is None
    assert {one.id for one in result.findings} == {"bad-number"}
