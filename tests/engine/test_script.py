"""What a script can say beside plain steps, over real HTTP: conditions, pacing, faults."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runner.config.adapter import ResultPatterns
from runner.errors import InfraError
from runner.evidence.resilience import incidents
from runner.gateway.container import Gateway
from runner.gateway.journal import script_problems, skipped_steps
from tests.engine.gateway_harness import Caller, Register, Turn, ledger, program
from tests.engine.speakers import SPEAKERS, Result, Speaker

pytestmark = pytest.mark.engine

every = pytest.mark.parametrize("speaker", SPEAKERS, ids=lambda one: one.dialect)
both = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


def when(**given: Any) -> dict[str, Any]:
    return {"outcome": None, "matches": None, "lacks": None, "step": None, "offered": None, **given}


def step(index: int, say: str, *, calls: bool = False, **more: Any) -> dict[str, Any]:
    call = {"meaning": "run", "alternatives": [{"tool": "Bash", "arguments": {"command": say}}]}
    return {
        "index": index,
        "say": say,
        "think": None,
        "calls": [call] if calls else [],
        "usage": {"input": 10, "output": 20},
        "finish": "tool_use" if calls else "end_turn",
        **more,
    }


def fault(kind: str, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "times": 1, "retry_after_s": 3, "after_events": 1, "delay_ms": 150.0, **more}


def branches(dialect: str) -> dict[str, Any]:
    """Tries; explains a rejection and ends; repairs a failure; ends well."""
    steps = [
        step(0, "try", calls=True),
        step(1, "so you do not want it", when=when(outcome="rejected")),
        step(2, "repair", calls=True, when=when(outcome="failed", matches="code 7")),
        step(3, "look", calls=True, when=when(outcome="failed", lacks="code 7")),
        step(4, "it went well at once", when=when(outcome="ok", step=0)),
        step(5, "it went well in the end"),
    ]
    results = {"rejected": ["user said no"], "failed": [r"exited with code [1-9]"]}
    return program(dialect=dialect, steps=steps, results=results)


@every
@pytest.mark.parametrize(
    ("result", "failed", "said", "skipped"),
    [
        ("fine", False, ["try", "it went well at once"], {1, 2, 3, 5}),
        ("the user said no to this", True, ["try", "so you do not want it"], {2, 3, 4, 5}),
        ("oh\nexited with code 7", False, ["try", "repair", "it went well in the end"], {1, 3, 4}),
        ("exited with code 1", False, ["try", "look", "it went well in the end"], {1, 2, 4}),
    ],
)
def test_a_step_may_depend_on_what_came_of_an_earlier_one(
    gateway: Gateway,
    call: Caller,
    run: Register,
    speaker: Speaker,
    result: str,
    failed: bool,
    said: list[str],
    skipped: set[int],
) -> None:
    given = branches(speaker.dialect)
    turn = Turn(call, run(given), speaker, stream=False)
    # the first call's result, then fine ones
    assert [turn.ask(result if n == 0 else "fine", failed and n == 0).text for n in range(len(said))] == said
    entries = ledger(gateway, turn.token).entries
    assert set(skipped_steps(entries, given["steps"])) == skipped
    assert script_problems(entries, given) == []


def test_a_failure_that_the_dialect_itself_tells_needs_no_pattern(
    gateway: Gateway, call: Caller, run: Register
) -> None:
    for speaker in SPEAKERS:
        if speaker.dialect in ("anthropic", "gemini"):
            steps = [step(0, "try", calls=True), step(1, "bad", when=when(outcome="failed")), step(2, "good")]
            turn = Turn(call, run(program(dialect=speaker.dialect, steps=steps)), speaker, stream=False)
            turn.ask("anything", failed=True)
            assert turn.ask().text == "bad"
            ledger(gateway, turn.token)


@every
def test_a_step_may_hang_on_a_tool_that_is_offered(
    gateway: Gateway, call: Caller, run: Register, speaker: Speaker
) -> None:
    for name, said, passed in (("Bash", ["ask", "go on"], set()), ("AskUser", ["go on"], {0})):
        steps = [step(0, "ask", calls=True, when=when(offered=name)), step(1, "go on")]
        given = program(dialect=speaker.dialect, steps=steps)
        turn = Turn(call, run(given), speaker, stream=False)
        assert [turn.ask("fine").text for _ in said] == said
        entries = ledger(gateway, turn.token).entries
        assert set(skipped_steps(entries, steps)) == passed
        assert script_problems(entries, given) == []


def test_a_script_with_no_step_left_says_which_were_passed_over(gateway: Gateway, call: Caller, run: Register) -> None:
    steps = [step(0, "try", calls=True), step(1, "bad", when=when(outcome="failed"))]
    turn = Turn(call, run(program(dialect="anthropic", steps=steps)), SPEAKERS[0])
    turn.ask("fine")
    status, text = turn.raw()
    assert status == 400
    assert "no step left of its 2; step 1 is passed over: step 0 came to ok, not failed; asked: " in text
    ledger(gateway, turn.token)


@every
def test_an_answer_that_was_cut_short_may_be_followed_by_another(
    gateway: Gateway, call: Caller, run: Register, speaker: Speaker
) -> None:
    steps = [step(0, "try", calls=True), step(1, "a long wo", finish="max_tokens"), step(2, "rd")]
    given = program(dialect=speaker.dialect, steps=steps, continuations=["^Go on where you stopped"])
    turn = Turn(call, run(given), speaker, stream=False)
    turn.ask()
    assert turn.ask().text == "a long wo"
    body = speaker.ask(turn.history, prompt="fix it", stream=False)
    key = {"anthropic": "messages", "openai-chat": "messages", "openai-responses": "input", "gemini": "contents"}
    said: dict[str, list[dict[str, Any]]] = {
        "anthropic": [
            {"role": "assistant", "content": [{"type": "text", "text": "a long wo"}]},
            {"role": "user", "content": "Go on where you stopped."},
        ],
        "openai-chat": [
            {"role": "assistant", "content": "a long wo"},
            {"role": "user", "content": "Go on where you stopped."},
        ],
        "openai-responses": [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a long wo"}]},
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "Go on where you stopped."}],
            },
        ],
        "gemini": [
            {"role": "model", "parts": [{"text": "a long wo"}]},
            {"role": "user", "parts": [{"text": "Go on where you stopped."}]},
        ],
    }
    body[key[speaker.dialect]] += said[speaker.dialect]
    status, text = call("POST", f"/r/{turn.token}{speaker.path(False)}", body)
    assert (status, speaker.read(text, False).text) == (200, "rd")
    entries = ledger(gateway, turn.token).entries
    assert script_problems(entries, given) == []


@both
def test_a_step_may_have_a_pace_of_its_own(gateway: Gateway, call: Caller, run: Register, stream: bool) -> None:
    steps = [step(0, "quick", calls=True), step(1, "slow", latency={"ttft_ms": 200.0, "tokens_per_s": None})]
    turn = Turn(call, run(program(dialect="gemini", steps=steps)), SPEAKERS[3], stream)
    turn.ask()
    turn.ask()
    quick, slow = ((e.t_first_byte_ns - e.t_request_end_ns) / 1e6 for e in ledger(gateway, turn.token).entries)
    assert quick < 200 <= slow


@every
@both
@pytest.mark.parametrize(("kind", "status"), [("rate-limit", 429), ("server-error", 500), ("overloaded", 529)])
def test_a_refused_request_is_served_when_it_comes_again(
    gateway: Gateway, call: Caller, run: Register, speaker: Speaker, stream: bool, kind: str, status: int
) -> None:
    if kind == "overloaded" and speaker.dialect != "anthropic":
        status = 503
    steps = [step(0, "try", calls=True, faults=[fault(kind, times=2)]), step(1, "done")]
    given = program(dialect=speaker.dialect, steps=steps)
    turn = Turn(call, run(given), speaker, stream)
    for _ in range(2):
        found, text = turn.raw()
        assert found == status
        assert "message" in json.loads(text)["error"]
    assert turn.ask().text == "try"
    assert turn.ask().text == "done"
    entries = ledger(gateway, turn.token).entries
    assert [(e.kind, e.step, e.status, e.fault, e.attempt) for e in entries] == [
        ("fault", 0, status, kind, 1), ("fault", 0, status, kind, 2), ("main", 0, 200, None, 3),
        ("main", 1, 200, None, None),
    ]  # fmt: skip
    assert entries[0].response.headers.get("retry-after") == ("3" if kind == "rate-limit" else None)
    assert script_problems(entries, given) == []
    (incident,) = incidents(entries)
    assert (incident.faults, incident.retries, incident.outcome) == ((kind, kind), 2, "recovered")


def broken(raw: bytes) -> tuple[bool, bytes]:
    """(did the body come to its end, the body) of a chunked or counted HTTP response."""
    head, _, body = raw.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    if b"chunked" not in head.lower():
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        return len(body) == length, body
    whole = b""
    while True:
        size, mark, rest = body.partition(b"\r\n")
        if not mark or (length := int(size, 16)) > len(rest):
            return False, whole
        if length == 0:
            return True, whole
        whole, body = whole + rest[:length], rest[length + 2 :]


@every
@both
@pytest.mark.parametrize("kind", ["reset", "malformed"])
@pytest.mark.parametrize("after", [0, 1, 50])
def test_a_spoilt_answer_breaks_where_it_should(
    gateway: Gateway, call: Caller, run: Register, speaker: Speaker, stream: bool, kind: str, after: int
) -> None:
    steps = [step(0, "try", calls=True, faults=[fault(kind, after_events=after)]), step(1, "done")]
    turn = Turn(call, run(program(dialect=speaker.dialect, steps=steps)), speaker, stream)
    raw = turn.bytes()
    complete, body = broken(raw)
    assert complete is (kind == "malformed")
    turn.ask()
    entries = ledger(gateway, turn.token).entries
    good = entries[1].response.text
    text = body.decode()
    assert 0 < len(text) < len(good)
    assert good.startswith(text.rstrip("\n"))
    if stream:
        # events that came whole; an answer with fewer of them is struck at its last
        assert text.rstrip("\n").count("\n\n") == min(after, good.rstrip("\n").count("\n\n"))
    last = text.rstrip("\n").rpartition("\n")[2].removeprefix("data: ")
    with pytest.raises(json.JSONDecodeError):
        json.loads(last)
    assert [(e.kind, e.fault, e.attempt, e.calls != [], e.aborted) for e in entries] == [
        ("fault", kind, 1, False, False), ("main", None, 2, True, False),
    ]  # fmt: skip


@every
@both
@pytest.mark.parametrize("kind", ["stall", "slow-start"])
def test_a_delayed_answer_comes_whole(
    gateway: Gateway, call: Caller, run: Register, speaker: Speaker, stream: bool, kind: str
) -> None:
    steps = [step(0, "try", calls=True, faults=[fault(kind)]), step(1, "done")]
    turn = Turn(call, run(program(dialect=speaker.dialect, steps=steps)), speaker, stream)
    delayed = turn.raw()
    assert turn.raw() == delayed
    first, second = ledger(gateway, turn.token).entries
    assert [(e.kind, e.fault) for e in (first, second)] == [("main", kind), ("main", None)]
    least = 149e6  # of 150 ms: timers there count whole milliseconds, so one may end a part of one early
    assert first.t_response_end_ns - first.t_request_end_ns >= least
    waited = first.t_first_byte_ns - first.t_request_end_ns
    assert (waited >= least) is (kind == "slow-start" or not stream)
    (incident,) = incidents([first, second])
    assert (incident.outcome, incident.faults) == ("waited", (kind,))


def test_faults_of_a_step_come_in_order_and_are_counted_per_run_and_turn(
    gateway: Gateway, call: Caller, run: Register
) -> None:
    faults = [fault("rate-limit"), fault("server-error", times=2)]
    steps = [step(0, "try", calls=True, faults=faults), step(1, "done")]
    turns = [Turn(call, run(program(dialect="anthropic", steps=steps)), SPEAKERS[0]) for _ in range(2)]
    statuses = [[turn.raw()[0] for turn in turns] for _ in range(4)]
    assert statuses == [[429, 429], [500, 500], [500, 500], [200, 200]]
    body = SPEAKERS[0].ask([Result("toolu_acpbench_p1s000x0")], prompt="fix it", stream=True)
    body["messages"] += [{"role": "assistant", "content": "done"}, {"role": "user", "content": "again"}]
    assert call("POST", f"/r/{turns[0].token}/v1/messages", body)[0] == 429
    for turn in turns:
        ledger(gateway, turn.token)


def test_a_fault_may_never_end(gateway: Gateway, call: Caller, run: Register) -> None:
    steps = [step(0, "try", calls=True, faults=[fault("overloaded", times=None)]), step(1, "done")]
    given = program(dialect="anthropic", steps=steps)
    turn = Turn(call, run(given), SPEAKERS[0])
    assert [turn.raw()[0] for _ in range(5)] == [529] * 5
    entries = ledger(gateway, turn.token).entries
    assert script_problems(entries, given) == []
    assert incidents(entries)[0].outcome == "gave-up"


def test_a_prompt_that_nobody_typed_is_a_miss_with_its_words(gateway: Gateway, call: Caller, run: Register) -> None:
    speaker = SPEAKERS[0]
    token = run(program(2, dialect="anthropic", turns=2))

    def ask(*prompts: str) -> tuple[int, str]:
        body = speaker.ask([], prompt="context of the agent's own", stream=False)
        for prompt in prompts:
            body["messages"] += [{"role": "assistant", "content": "ok"}, {"role": "user", "content": prompt}]
        return call("POST", f"/r/{token}/v1/messages", body)

    assert [ask("first")[0], ask("first", "second")[0]] == [200, 200]
    status, text = ask("first", "second", "Suggest what to type next")
    assert status == 400
    assert 'played for 2 prompt(s); this would be number 3: \\"Suggest what to type next' in text
    assert [entry.kind for entry in ledger(gateway, token).entries] == ["main", "main", "miss"]


def test_a_pattern_that_the_gateway_cannot_read_is_refused_before_the_run(gateway: Gateway, run: Register) -> None:
    with pytest.raises(InfraError, match="Invalid regular expression"):
        run(program(results={"rejected": ["(?P<name>x)"], "failed": []}))
    # the ones that every adapter has
    token = run(program(results=ResultPatterns().model_dump()))
    ledger(gateway, token)
