"""The gateway before a live model: its way out, its budget, what it records, and how strictly it plays that again."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

import pytest
from docker import DockerClient

from runner.config.upstream import Budget, Price
from runner.errors import InfraError
from runner.gateway.cassette import drift, dump, read_tape, replay_problems, tape_of
from runner.gateway.program import model_failures
from runner.sandbox.reaper import reap
from tests.engine.api import Reply, answer
from tests.engine.gateway_harness import ledger, program
from tests.engine.place import NORMALISERS, Place, replay
from tests.engine.test_gateway import question, tool_calls
from tests.engine.upstream import on_network, stand_in

pytestmark = pytest.mark.engine

#: One of each shape that is struck out; none was ever a key.
CANARIES = [
    "sk-" + "Zz9" * 12,
    "sk-ant-api03-" + "Ab_-" * 10,
    "AIza" + "q" * 35,
    "AKIA" + "Q7" * 8,
    "ghp_" + "a1" * 18,
    "github_pat_" + "a1" * 20,
    "dtn_" + "0f" * 20,
    "Bearer " + "t0k." * 8,
]


def test_the_key_is_put_in_and_nothing_else_of_the_agent_goes_out(place: Place) -> None:
    gateway = place.start()
    token = place.register(gateway)
    body = question(stream=False)
    status, text = place.call(
        "POST",
        f"/r/{token}/v1/messages?beta=true",
        body,
        {"x-api-key": "sk-dummy", "anthropic-version": "2023-06-01", "cookie": "a=b", "x-forwarded-for": "10.0.0.1"},
    )
    assert (status, text) == (200, answer().decode())
    ((path, headers, sent),) = place.api.asked
    assert path == "/v1/messages?beta=true"
    assert json.loads(sent) == body
    assert headers["x-api-key"] == place.key
    assert headers["anthropic-version"] == "2023-06-01"
    assert set(headers) == {"x-api-key", "anthropic-version", "accept-encoding", "content-length", "host", "connection"}
    (entry,) = ledger(gateway, token).entries
    assert (entry.kind, entry.status, entry.response.headers.get("organization")) == ("main", 200, None)
    assert entry.usage is not None
    assert (entry.usage.input, entry.usage.output) == (100, 10)
    assert entry.tape is not None
    assert entry.tape.headers == {"content-type": "application/json"}
    assert place.key not in json.dumps(entry.model_dump())


def test_a_capture_plays_again_and_strictly(place: Place, tmp_path: Path) -> None:
    gateway = place.start()
    place.api.replies = [Reply(status=429, headers={"retry-after": "3"}, body=b'{"type":"error"}'), Reply()]
    token = place.register(gateway)
    told = f"my address is http://127.0.0.1:4010/r/{token}/v1"
    place.api.replies[-1] = Reply(answer(told))
    asked = {**question(stream=False), "system": "It is 2026-11-30.", "metadata": {"user_id": "somebody"}}
    assert [place.ask(token, asked)[0] for _ in range(2)] == [429, 200]
    tape = list(tape_of(ledger(gateway, token).entries))
    assert [line["response"]["status"] for line in tape] == [429, 200]
    assert token not in json.dumps(tape)
    assert "somebody" not in json.dumps(tape)
    path = tmp_path / "tape.jsonl"
    path.write_bytes(b"".join(dump(tape)))
    assert read_tape(path) == tape

    place.socket.unlink()
    again = {**asked, "system": "It is 2027-01-02.", "metadata": {"user_id": "somebody else"}}
    token = replay(place, gateway, tape)
    assert place.ask(token, again)[0] == 429
    # The recorded address of the run is this run's now.
    assert json.loads(place.ask(token, again)[1])["content"][0]["text"].endswith(f"/r/{token}/v1")
    status, text = place.ask(token, again)
    assert status == 400
    problem = "the request was asked more often than it was recorded"
    assert f"REPLAY MISS: {problem}" in json.loads(text)["error"]["message"]
    entries = ledger(gateway, token).entries
    assert replay_problems(entries, tape) == [
        f"request 2 (POST /v1/messages): {problem}; nearest: entry 0, served already",
    ]
    assert drift(entries) == []

    # Something else in the system prompt is a warning, an entry left is a failure.
    token = replay(place, gateway, tape)
    assert place.ask(token, {**asked, "system": "Be brief."})[0] == 429
    entries = ledger(gateway, token).entries
    assert replay_problems(entries, tape) == ["1 of 2 recorded requests were not asked for: 1 (main)"]
    assert replay_problems(entries, tape, stopped="a reject") == []
    assert [found.message.split(",")[0] for found in drift(entries)] == ["'system' is not what was recorded"]

    # A normaliser that is declared later counts for both sides.
    other = question(stream=False, prompt="fix them")
    token = replay(place, gateway, tape)
    assert place.ask(token, {**other, "system": asked["system"]})[0] == 400
    (missed,) = ledger(gateway, token).entries
    assert missed.tape is not None
    (difference,) = missed.tape.differences
    assert (difference.recorded, difference.asked) == ("fix it", "fix them")
    rule = {"name": "which", "in": "all", "pattern": "fix (it|them)", "becomes": "fix something"}
    token = replay(place, gateway, tape, normalisers=[*NORMALISERS, rule])
    assert place.ask(token, {**other, "system": asked["system"]})[0] == 429


def test_a_stream_that_is_cut_is_cut_again(place: Place) -> None:
    gateway = place.start()
    place.api.replies = [Reply(b'event: ping\ndata: {"type":"ping"}\n\n', cut=True)]
    token = place.register(gateway)
    raw = f"POST /r/{token}/v1/messages HTTP/1.1\r\nHost: m\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}"
    first = place.call.raw(raw.encode())
    (line,) = list(tape_of(ledger(gateway, token).entries))
    assert line["response"]["end"] == "cut"
    again = place.call.raw(raw.replace(token, replay(place, gateway, [line])).encode())
    for received in (first, again):
        assert b"event: ping" in received
        assert not received.endswith(b"0\r\n\r\n")  # the last chunk never came


def test_bytes_that_are_no_text_are_kept(place: Place) -> None:
    gateway = place.start()
    odd = b"\xff\xfe\x00odd"
    place.api.replies = [Reply(odd)]
    token = place.register(gateway)
    raw = f"POST /r/{token}/v1/messages HTTP/1.1\r\nHost: m\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}"
    assert odd in place.call.raw(raw.encode())
    (line,) = list(tape_of(ledger(gateway, token).entries))
    ((_, chunk),) = line["response"]["chunks"]
    assert base64.b64decode(chunk["base64"]) == odd
    assert odd in place.call.raw(raw.replace(token, replay(place, gateway, [line])).encode())


def test_a_budget_ends_the_sweep_once_and_outlives_the_gateway(place: Place) -> None:
    gateway = place.start(budget=Budget(requests=2))
    token = place.register(gateway, "live")
    assert [place.ask(token)[0] for _ in range(4)] == [200, 200, 400, 400]
    assert len(place.api.asked) == 2
    assert place.spent == ["budget of api: requests: 2 of 2 are spent"]
    entries = ledger(gateway, token).entries
    assert [entry.kind for entry in entries] == ["main", "main", "refused", "refused"]
    assert [entry.tape for entry in entries] == [None] * 4
    gateway.stop()
    later = place.start(budget=Budget(requests=2))
    assert place.ask(place.register(later, "live"))[0] == 400
    assert len(place.api.asked) == 2


@pytest.mark.parametrize(
    ("budget", "prices", "usage", "answered", "reason"),
    [
        (Budget(tokens=300), {}, {"input_tokens": 90, "output_tokens": 60, "cache_read_input_tokens": 50}, 2,
         "budget of api: tokens: 400 of 300 are spent"),
        (Budget(money=0.5), {"claude-*": Price(input=1000.0, output=2000.0, cache_read=0.0)},
         {"input_tokens": 100, "output_tokens": 100, "cache_read_input_tokens": 9000}, 2,
         "budget of api: money: 0.6 of 0.5 are spent"),
        (Budget(money=0.5), {"gpt-*": Price(input=1.0, output=1.0)}, {"input_tokens": 1}, 0,
         "budget of api: money: there is no price for model claude-x"),
        (Budget(tokens=300), {}, None, 1,
         "budget of api: tokens: an answer states no usage, so they cannot be counted"),
    ],
)  # fmt: skip
def test_tokens_and_money_are_counted(
    place: Place, budget: Budget, prices: dict[str, Price], usage: dict[str, int] | None, answered: int, reason: str
) -> None:
    place.api.replies = [Reply(b'{"type":"message","content":[]}' if usage is None else answer("x", **usage))]
    gateway = place.start(budget=budget, prices=prices)
    token = place.register(gateway)
    for _ in range(answered):
        assert place.ask(token)[0] == 200
    if usage is not None:
        assert place.ask(token)[0] == 400
    gateway.ping()
    assert place.spent == [reason]


def test_an_upstream_that_is_not_there_is_infra(place: Place) -> None:
    gateway = place.start()
    place.socket.unlink()
    token = place.register(gateway)
    started = time.monotonic()
    assert place.ask(token)[0] == 400
    assert time.monotonic() - started < 5
    entries = ledger(gateway, token).entries
    (failure,) = model_failures(entries)
    assert str(failure).startswith("model gateway: upstream api: connect ENOENT")
    assert list(tape_of(entries)) == []


def test_only_what_is_allowed_and_declared_is_reached(place: Place) -> None:
    gateway = place.start(allow=["unix:/somewhere/else"])
    with pytest.raises(InfraError, match=r"upstream api: unix:.* is not on its allow-list \(unix:/somewhere/else\)"):
        place.register(gateway)
    with pytest.raises(InfraError, match="no upstream other in this sweep; there are: api"):
        place.register(gateway, upstream="other")
    gateway.stop()
    gateway = place.start()
    token = place.register(gateway)
    # A request in a proxy's form names a host: it is no path of a model.
    assert place.call("GET", "http://example.com/")[0] == 404
    assert place.call("POST", f"/r/{token}//example.com/v1/messages", question())[0] == 404
    assert place.call("GET", f"/r/{token}/v1/files")[0] == 404
    assert place.api.asked == []


def test_what_looks_like_a_key_is_written_nowhere(place: Place) -> None:
    gateway = place.start()
    place.api.replies = [Reply(answer(" ".join([*CANARIES, place.key, "task-management-is-a-word"])))]
    token = place.register(gateway)
    status, text = place.ask(token, question(stream=False, prompt=f"my keys are {' and '.join(CANARIES)}"))
    assert status == 200
    assert all(word in text for word in CANARIES)  # what is said is not changed
    collected = ledger(gateway, token)
    kept = b"\n".join(collected.lines).decode() + b"".join(dump(tape_of(collected.entries))).decode()
    for word in [*CANARIES, place.key]:
        assert word.removeprefix("Bearer ") not in kept, word
    assert "task-management-is-a-word" in kept
    assert "Bearer ***" in kept


def test_the_next_gateway_hands_out_the_journal_of_a_dead_one(place: Place) -> None:
    gateway = place.start()
    token = place.register(gateway)
    for _ in range(2):
        assert place.ask(token)[0] == 200
    place.client.api.kill(gateway.container_id)
    deadline = time.monotonic() + 10
    while gateway.alive:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    gateway.stop()
    later = place.start()
    collected = ledger(later, token)
    assert [(entry.seq, entry.kind, entry.status) for entry in collected.entries] == [
        (0, "main", 200),
        (1, "main", 200),
    ]
    assert len(list(tape_of(collected.entries))) == 2
    with pytest.raises(InfraError, match="unknown run"):
        ledger(later, token)


def test_over_a_network_of_its_own(place: Place, engine: DockerClient, tmp_path: Path) -> None:
    key = place.key
    with stand_in(engine, tmp_path / "upstream", key, program()) as there:
        gateway = place.start(base_url="http://upstream:4011", allow=["upstream:4011"])
        network = f"acpbench-{place.sweep}-out"
        (found,) = engine.api.networks(names=[network])
        assert (found["Driver"], found["Internal"]) == ("bridge", False)
        assert found["Labels"]["acpbench.sweep"] == place.sweep
        token = place.register(gateway)
        with on_network(engine, there.path, network, "upstream", 4011):
            status, text = place.ask(token, question())
        assert status == 200, text
        assert tool_calls(text) == [("toolu_acpbench_p1s000x0", "Bash", {"command": "echo 0 é"})]
        (entry,) = ledger(gateway, token).entries
        assert [(call.tool, call.arguments) for call in entry.calls] == [("Bash", {"command": "echo 0 é"})]
        # The agent's side has no way there.
        stream = place.call._container.execute(["socat", "-T", "2", "-", "TCP:upstream:4011"], "1000:1000")
        assert b"socat" in b"".join(chunk.data for chunk in stream.chunks())
        stream.close()
        gateway.stop()
    assert reap(engine, sweep=place.sweep).networks == [network]
    assert engine.api.networks(names=[network]) == []
