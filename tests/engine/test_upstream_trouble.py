"""The gateway before an API that misbehaves, or that another authority signed: who is to blame, and what is kept."""

from __future__ import annotations

import gzip
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient

from runner.config.upstream import Budget
from runner.gateway.cassette import tape_of
from runner.gateway.journal import JournalEntry
from runner.gateway.program import model_failures
from runner.sandbox.container import USER, Container, Spec
from runner.sandbox.labels import labels
from tests.certificates import certificate
from tests.engine.api import Reply, answer, serving
from tests.engine.gateway_harness import ledger
from tests.engine.place import Place, replay
from tests.engine.upstream import on_network

pytestmark = [pytest.mark.engine, pytest.mark.long]

PACKED = {"content-encoding": "gzip"}


def failures(entries: list[JournalEntry]) -> list[str]:
    return [str(one).removeprefix("model gateway: upstream api: ") for one in model_failures(entries)]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (
            Reply(b"", status=307, headers={"location": "https://other.example/v1?key=1#x"}),
            "it redirects (307) to https://other.example/v1; if that is meant, make it the model's base_url",
        ),
        (Reply(b"", status=302), "it redirects (302) to nowhere; if that is meant, make it the model's base_url"),
        (Reply(headers={"content-encoding": "odd"}), "its answer is packed in a way that is not known: odd"),
        (Reply(silent=True), "silent for 0.4 s"),
    ],
)
def test_an_answer_that_is_none_ends_the_run_at_once(place: Place, reply: Reply, reason: str) -> None:
    # What got no answer is not counted.
    gateway = place.start(silence_s=0.4, budget=Budget(requests=1))
    place.api.replies = [reply]
    token = place.register(gateway)
    for _ in range(2):
        status, text = place.ask(token)
        assert status == 400
        assert reason in json.loads(text)["error"]["message"]
    gateway.ping()
    assert place.lost == [(token, f"upstream api: {reason}")] * 2
    assert place.spent == []
    entries = ledger(gateway, token).entries
    assert failures(entries) == [reason]
    assert list(tape_of(entries)) == []


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "status 401, it refuses the key: no such key"),
        (403, "status 403, it refuses the key: no such key"),
        (529, "status 529, it does not answer the model's way: no such key"),
        (400, None),  # the agent's own fault
    ],
)
def test_an_error_of_the_api_s_own_is_no_agents_fault(place: Place, status: int, words: str | None) -> None:
    gateway = place.start()
    place.api.replies = [Reply(b"no  such\nkey", status=status)]
    token = place.register(gateway)
    assert place.ask(token) == (status, "no  such\nkey")
    assert failures(ledger(gateway, token).entries) == ([words] if words else [])


def test_what_is_packed_is_unpacked_for_the_agent_and_the_tape(place: Place) -> None:
    gateway = place.start()
    place.api.replies = [Reply(gzip.compress(answer("packed")), headers=PACKED)]
    token = place.register(gateway)
    assert place.ask(token) == (200, answer("packed").decode())
    entries = ledger(gateway, token).entries
    (line,) = list(tape_of(entries))
    assert line["response"]["headers"] == {"content-type": "application/json"}
    assert "".join(text for _, text in line["response"]["chunks"]) == answer("packed").decode()
    assert entries[0].usage is not None
    token = replay(place, gateway, [line])
    assert place.ask(token) == (200, answer("packed").decode())


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(b"data: 1\n\n", cut=True), "it ended its answer in the middle"),
        (Reply(b"data: 1\n\n", hang=True), "silent for 0.4 s"),
        (Reply(gzip.compress(answer("x" * 9999))[:40], headers=PACKED), "it ended its answer in the middle"),
    ],
)
def test_an_answer_without_its_end_has_none_for_the_agent_either(place: Place, reply: Reply, words: str) -> None:
    gateway = place.start(silence_s=0.4)
    place.api.replies = [reply, Reply()]
    token = place.register(gateway)
    raw = f"POST /r/{token}/v1/messages HTTP/1.1\r\nHost: m\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}"
    assert not place.call.raw(raw.encode()).endswith(b"0\r\n\r\n")
    entries = ledger(gateway, token).entries
    assert failures(entries) == [words]
    assert [line["response"]["end"] for line in list(tape_of(entries))] == ["cut"]
    # An agent that asks again, and is answered, has got over it.
    place.api.replies = [reply, Reply()]
    token = place.register(gateway)
    place.call.raw(raw.replace(raw[8:40], token).encode())
    assert place.ask(token)[0] == 200
    assert failures(ledger(gateway, token).entries) == []


