"""The real gateway in its container, reached as an agent reaches it: from another container, as uid 1000."""

from __future__ import annotations

import http.client
import json
import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from docker import DockerClient

from runner.errors import InfraError
from runner.gateway.container import MASK, Gateway
from runner.gateway.control import Miss
from runner.gateway.journal import script_problems, spans
from tests.engine.gateway_harness import SWEEP, Caller, Start, ledger, program, side_rule

pytestmark = pytest.mark.engine

TOOLS = ("Read", "Bash")


def question(
    calls: list[str] | None = None, *, prompt: str = "fix it", stream: bool = True, tools: tuple[str, ...] = TOOLS
) -> dict[str, Any]:
    """A request whose history holds the tool calls of ids `calls`, one answer each, reminders in between."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": prompt}]}]
    for number in calls or []:
        messages.append(
            {"role": "assistant", "content": [{"type": "tool_use", "id": number, "name": "Bash", "input": {}}]}
        )
        result = {"type": "tool_result", "tool_use_id": number, "content": "ok"}
        messages.append({"role": "user", "content": [result, {"type": "text", "text": "a note of the agent's"}]})
        messages.append({"role": "system", "content": "a system message in the middle"})
        messages.append({"role": "user", "content": "<system-reminder>be brief</system-reminder>"})
    offered = [{"name": name, "input_schema": {"type": "object"}} for name in tools]
    return {"model": "claude-x", "max_tokens": 64, "stream": stream, "messages": messages, "tools": offered}


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


def tool_calls(text: str) -> list[tuple[str, str, Any]]:
    """(id, tool, arguments) of a streamed answer."""
    found: dict[int, list[str]] = {}
    for event in events(text):
        if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
            found[event["index"]] = [event["content_block"]["id"], event["content_block"]["name"], ""]
        elif event["type"] == "content_block_delta" and event["delta"]["type"] == "input_json_delta":
            found[event["index"]][2] += event["delta"]["partial_json"]
    return [(number, tool, json.loads(arguments)) for number, tool, arguments in found.values()]


def play(call: Caller, token: str, steps: int, prompt: str = "fix it") -> list[str]:
    """Ask until the turn ends; the answers' texts."""
    history: list[str] = []
    answers = []
    for _ in range(steps):
        status, text = call("POST", f"/r/{token}/v1/messages?beta=true", question(history, prompt=prompt))
        assert status == 200, text
        answers.append(text)
        history += [number for number, _, _ in tool_calls(text)]
    return answers


def test_a_streamed_turn_serves_each_step_and_the_ledger_says_so(gateway: Gateway, call: Caller, run: Any) -> None:
    assert gateway.versions["aimock"] == "1.43.0"
    assert gateway.versions["node"] == "25.9.0"
    token = run(program())
    answers = play(call, token, 3)
    first = events(answers[0])
    assert [event["type"] for event in first[:2]] == ["message_start", "content_block_start"]
    assert first[0]["message"]["usage"] == {"input_tokens": 1000, "output_tokens": 10}
    assert first[-2]["delta"]["stop_reason"] == "tool_use"
    assert first[-2]["usage"] == {"output_tokens": 10}
    deltas = [event["delta"]["text"] for event in first if event.get("delta", {}).get("type") == "text_delta"]
    assert "".join(deltas) == "step 0"
    chunks = [event["delta"]["partial_json"] for event in first if "partial_json" in event.get("delta", {})]
    assert max(map(len, chunks)) == 8
    # the first alternative is not offered, the second one is
    assert tool_calls(answers[0]) == [("toolu_acpbench_p1s000x0", "Bash", {"command": "echo 0 é"})]
    assert events(answers[2])[-2]["delta"]["stop_reason"] == "end_turn"

    journal = ledger(gateway, token)
    assert [(entry.kind, entry.step, entry.status) for entry in journal.entries] == [("main", n, 200) for n in range(3)]
    assert script_problems(journal.entries, program()) == []
    for entry, answer in zip(journal.entries, answers, strict=True):
        assert entry.response.text == answer
        assert entry.run == MASK
        assert entry.path == "/v1/messages?beta=true"
        assert entry.tools == list(TOOLS)
        assert entry.t_request_ns <= entry.t_request_end_ns <= entry.t_first_byte_ns <= entry.t_response_end_ns
        assert abs(entry.t_response_end_ns - time.monotonic_ns()) < 60e9
        assert not entry.aborted
    assert [(one.id, one.tool, one.meaning) for one in journal.entries[1].calls] == [
        ("toolu_acpbench_p1s001x0", "Bash", "run")
    ]
    assert [json.loads(line) for line in journal.lines] == [entry.model_dump() for entry in journal.entries]
    assert len(spans(journal.entries, ("main",))) == 3


