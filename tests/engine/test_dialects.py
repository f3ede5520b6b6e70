"""The four model APIs over real HTTP: the same program means the same in each of them."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from runner.gateway.container import Gateway
from runner.gateway.journal import script_problems
from tests.bench.bench_gateway import measure
from tests.engine.gateway_harness import Caller, Register, Turn, ledger, program, side_rule
from tests.engine.speakers import SPEAKERS, Answer, Responses, Speaker

pytestmark = pytest.mark.engine

every = pytest.mark.parametrize("speaker", SPEAKERS, ids=lambda one: one.dialect)
both = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])

#: The dialect's words for (a tool is called, the turn's end, cut short, refused).
STOPS = {
    "anthropic": ("tool_use", "end_turn", "max_tokens", "refusal"),
    "openai-chat": ("tool_calls", "stop", "length", "content_filter"),
    "openai-responses": ("completed", "completed", "max_output_tokens", "content_filter"),
    "gemini": ("STOP", "STOP", "MAX_TOKENS", "SAFETY"),
}


def rich(dialect: str) -> dict[str, Any]:
    """Three answers: thinking, text and two calls in one; a call; text."""
    made = program(3, dialect=dialect)
    made["steps"][0] |= {
        "think": "hm, well",
        "calls": [
            *made["steps"][0]["calls"],
            {"meaning": "read", "alternatives": [{"tool": "Read", "arguments": {"a": [1, "é\n"]}}]},
        ],
        "usage": {"input": 1000, "output": 60, "cache_read": 300, "cache_write": 20, "reasoning": 7},
    }
    return made


@every
@both
def test_one_program_means_the_same_in_every_dialect(
    gateway: Gateway, call: Caller, run: Register, speaker: Speaker, stream: bool
) -> None:
    given = rich(speaker.dialect)
    turn = Turn(call, run(given), speaker, stream)
    first, second, last = (turn.ask() for _ in range(3))
    called, ended, _, _ = STOPS[speaker.dialect]
    assert (first.text, first.thought, first.stop) == ("step 0", "hm, well", called)
    assert [(tool, arguments) for _, tool, arguments in first.calls] == [
        ("Bash", {"command": "echo 0 é"}), ("Read", {"a": [1, "é\n"]}),
    ]  # fmt: skip
    ids = [number for number, _, _ in first.calls + second.calls]
    assert [number.removeprefix(ids[0][:-8]) for number in ids] == ["p1s000x0", "p1s000x1", "p1s001x0"]
    assert (second.text, second.thought) == ("", "")
    assert (last.text, last.calls, last.stop) == ("done", [], ended)
    entries = ledger(gateway, turn.token).entries
    assert [(entry.kind, entry.step, entry.stream, entry.tools) for entry in entries] == [
        ("main", step, stream, ["Read", "Bash"]) for step in range(3)
    ]
    assert script_problems(entries, given) == []
    assert [entry.usage.total for entry in entries if entry.usage] == [1380, 1012, 2020]


@every
@both
def test_usage_is_what_the_script_says_in_the_dialects_own_counting(
    gateway: Gateway, call: Caller, run: Register, speaker: Speaker, stream: bool
) -> None:
    turn = Turn(call, run(rich(speaker.dialect)), speaker, stream)
    usage = turn.ask().usage
    expected: dict[str, dict[str, Any]] = {
        "anthropic": {
            "input_tokens": 1000, "output_tokens": 60,
            "cache_read_input_tokens": 300, "cache_creation_input_tokens": 20,
        },
        "openai-chat": {
            "prompt_tokens": 1320, "completion_tokens": 60, "total_tokens": 1380,
            "prompt_tokens_details": {"cached_tokens": 300}, "completion_tokens_details": {"reasoning_tokens": 7},
        },
        "openai-responses": {
            "input_tokens": 1320, "output_tokens": 60, "total_tokens": 1380,
            "input_tokens_details": {"cached_tokens": 300}, "output_tokens_details": {"reasoning_tokens": 7},
        },
        "gemini": {
            "promptTokenCount": 1320, "candidatesTokenCount": 53, "totalTokenCount": 1380,
            "cachedContentTokenCount": 300, "thoughtsTokenCount": 7,
        },
    }  # fmt: skip
    assert usage == expected[speaker.dialect]
    ledger(gateway, turn.token)


@every
@both
@pytest.mark.parametrize("stop", ["max_tokens", "refusal"])
def test_an_answer_may_end_otherwise(
    gateway: Gateway, call: Caller, run: Register, speaker: Speaker, stream: bool, stop: str
) -> None:
    given = program(1, dialect=speaker.dialect)
    given["steps"][0]["finish"] = stop
    turn = Turn(call, run(given), speaker, stream)
    answer = turn.ask(tools=())
    assert (answer.text, answer.stop) == ("done", STOPS[speaker.dialect][2 if stop == "max_tokens" else 3])
    ledger(gateway, turn.token)


@every
@both
def test_a_retry_gets_the_same_bytes_in_every_dialect(
    gateway: Gateway, call: Caller, run: Register, speaker: Speaker, stream: bool
) -> None:
    turn = Turn(call, run(rich(speaker.dialect)), speaker, stream)
    for _ in range(3):
        answers = {turn.raw() for _ in range(3)}
        assert len(answers) == 1
        turn.ask()
    assert [entry.step for entry in ledger(gateway, turn.token).entries] == [0] * 4 + [1] * 4 + [2] * 4


@both
def test_a_freeform_tool_is_called_with_text(gateway: Gateway, call: Caller, run: Register, stream: bool) -> None:
    given = program(2, dialect="openai-responses")
    body = "*** Begin Patch\n*** Update File: a\n@@\n-é\n+{}\n*** End Patch"
    given["steps"][0]["calls"] = [
        {"meaning": "edit", "alternatives": [
            # For a model whose patch tool takes JSON, and for one that has it freeform.
            {"tool": "patch", "arguments": {"input": body}},
            {"tool": "patch", "arguments": body},
        ]},
        {"meaning": "run", "alternatives": [{"tool": "Bash", "arguments": {"command": "ls"}}]},
    ]  # fmt: skip
    turn = Turn(call, run(given), Responses(), stream)
    answer = turn.ask(tools=("Bash", "patch"))
    assert answer.calls == [
        ("call_acpbench_p1s000x0", "patch", body), ("call_acpbench_p1s000x1", "Bash", {"command": "ls"}),
    ]  # fmt: skip
    if stream:
        kinds = [event["type"] for event in answer.events if "custom_tool_call" in event["type"]]
        assert set(kinds) == {"response.custom_tool_call_input.delta", "response.custom_tool_call_input.done"}
        pieces = [event["delta"] for event in answer.events if event["type"] == kinds[0]]
        assert "".join(pieces) == body
        done = next(event for event in answer.events if event["type"] == "response.custom_tool_call_input.done")
        assert done["input"] == body
        assert "arguments" not in done
    assert turn.ask(tools=("Bash", "patch")).text == "done"
    # the same name as a function takes JSON
    turn.history.clear()
    plain = type("Plain", (Responses,), {"freeform": ()})()
    turn.speaker = plain
    assert turn.ask(tools=("Bash", "patch")).calls[0][2] == {"input": body}
    entries = ledger(gateway, turn.token).entries
    assert [one.freeform for one in entries[0].calls] == [True, False]
    assert entries[0].calls[0].arguments == body


@every
def test_a_miss_is_an_error_of_the_dialect_that_no_client_retries(
    gateway: Gateway, call: Caller, run: Register, speaker: Speaker
) -> None:
    turn = Turn(call, run(program(2, dialect=speaker.dialect)), speaker)
    status, text = turn.raw(tools=(), prompt="Summarise this conversation\nin one word")
    error = json.loads(text)["error"]
    assert status == 400
    assert error["message"].startswith(
        'SCRIPT MISS: a request without tools that no side rule knows: "Summarise this conversation\\nin one word"'
    )
    assert "invalid_request_error" in text or error["status"] == "INVALID_ARGUMENT"
    status, text = turn.raw(tools=("bash",))
    assert (status, "none of mcp__other__Bash, Bash (nearest: offered: bash)" in text) == (400, True)
    assert [entry.kind for entry in ledger(gateway, turn.token).entries] == ["miss", "miss"]


@every
def test_what_clients_ask_beside_answers(gateway: Gateway, call: Caller, run: Register, speaker: Speaker) -> None:
    token = run(program(2, dialect=speaker.dialect))
    expectations: dict[str, list[tuple[str, str, Any]]] = {
        "anthropic": [("POST", "/v1/messages/count_tokens", {"input_tokens": 1000}), ("GET", "/v1/models", None)],
        "openai-chat": [("GET", "/v1/models", None), ("GET", "/models", None)],
        "openai-responses": [
            ("POST", "/v1/responses/input_tokens", {"object": "response.input_tokens", "input_tokens": 1000}),
            ("GET", "/v1/models", None),
        ],
        "gemini": [
            ("POST", "/v1beta/models/a-model:countTokens", {"totalTokens": 1000}), ("GET", "/v1beta/models", None),
        ],
    }  # fmt: skip
    for method, path, expected in expectations[speaker.dialect]:
        status, text = call(method, f"/r/{token}{path}", {})
        assert status == 200, path
        if expected is not None:
            assert json.loads(text) == expected
        else:
            assert "acpbench-scripted" in text
            one = json.loads(call("GET", f"/r/{token}{path}/some-model")[1])
            assert one.get("id", one.get("name")) in ("some-model", "models/some-model")
            assert call("HEAD", f"/r/{token}{path}")[0] == (
                404 if speaker.dialect == "anthropic" or path == "/models" else 200
            )
    assert call("HEAD", f"/r/{token}/")[0] == 200
    rules = [entry.rule for entry in ledger(gateway, token).entries if entry.kind == "side"]
    assert set(rules) <= {"count-tokens", "models", "probe"}


@every
def test_a_rule_knows_a_request_by_its_looks(gateway: Gateway, call: Caller, run: Register, speaker: Speaker) -> None:
    rules = [
        side_rule(name="schema", schema_properties=["score"], say_json={"score": 0}),
        side_rule(name="stop", stop_sequence="</severity>", say="<severity>0"),
        side_rule(
            name="classifier", tools=["respond"], max_tools=1, call={"tool": "respond", "arguments": {"ok": True}}
        ),
    ]
    turn = Turn(call, run(program(2, dialect=speaker.dialect, side_requests=rules)), speaker, stream=False)
    schema = {"type": "object", "properties": {"score": {"type": "number"}, "why": {"type": "string"}}}
    shapes: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
        "anthropic": (
            {"output_config": {"format": {"type": "json_schema", "schema": schema}}},
            {"stop_sequences": ["</severity>"]},
        ),
        "openai-chat": (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}},
            {"stop": "</severity>"},
        ),
        "openai-responses": ({"text": {"format": {"type": "json_schema", "name": "x", "schema": schema}}}, None),
        "gemini": (
            {"generationConfig": {"responseJsonSchema": schema}},
            {"generationConfig": {"stopSequences": ["</severity>"]}},
        ),
    }  # fmt: skip

    def ask(more: dict[str, Any]) -> Answer:
        body = speaker.ask([], prompt="judge", stream=False, tools=()) | more
        status, text = call("POST", f"/r/{turn.token}{speaker.path(False)}", body)
        assert status == 200, text
        return speaker.read(text, False)

    with_schema, with_stop = shapes[speaker.dialect]
    assert json.loads(ask(with_schema).text) == {"score": 0}
    if with_stop is not None:
        assert ask(with_stop).text == "<severity>0"
    assert [one[1:] for one in turn.ask(tools=("respond",)).calls] == [("respond", {"ok": True})]
    turn.history.clear()
    assert turn.ask(tools=("respond", "Bash", "Read")).calls[0][1] == "Bash"
    found = [entry.rule for entry in ledger(gateway, turn.token).entries]
    assert found == ["schema", *(["stop"] if with_stop is not None else []), "classifier", None]


def test_a_hundred_streams_at_once_all_come_whole() -> None:
    found = measure({"ttft_ms": 50.0, "tokens_per_s": None}, 0, 100)["crowd"]
    assert (found["whole"], len(found["ms"])) == (100, 100)


def test_parallel_runs_in_all_dialects_never_mix_and_shuffled_retries_change_nothing(
    gateway: Gateway, call: Caller, run: Register
) -> None:
    def play(number: int) -> tuple[str, list[int], int]:
        speaker = SPEAKERS[number % len(SPEAKERS)]
        length = 2 + number % 4
        turn = Turn(call, run(program(length, dialect=speaker.dialect)), speaker, stream=number % 3 > 0)
        dice = random.Random(number)
        asked: list[int] = []
        for step in range(length):
            # An answer that was lost on its way is asked for again, later ones never first.
            for _ in range(dice.randrange(3)):
                turn.raw(prompt=f"run {number}")
                asked.append(step)
            answer = turn.ask(prompt=f"run {number}")
            asked.append(step)
            assert [one[2]["command"] for one in answer.calls] == ([f"echo {step} é"] if step < length - 1 else [])
        return turn.token, asked, number

    with ThreadPoolExecutor(6) as pool:
        played = list(pool.map(play, range(12)))
    for token, asked, number in played:
        entries = ledger(gateway, token).entries
        assert [entry.step for entry in entries] == asked
        assert all(f"run {number}" in entry.request.text for entry in entries)
