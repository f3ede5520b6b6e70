from __future__ import annotations

import json
import tracemalloc
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.config.adapter import Adapter, CliParser
from runner.errors import UsageError
from runner.records.findings import KEPT
from runner.surfaces.cli.parsers import CliResult, CliUsage, Lines, kinds_of, parse

INIT = {
    "type": "system",
    "subtype": "init",
    "cwd": "/workspace/semver",
    "session_id": "23d94e8e",
    "tools": ["Task", "Bash", "Edit", "Read"],
    "mcp_servers": [],
    "model": "a-model[1m]",
    "permissionMode": "bypassPermissions",
    "slash_commands": ["init", "review"],
    "claude_code_version": "2.1.220",
}
#: As it came from the real program, less what nobody reads.
RESULT = {
    "is_error": False,
    "duration_api_ms": 200,
    "num_turns": 5,
    "stop_reason": "end_turn",
    "usage": {
        "input_tokens": 5010,
        "cache_creation_input_tokens": 50,
        "cache_read_input_tokens": 100,
        "output_tokens": 250,
        "server_tool_use": {"web_search_requests": 0},
    },
    "permission_denials": [],
    "subtype": "success",
    "result": "All tests pass.",
    "type": "result",
    "duration_ms": 314,
}


def assistant(*blocks: dict[str, Any], parent: str | None = None) -> dict[str, Any]:
    message = {"id": "msg_0", "type": "message", "role": "assistant", "content": list(blocks), "stop_reason": None}
    return {"type": "assistant", "message": message, "parent_tool_use_id": parent}