def test_without_streaming_the_answer_is_one_message(gateway: Gateway, call: Caller, run: Any) -> None:
    token = run(program())
    status, text = call("POST", f"/r/{token}/v1/messages", question(stream=False))
    message = json.loads(text)
    assert status == 200
    assert message["usage"] == {"input_tokens": 1000, "output_tokens": 10}
    assert message["stop_reason"] == "tool_use"
    assert [block["type"] for block in message["content"]] == ["text", "tool_use"]
    assert message["content"][1]["id"] == "toolu_acpbench_p1s000x0"
    assert ledger(gateway, token).entries[0].stream is False


def test_thinking_and_parallel_calls_come_in_one_answer(gateway: Gateway, call: Caller, run: Any) -> None:
    given = program(2)
    given["steps"][0]["think"] = "hm"
    given["steps"][0]["calls"].append({"meaning": "read", "alternatives": [{"tool": "Read", "arguments": {"a": 1}}]})
    token = run(given)
    text = play(call, token, 1)[0]
    kinds = [event["content_block"]["type"] for event in events(text) if event["type"] == "content_block_start"]
    assert kinds == ["thinking", "text", "tool_use", "tool_use"]
    assert [number for number, _, _ in tool_calls(text)] == ["toolu_acpbench_p1s000x0", "toolu_acpbench_p1s000x1"]
    # both calls come back: one step forward, not two
    status, text = call("POST", f"/r/{token}/v1/messages", question([number for number, _, _ in tool_calls(text)]))
    assert status == 200
    assert [entry.step for entry in ledger(gateway, token).entries] == [0, 1]


