"""Tool results are found in the requests of every dialect."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runner.evidence.results import tool_results

ANTHROPIC = {
    "messages": [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "call", "name": "Read", "input": {"path": "a"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call", "content": "found"}]},
    ]
}
CHAT = {
    "messages": [
        {"role": "assistant", "tool_calls": [{"id": "call", "type": "function", "function": {"name": "read"}}]},
        {"role": "tool", "tool_call_id": "call", "content": "found"},
    ]
}
RESPONSES = {
    "input": [
        {"type": "function_call", "call_id": "call", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call", "output": "found"},
    ]
}
GEMINI = {
    "contents": [
        {"role": "model", "parts": [{"functionCall": {"id": "call", "name": "read", "args": {}}}]},
        {
            "role": "user",
            "parts": [{"functionResponse": {"id": "call", "name": "read", "response": {"output": "found"}}}],
        },
    ]
}


@pytest.mark.parametrize("body", [ANTHROPIC, CHAT, RESPONSES, GEMINI], ids=["anthropic", "chat", "responses", "gemini"])
def test_a_result_is_found_and_its_call_is_none(body: dict[str, Any]) -> None:
    results = tool_results(json.dumps(body))
    assert list(results) == ["call"]
    assert "found" in results["call"]
    first = next(iter(body.values()))
    assert tool_results(json.dumps({"turns": first[:1]})) == {}


def test_a_custom_tool_answers_too() -> None:
    item = {"type": "custom_tool_call_output", "call_id": "call", "output": "found"}
    assert list(tool_results(json.dumps({"input": [item]}))) == ["call"]


def test_the_last_result_of_an_id_counts() -> None:
    old, new = ({"tool_call_id": "call", "content": text} for text in ("old", "new"))
    assert "new" in tool_results(json.dumps([old, new]))["call"]


@pytest.mark.parametrize("body", ["", "no JSON", "[" * 100_000, "null", "3"])
def test_what_is_no_request_has_none(body: str) -> None:
    assert tool_results(body) == {}