def use(identity: str, name: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": identity, "name": name, "input": {}}


def outcome(identity: str, **fields: Any) -> dict[str, Any]:
    block = {"tool_use_id": identity, "type": "tool_result", "content": "out", **fields}
    return {"type": "user", "message": {"role": "user", "content": [block]}, "parent_tool_use_id": None}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def lines(*bodies: dict[str, Any] | bytes) -> Lines:
    """Output lines, one a millisecond."""
    encoded = [body if isinstance(body, bytes) else json.dumps(body).encode() + b"\n" for body in bodies]
    return [(number * 1_000_000, line) for number, line in enumerate(encoded)]


def parsed(*bodies: dict[str, Any] | bytes) -> CliResult:
    return parse("claude-stream-json", lines(*bodies))


def test_a_run_as_the_real_program_prints_it() -> None:
    result = parsed(
        INIT,
        assistant(text("Looking.")),
        assistant(use("toolu_1", "Read")),
        outcome("toolu_1"),
        assistant(use("toolu_2", "Bash")),
        outcome("toolu_2", is_error=True),
        RESULT,
    )
    assert result.result_ns == 6_000_000
    assert (result.duration_ms, result.duration_api_ms, result.turns) == (314.0, 200.0, 5)
    assert result.usage == CliUsage(input=5010, output=250, cached_read=100, cached_write=50)
    assert result.usage.total == 5410
    assert (result.stop, result.subtype, result.is_error, result.text) == (
        "end_turn",
        "success",
        False,
        "All tests pass.",
    )
    assert (result.version, result.model, result.permission_mode) == ("2.1.220", "a-model[1m]", "bypassPermissions")
    assert result.tools == ("Task", "Bash", "Edit", "Read")
    assert result.tool_calls is not None
    assert [(c.id, c.name, c.kind, c.t_ns, c.failed) for c in result.tool_calls.values()] == [
        ("toolu_1", "Read", "read", 2_000_000, False),
        ("toolu_2", "Bash", "execute", 4_000_000, True),
    ]
    assert result.findings == []


def test_denied_calls_are_named() -> None:
    denial = {"tool_name": "Edit", "tool_use_id": "toolu_2", "tool_input": {}}
    result = parsed(INIT, RESULT | {"permission_denials": [denial, "odd", {}]})
    assert result.denied == ("toolu_2",)


def test_an_error_result() -> None:
    result = parsed(INIT, RESULT | {"is_error": True, "subtype": "error_max_turns", "stop_reason": None, "usage": None})
    assert (result.is_error, result.subtype, result.stop, result.usage) == (True, "error_max_turns", None, None)


def test_no_result_line() -> None:
    result = parsed(INIT, assistant(text("a"), text("b")))
    assert (result.result_ns, result.duration_ms, result.turns, result.usage) == (None, None, None, None)
    assert result.text == "a\nb"
    assert [finding.id for finding in result.findings] == ["no-result"]


def test_a_second_result_counts_and_is_said() -> None:
    result = parsed(INIT, RESULT, RESULT | {"result": "again"})
    assert (result.text, result.result_ns) == ("again", 2_000_000)
    assert [finding.id for finding in result.findings] == ["extra-result"]


@pytest.mark.parametrize("line", [b"debug: hello\n", b"[1]\n", b"\xff\n", b'{"type":\n', b"[" * 100_000])
def test_what_is_no_json_object_is_a_finding(line: bytes) -> None:
    result = parsed(line, INIT, RESULT)
    assert [finding.id for finding in result.findings] == ["not-json"]
    assert "line 1 " in result.findings[0].message
    assert result.turns == 5


def test_a_message_shows_no_control_characters() -> None:
    (finding,) = parsed(b"\x1b[2Jhello\n", RESULT).findings
    assert "\x1b" not in finding.message


def test_blank_lines_and_unknown_types_are_passed_over() -> None:
    result = parsed(INIT, b"\n", {"type": "rate_limit_event"}, {"type": "stream_event"}, {}, RESULT)
    assert (result.findings, result.turns) == ([], 5)


def test_a_repeated_call_is_one_and_a_sub_agents_call_knows_its_parent() -> None:
    result = parsed(
        assistant(use("toolu_1", "Task")),
        assistant(use("toolu_1", "Task")),
        assistant(use("toolu_2", "Grep"), parent="toolu_1"),
        RESULT,
    )
    assert result.tool_calls is not None
    assert [(c.id, c.kind, c.parent) for c in result.tool_calls.values()] == [
        ("toolu_1", "think", None),
        ("toolu_2", "search", "toolu_1"),
    ]


@pytest.mark.parametrize(
    ("tool", "kind"), [("Write", "edit"), ("WebFetch", "fetch"), ("mcp__x__y", "other"), ("", "other")]
)
def test_kinds(tool: str, kind: str) -> None:
    calls = parsed(assistant(use("a", tool)), RESULT).tool_calls
    assert calls is not None
    assert calls["a"].kind == kind


def test_a_result_of_an_unknown_call_changes_nothing() -> None:
    assert parsed(outcome("toolu_9"), RESULT).tool_calls == {}


@pytest.mark.parametrize("value", [None, True, "314", [], {}])
def test_a_figure_of_the_wrong_type_is_no_figure(value: Any) -> None:
    result = parsed(RESULT | {"duration_ms": value, "num_turns": value, "usage": {"input_tokens": value}})
    assert (result.duration_ms, result.turns, result.usage) == (None, None, None)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
KEYS = ["type", "subtype", "message", "content", "tool_use_id", "id", "usage", "permission_denials", "tools", "result"]
objects = st.dictionaries(
    st.sampled_from(KEYS), json_values | st.sampled_from(["assistant", "user", "result", "system", "init", "tool_use"])
)
nested = objects.map(lambda inner: inner | {"message": {"content": [inner]}})


@given(st.lists(objects | nested, max_size=4))
def test_never_raises_for_what_a_line_holds(bodies: list[dict[str, Any]]) -> None:
    assert parsed(*bodies).parser == "claude-stream-json"


@pytest.mark.parametrize("name", ["generic", "claude-stream-json"])
@given(st.lists(st.binary(max_size=30), max_size=4))
def test_never_raises_for_any_bytes(name: str, raw: list[bytes]) -> None:
    assert parse(name, [(0, line) for line in raw]).parser == name


def test_generic_is_complete_with_its_last_words() -> None:
    result = parse("generic", [(1, b"Fixed.\n"), (2, "All tests pass \u2713\n".encode()), (3, b"\n")])
    assert (result.result_ns, result.text) == (2, "Fixed.\nAll tests pass \u2713")
    assert (result.tool_calls, result.usage, result.duration_ms, result.turns) == (None, None, None, None)


def test_generic_that_said_nothing() -> None:
    assert parse("generic", [(3, b"\n")]).result_ns is None


def test_a_parser_that_does_not_exist() -> None:
    with pytest.raises(UsageError, match=r"nonsense.*claude-stream-json, cline-json, codex-json, gemini-stream-json"):
        parse("nonsense", [])


def test_every_name_that_a_configuration_may_use_has_a_parser() -> None:
    for name in get_args(CliParser):
        assert parse(name, []).parser == name


def test_a_tool_that_the_format_does_not_know_has_the_kind_of_the_adapters_tool_map() -> None:
    adapter = Adapter.model_validate(
        {
            "id": "one@1",
            "title": "one",
            "image": "one",
            "dialect": "openai-chat",
            "packages": [{"registry": "npm", "name": "one", "version": "1"}],
            "programs": [{"name": "one", "command": ["one"], "expect": "1"}],
            "tools": {"list": [{"tool": "shell"}], "run": [{"tool": "shell"}], "read": [{"tool": "look"}]},
        }
    )
    kinds = kinds_of(adapter)
    assert kinds == {"look": "read", "shell": "execute"}
    result = parse("claude-stream-json", lines(assistant(use("1", "look"), use("2", "Bash"), use("3", "odd"))), kinds)
    assert [call.kind for call in (result.tool_calls or {}).values()] == ["read", "execute", "other"]


@pytest.mark.parametrize("number", ["1e999", "-Infinity", "NaN", "1" + "0" * 400])
def test_a_duration_that_is_no_number_is_none(number: str) -> None:
    line = f'{{"type": "result", "duration_ms": {number}, "num_turns": 1}}'.encode()
    assert parse("claude-stream-json", [(1, line)], {}).duration_ms is None


def flood(line: bytes, times: int) -> Lines:
    """Lines that are made as they are read: a parser that kept them would hold them all."""
    return ((number, line) for number in range(times))


@pytest.mark.parametrize("parser", [name for name in get_args(CliParser) if name != "generic"])
@pytest.mark.parametrize("junk", [b"{},", b"junk", b"[1]", b"\xff"])
def test_any_number_of_junk_lines_is_a_few_findings_and_their_count(parser: str, junk: bytes) -> None:
    result = parse(parser, flood(junk, 30_000))
    assert result.findings.counts["not-json"] == 30_000
    assert len([one for one in result.findings if one.id == "not-json"]) == KEPT


def test_plain_text_without_an_end_is_kept_up_to_a_bound() -> None:
    result = parse("generic", flood(b"x" * 999, 5000))
    assert 999_000 < len(result.text) <= 1_000_000
    assert result.result_ns == 4999


@pytest.mark.parametrize(
    "line",
    [
        b"[" + b"{}," * 5_000_000 + b"{}]",
        b'{"a":[' + b"{}," * 5_000_000 + b"{}]}",
        b'{"a":"' + b"x" * 40_000_000 + b'"}',
    ],
    ids=["array", "object", "text"],
)
@pytest.mark.parametrize("parser", ["claude-stream-json", "gemini-stream-json"])
def test_one_huge_line_is_a_finding_and_not_read(parser: str, line: bytes) -> None:
    result = parse(parser, [(1, line), *lines(RESULT)])
    assert result.findings.counts["message-too-large"] == 1


def test_any_number_of_calls_is_bounded_and_said_once() -> None:
    many = (
        (number, json.dumps(assistant(use(f"call{number}", f"tool{number}"), use("i" * 5000, "long"))).encode())
        for number in range(20_050)
    )
    result = parse("claude-stream-json", many)
    assert result.tool_calls is not None
    assert len(result.tool_calls) == 20_000
    assert result.findings.counts["tool-call-limit"] == 1


def test_what_is_held_of_a_result_is_bounded() -> None:
    huge = {**RESULT, "result": "x" * 5_000_000, "permission_denials": [{"tool_use_id": str(n)} for n in range(50_000)]}
    result = parse("claude-stream-json", lines(huge))
    assert len(result.text) == 100_000
    assert len(result.denied) == 1000
    assert result.usage is not None


@pytest.mark.parametrize("name", ["generic", "claude-stream-json", "gemini-stream-json"])
def test_one_large_line_is_held_at_a_time(name: str) -> None:
    size = 40_000_000
    lines = ((number, b"x" * size) for number in range(3))
    tracemalloc.start()
    try:
        parse(name, lines)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.7 * size


def test_plain_text_of_wide_characters_is_kept_up_to_its_bound() -> None:
    text = "\U0001f600" * 1_200_000
    assert parse("generic", [(1, text.encode())]).text == text[:1_000_000]