def test_a_new_prompt_starts_the_script_anew_with_new_ids(gateway: Gateway, call: Caller, run: Any) -> None:
    token = run(program())
    body = question(["toolu_acpbench_p1s000x0", "toolu_acpbench_p1s001x0"])
    body["messages"] += [
        {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
        {"role": "user", "content": [{"type": "text", "text": "<system-reminder>x</system-reminder>"}]},
        {"role": "user", "content": [{"type": "text", "text": "again"}]},
    ]
    _, text = call("POST", f"/r/{token}/v1/messages", body)
    assert [number for number, _, _ in tool_calls(text)] == ["toolu_acpbench_p2s000x0"]
    assert ledger(gateway, token).entries[0].step == 0


def test_a_sub_agents_conversation_has_steps_and_ids_of_its_own(gateway: Gateway, call: Caller, run: Any) -> None:
    inner = program(2)["steps"]
    given = program(2, subagents=[{"name": "subagent-0", "marker": "Look after it.", "steps": inner}])
    token = run(given)
    ids = [tool_calls(text) for text in play(call, token, 2, "<system-reminder>x</system-reminder>Look after it. Now.")]
    assert [number for number, _, _ in ids[0]] == ["toolu_acpbench_a0p1s000x0"]
    assert ids[1] == []
    # The run's own conversation, which has handed the work over and got the answer back, is not the sub-agent's.
    history = ["toolu_acpbench_p1s000x0"]
    body = question(history, prompt="fix it")
    body["messages"][1]["content"][0]["input"] = {"prompt": "Look after it."}
    status, text = call("POST", f"/r/{token}/v1/messages", body)
    assert (status, tool_calls(text)) == (200, [])
    entries = ledger(gateway, token).entries
    assert [(entry.subagent, entry.step) for entry in entries] == [("subagent-0", 0), ("subagent-0", 1), (None, 1)]


def test_parallel_runs_never_mix(gateway: Gateway, call: Caller, run: Any) -> None:
    lengths = [2, 3, 4, 5] * 2
    tokens = [run(program(length)) for length in lengths]
    with ThreadPoolExecutor(8) as pool:
        played = list(pool.map(lambda token, length: play(call, token, length, prompt=token[:6]), tokens, lengths))
    assert [len(answers) for answers in played] == lengths
    for token, length in zip(tokens, lengths, strict=True):
        entries = ledger(gateway, token).entries
        assert [entry.step for entry in entries] == list(range(length))
        assert all(
            json.loads(entry.request.text)["messages"][0]["content"][0]["text"] == token[:6] for entry in entries
        )
        assert [entry.usage.input for entry in entries if entry.usage] == [*range(1000, 999 + length), 2000]


def test_a_retry_gets_the_same_answer_byte_for_byte(gateway: Gateway, call: Caller, run: Any) -> None:
    rule = side_rule(name="title", without_tools=True, say="a title")
    token = run(program(side_requests=[rule]))
    for body in (question(["toolu_acpbench_p1s000x0"]), question(tools=())):
        answers = {call("POST", f"/r/{token}/v1/messages", body, {"x-stainless-retry-count": str(n)}) for n in range(3)}
        assert len(answers) == 1
    entries = ledger(gateway, token).entries
    assert [(entry.kind, entry.step) for entry in entries] == [("main", 1)] * 3 + [("side", None)] * 3
    assert [entry.request.headers["x-stainless-retry-count"] for entry in entries] == ["0", "1", "2"] * 2


def test_side_requests_are_answered_by_rule_and_counted_apart(gateway: Gateway, call: Caller, run: Any) -> None:
    rules = [
        side_rule(name="title", without_tools=True, body="write a title", say='{"title": "x"}'),
        side_rule(name="suggestion", body="[SUGGESTION MODE", say=""),
        side_rule(name="classifier", model="small", call={"tool": "respond", "arguments": {"risk": 0}}),
        side_rule(name="hello", method="GET", path="/api/hello", json_body={"hi": 1}),
    ]
    token = run(program(side_requests=rules))
    base = f"/r/{token}"
    title = call("POST", f"{base}/v1/messages", question(prompt="write a title", tools=(), stream=False))
    assert json.loads(title[1])["content"] == [{"type": "text", "text": '{"title": "x"}'}]
    assert json.loads(title[1])["usage"] == {"input_tokens": 100, "output_tokens": 10}
    suggestion = call("POST", f"{base}/v1/messages", question(["toolu_acpbench_p1s001x0"], prompt="[SUGGESTION MODE]"))
    assert suggestion[0] == 200
    assert tool_calls(suggestion[1]) == []
    classifier = call("POST", f"{base}/v1/messages", {**question(tools=("respond",)), "model": "a-small-one"})
    assert [(tool, arguments) for _, tool, arguments in tool_calls(classifier[1])] == [("respond", {"risk": 0})]
    assert call("GET", f"{base}/api/hello") == (200, '{"hi":1}')
    assert call("HEAD", f"{base}/api/hello") == (200, "")
    assert call("POST", f"{base}/v1/messages/count_tokens", question()) == (200, '{"input_tokens":1000}')
    # an id of a side answer in a history is no step
    side_id = tool_calls(classifier[1])[0][0]
    assert "p1s000x0" in call("POST", f"{base}/v1/messages", question([side_id]))[1]
    entries = ledger(gateway, token).entries
    assert [(entry.kind, entry.rule) for entry in entries] == [
        ("side", "title"), ("side", "suggestion"), ("side", "classifier"), ("side", "hello"),
        ("side", "probe"), ("side", "count-tokens"), ("main", None),
    ]  # fmt: skip
    assert script_problems(entries, program()) == [
        "2 of 3 steps were not asked for: 1 (run), 2 (say); nearest: the last one served is step 0"
    ]


@pytest.mark.parametrize(
    ("body", "reason", "nearest"),
    [
        (
            question(["toolu_acpbench_p1s002x0"]),
            'the script has no step left of its 3; asked: "<system-reminder>be brief</system-reminder>"',
            "step 2 (say)",
        ),
        (
            question(tools=("bash_tool", "Edit")),
            "step 0 (run): the request offers none of mcp__other__Bash, Bash",
            "offered: bash_tool, Edit",
        ),
        (
            question(tools=(), prompt="Guess what the user types next"),
            'a request without tools that no side rule knows: "Guess what the user types next"',
            "side rule title (differs in: body)",
        ),
        (b'{"model": "claude-x", "mess', "the request's body is not a JSON object", None),
    ],
)
def test_a_miss_is_400_an_event_and_an_entry(
    gateway: Gateway, call: Caller, run: Any, misses: list[Miss], body: Any, reason: str, nearest: str | None
) -> None:
    given = program(side_requests=[side_rule(name="title", without_tools=True, body="write a title", say="x")])
    token = run(given)
    status, text = call("POST", f"/r/{token}/v1/messages", body)
    assert status == 400
    error = json.loads(text)["error"]
    assert error["type"] == "invalid_request_error"
    assert error["message"].startswith(f"SCRIPT MISS: {reason}")
    assert Miss(token, reason, nearest) in misses
    entries = ledger(gateway, token).entries
    assert [(entry.kind, entry.reason, entry.nearest, entry.step) for entry in entries] == [
        ("miss", reason, nearest, None)
    ]
    tail = "" if nearest is None else f"; nearest: {nearest}"
    assert f"request 0 (POST /v1/messages): {reason}{tail}" in script_problems(entries, given)


def test_control_routes_foreign_paths_and_unknown_runs_are_refused(gateway: Gateway, call: Caller, run: Any) -> None:
    open_rule = side_rule(name="everything", status=204)
    token = run(program(side_requests=[open_rule, side_rule(name="control", path="/__aimock", status=204)]))
    for method, path in [
        ("GET", "/__aimock/journal"),
        ("POST", "/__aimock/reset"),
        ("GET", "/health"),
        ("GET", "/v1/modelsx"),
        ("POST", "/v1/chat/completions"),
        ("GET", "/v1/messages/../../__aimock/journal"),
        ("OPTIONS", "/v1/messages"),
    ]:
        assert call(method, f"/r/{token}{path}")[0] == 404, path
    for path in ["/__aimock/journal", "/v1/messages", "/r/not-a-known-run/v1/messages", f"/{token}/v1/messages"]:
        status, text = call("POST", path, question())
        assert (status, json.loads(text)["error"]["message"]) == (404, "unknown run"), path
    entries = ledger(gateway, token).entries
    assert [entry.kind for entry in entries] == ["refused"] * 11
    assert all(entry.reason and entry.reason.startswith("not a path of this model") for entry in entries[:7])
    # Only what was tried on purpose is more than a refusal.
    assert [entry.limit for entry in entries[:7]] == [None, None, None, None, None, "path", None]
    assert [(entry.reason, entry.limit) for entry in entries[7:]] == [
        ("unknown run", "unnamed"),
        ("unknown run", "unnamed"),
        ("unknown run", "token"),
        ("unknown run", "unnamed"),
    ]


def test_switches_of_aimock_do_nothing(gateway: Gateway, call: Caller, run: Any) -> None:
    token = run(program())
    switches = {"x-aimock-strict": "true", "x-aimock-chaos-drop": "1", "x-aimock-context": "other", "x-test-id": "t"}
    plain = call("POST", f"/r/{token}/v1/messages", question())
    assert plain == call("POST", f"/r/{token}/v1/messages?testId=t", question(), switches)
    assert plain[0] == 200
    ledger(gateway, token)


def test_the_run_may_stand_in_the_key_and_no_secret_is_kept(gateway: Gateway, call: Caller, run: Any) -> None:
    token = run(program())
    for headers in ({"x-api-key": token}, {"Authorization": f"Bearer {token}"}):
        assert call("POST", "/v1/messages", question(), headers)[0] == 200
    secret = {"x-api-key": "sk-canary-1", "Authorization": "Bearer sk-canary-2", "Cookie": "sk-canary-3"}
    leak = question(prompt=f"ANTHROPIC_BASE_URL=http://127.0.0.1:4010/r/{token}")
    assert call("POST", f"/r/{token}/v1/messages?key=sk-canary-4", leak, secret)[0] == 200
    journal = ledger(gateway, token)
    assert journal.entries[2].request.headers["x-api-key"] == "***"
    assert journal.entries[2].path == "/v1/messages?key=***"
    everything = b"\n".join(journal.lines)
    assert b"sk-canary" not in everything
    assert token.encode() not in everything
    assert f"/r/{MASK}".encode() in everything


def test_large_bodies_are_kept_whole(gateway: Gateway, call: Caller, run: Any) -> None:
    token = run(program())
    large = question(prompt="é\u2028\r\n" + "x" * 300_000 + "the end")
    assert call("POST", f"/r/{token}/v1/messages", large)[0] == 200
    too_large = question(prompt="y" * (10 * 1024 * 1024))
    assert call("POST", f"/r/{token}/v1/messages", too_large)[0] == 413
    entries = ledger(gateway, token).entries
    assert json.loads(entries[0].request.text) == large
    assert (entries[1].kind, entries[1].limit) == ("refused", "request-bytes")
    assert entries[1].reason is not None
    assert "at most 10000000 are served (knob model_request_mb)" in entries[1].reason


def test_latency_paces_streams_and_plain_answers(gateway: Gateway, call: Caller, run: Any) -> None:
    # 20 output tokens at 100 a second
    token = run(program(1, latency={"ttft_ms": 150.0, "tokens_per_s": 100.0}))
    for stream in (True, False):
        assert call("POST", f"/r/{token}/v1/messages", question(tools=(), stream=stream))[0] == 200
    streamed, plain = ledger(gateway, token).entries
    assert (streamed.t_first_byte_ns - streamed.t_request_end_ns) / 1e6 >= 149  # timers count whole milliseconds
    assert streamed.t_response_end_ns > streamed.t_first_byte_ns + 50e6
    assert (plain.t_first_byte_ns - plain.t_request_end_ns) / 1e6 >= 349


def test_a_client_that_hangs_up_leaves_an_aborted_entry(gateway: Gateway, call: Caller, run: Any) -> None:
    token = run(program(2, latency={"ttft_ms": 0.0, "tokens_per_s": 1.0}))
    stream = call.open("timeout", "0.5", token=token)
    body = json.dumps(question()).encode()
    head = f"POST /r/{token}/v1/messages HTTP/1.1\r\nHost: model\r\nContent-Length: {len(body)}\r\n\r\n"
    stream.write(head.encode() + body)
    received = b"".join(chunk.data for chunk in stream.chunks())
    stream.close()
    assert b"message_start" in received
    entries = ledger(gateway, token).entries
    assert [(entry.kind, entry.step, entry.aborted) for entry in entries] == [("main", 0, True)]
    assert "message_stop" not in entries[0].response.text


def test_a_run_is_registered_once_collected_once_and_forgotten(gateway: Gateway, call: Caller, run: Any) -> None:
    token = run(program())
    with pytest.raises(InfraError, match="registered already"):
        gateway.register(token, program())
    assert ledger(gateway, token).entries == []
    with pytest.raises(InfraError, match="unknown run"):
        ledger(gateway, token)
    with pytest.raises(http.client.HTTPException):  # nobody listens on its socket any more
        call("POST", f"/r/{token}/v1/messages", question())
    with pytest.raises(InfraError, match="dialect smoke-signals is not served; served: anthropic"):
        gateway.register(secrets.token_urlsafe(24), program(dialect="smoke-signals"))
    with pytest.raises(InfraError, match="a run token is"):
        gateway.register("../x", program())


def test_its_clock_is_the_hosts(gateway: Gateway) -> None:
    before = time.monotonic_ns()
    theirs = gateway.ping()
    assert before <= theirs <= time.monotonic_ns()


def test_a_killed_gateway_is_noticed_within_a_second(client: DockerClient, start: Start) -> None:
    died = threading.Event()
    reasons: list[str] = []

    def on_death(why: str) -> None:
        reasons.append(why)
        died.set()

    doomed = start(on_death=on_death)
    try:
        doomed.register("a-token-of-this-run", program())
        client.api.kill(doomed.container_id)
        assert died.wait(1.0)
        assert not doomed.alive
        with pytest.raises(InfraError, match="model gateway: it ended"):
            ledger(doomed, "a-token-of-this-run")
        assert len(reasons) == 1
    finally:
        doomed.stop()


def test_a_gateway_that_cannot_start_says_why_and_leaves_nothing(client: DockerClient, start: Start) -> None:
    with pytest.raises(InfraError, match="no such module here"):
        start(command=["/bin/sh", "-c", "echo no such module here >&2; exit 3"])
    assert client.api.containers(all=True, filters={"label": f"acpbench.sweep={SWEEP}", "status": "exited"}) == []


def test_stop_removes_the_container_and_twice_is_harmless(client: DockerClient, start: Start) -> None:
    deaths: list[str] = []
    made = start(on_death=deaths.append)
    number = made.container_id
    made.stop()
    made.stop()
    assert client.api.containers(all=True, filters={"id": number}) == []
    assert deaths == []