def test_what_is_no_stream_of_its_dialect_goes_through_as_it_is(place: Place) -> None:
    odd = b'event: x\ndata: {"choices": [null]\n\ndata: [null]\ndata: {not json\n\n: \xc3\xa9'
    gateway = place.start()
    place.api.replies = [Reply(odd, headers={"content-type": "text/event-stream"})]
    token = place.register(gateway)
    assert place.ask(token) == (200, odd.decode())
    (entry,) = ledger(gateway, token).entries
    assert (entry.calls, entry.usage, entry.reason) == ([], None, None)
    assert gateway.alive


def test_an_answer_that_was_cut_short_is_guessed_not_the_end_of_the_budget(place: Place) -> None:
    gateway = place.start(budget=Budget(tokens=1000))
    place.api.replies = [Reply(b"x" * 400, cut=True)]
    token = place.register(gateway, "live")
    body = json.dumps({"model": "claude-x", "said": "y" * 2000}).encode()
    head = (
        f"POST /r/{token}/v1/messages HTTP/1.1\r\nHost: m\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    place.call.raw(head.encode() + body)
    assert place.spent == []
    place.call.raw(head.encode() + body)
    assert place.ask(token)[0] == 400
    gateway.ping()
    once = -(-len(body) // 4) + 400 // 4
    assert place.spent == [f"budget of api: tokens: {2 * once} of 1000 are spent"]


def test_a_connection_that_went_away_while_it_was_kept_is_made_anew(place: Place) -> None:
    gateway = place.start()
    place.api.forgetful = True
    token = place.register(gateway)
    assert [place.ask(token)[0] for _ in range(3)] == [200] * 3
    assert len(place.api.asked) == 3
    assert failures(ledger(gateway, token).entries) == []


def test_an_agents_own_key_in_the_query_stays_here(place: Place) -> None:
    gateway = place.start()
    token = place.register(gateway)
    for query in ("key=sk-dummy", "key=sk-dummy&alt=sse", "alt=sse&key=sk-dummy", "monkey=1"):
        assert place.call("POST", f"/r/{token}/v1/messages?{query}", {})[0] == 200
    paths = [path for path, _, _ in place.api.asked]
    assert paths == ["/v1/messages", "/v1/messages?alt=sse", "/v1/messages?alt=sse", "/v1/messages?monkey=1"]


def test_another_authority_is_trusted_where_its_certificate_is_named(
    place: Place, engine: DockerClient, tmp_path: Path
) -> None:
    authority, signed, key = certificate("upstream")
    for name, text in (("certificate", signed), ("key", key)):
        (tmp_path / name).write_text(text)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
    there: dict[str, Any] = {"base_url": "https://upstream:4012", "allow": ["upstream:4012"]}
    with serving(tmp_path / "tls", tls) as api:
        gateway = place.start(authority=authority, **there)
        with on_network(engine, tmp_path / "tls/api.sock", f"acpbench-{place.sweep}-out", "upstream", 4012):
            token = place.register(gateway)
            assert place.ask(token) == (200, answer().decode())
            assert [headers["x-api-key"] for _, headers, _ in api.asked] == [place.key]
            assert failures(ledger(gateway, token).entries) == []
            gateway.stop()
            gateway = place.start(**there)
            token = place.register(gateway)
            assert place.ask(token)[0] == 400
            (reason,) = failures(ledger(gateway, token).entries)
            what, _, advice = reason.partition("; ")
            assert what == "unable to verify the first certificate"
            assert advice == "name its authority's certificate by 'ca:' in the model's file"
            assert len(api.asked) == 1
            gateway.stop()


def test_the_private_file_is_gone_once_the_gateway_listens(place: Place, engine: DockerClient) -> None:
    place.start()
    volume = f"acpbench-{place.sweep}-private"
    spec = Spec(
        name=f"acpbench-{place.sweep}-look",
        image=place.image,
        command=["sleep", "60"],
        labels=labels(place.sweep),
        mounts={volume: "/look"},
    )
    look = Container(engine, spec)
    try:
        look.create()
        look.start()
        stream = look.execute(["find", "/look"], USER)
        assert b"".join(chunk.data for chunk in stream.chunks()) == b"/look\n"
        stream.close()
    finally:
        look.remove()
