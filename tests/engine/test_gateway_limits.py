"""Whatever one run asks of the gateway is that run's own: refused, recorded, and no other run's trouble."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from runner.gateway.container import Gateway, socket_name
from runner.gateway.journal import JournalEntry
from tests.engine.api import Reply
from tests.engine.gateway_harness import Caller, ledger, program
from tests.engine.place import Place, replay
from tests.engine.test_gateway import question

pytestmark = pytest.mark.engine

Run = Callable[..., str]
#: The most memory that the gateway's own process may ever have taken, MB.
PEAK_MB = 200
MB = 10**6


def refused(entries: list[JournalEntry]) -> list[tuple[int, str | None]]:
    assert {entry.kind for entry in entries} <= {"refused"}
    assert all(entry.reason for entry in entries)
    return [(entry.status, entry.limit) for entry in entries]


def said(content: str) -> bytes:
    body = {"model": "m", "stream": False, "messages": [{"role": "user", "content": content}]}
    return json.dumps(body, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "limit"),
    [
        ("/v1/messages", said("x" * 11 * MB), {}, 413, "request-bytes"),
        ("/v1/messages", b"[" * 10_000, {}, 400, "json-depth"),
        ("/v1/messages", b'{"a":' * 10_000, {}, 400, "json-depth"),
        ("/v1/messages", b'{"messages":[' + b"{}," * 3 * MB + b"{}]}", {}, 400, "json-values"),
        ("/v1/messages", b"[" + b"1," * 4 * MB + b"1]", {}, 400, "json-values"),
        ("/v1/messages", b'{"model":"cheap","messages":[],"mod\\u0065l":"dear"}', {}, 400, "json-keys"),
        ("/v1/messages", b"\x1f\x8b\x08" + bytes(2000), {"Content-Encoding": "gzip"}, 415, "content-encoding"),
        ("/v1/messages", b"x\x9c" + bytes(2000), {"Content-Encoding": "deflate, gzip"}, 415, "content-encoding"),
        ("/v1//messages", said("x"), {}, 404, "path"),
        ("//v1/messages", said("x"), {}, 404, "path"),
        ("/v1/%2e%2e/v1/messages", said("x"), {}, 404, "path"),
        ("/v1%2fmessages", said("x"), {}, 404, "path"),
        ("/v1/x/../messages", said("x"), {}, 404, "path"),
        ("/v1/messages", b"", {"Upgrade": "websocket", "Connection": "close, Upgrade"}, 400, "upgrade"),
        ("/v1/messages", b"", {"X-Long": "x" * 20_000, "X-Longer": "y" * 20_000}, 431, "head-bytes"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_request_over_a_bound_is_refused_and_recorded(
    gateway: Gateway, call: Caller, run: Run, path: str, body: bytes, headers: dict[str, str], status: int, limit: str
) -> None:
    token = run(program())
    got, text = call("POST", f"/r/{token}{path}", body, headers)
    assert got == status
    assert json.loads(text)["error"]["message"]
    # The next one is answered as if nothing had been.
    assert call("POST", f"/r/{token}/v1/messages", question())[0] == 200
    first, second = ledger(gateway, token).entries
    assert refused([first]) == [(status, limit)]
    assert (second.kind, second.limit) == ("main", None)
    assert len(first.request.body or "") <= 65536


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":[{"role":"user","content":"x"}],"max_tokens":1e999,"temperature":' + b"9" * 100_000 + b"}",
        b'{"messages":[{"role":"user","content":"x"}],"__proto__":{"stream":true},"constructor":{"a":1}}',
        b'{"messages":[{"role":"user","content":"' + b"<system-reminder>" * 500_000 + b'"}]}',
        b'{"messages":[{"role":"user","content":[{"text":{"toString":1}}]}],"tools":[{"name":{"toString":1}}]}',
        b'{"messages":[{"role":{"a":1},"content":7},null,[],3],"tools":"x","stop_sequences":{}}',
        b'{"messages":"x","system":5,"tools":null}',
    ],
    ids=["numbers", "proto", "reminders", "strings", "shapes", "texts"],
)
def test_odd_bodies_are_answered_whatever_they_hold(gateway: Gateway, call: Caller, run: Run, body: bytes) -> None:
    token = run(program(1))
    status, _ = call("POST", f"/r/{token}/v1/messages", body)
    assert status in (200, 400)
    (entry,) = ledger(gateway, token).entries
    assert entry.kind in ("main", "miss")
    assert gateway.alive


@pytest.mark.parametrize(
    ("sent", "status", "limit"),
    [
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "http"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "http"),
        (b"CONNECT host:443 HTTP/1.1\r\nHost: host\r\n\r\n", 405, "http"),
        (b"POST http://other/r/x/v1/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404, "path"),
        (b"POST /r/{token}/v1/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "http"),
        (b"POST /r/other-run-1234/v1/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404, "token"),
    ],
    ids=["http2", "tls", "connect", "absolute", "chunk", "another-run"],
)
def test_what_is_no_request_of_this_run_is_refused(
    gateway: Gateway, call: Caller, run: Run, sent: bytes, status: int, limit: str
) -> None:
    token = run(program())
    answer = call.raw(sent.replace(b"{token}", token.encode()))
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert refused(ledger(gateway, token).entries) == [(status, limit)]


def test_another_runs_token_opens_nothing_and_its_socket_is_not_seen(gateway: Gateway, call: Caller, run: Run) -> None:
    mine, other = run(program()), run(program())
    body = said("x")
    head = f"POST /r/{other}/v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    stream = call.open(token=mine)
    stream.write(head.encode() + body)
    stream.half_close()
    answer = b"".join(chunk.data for chunk in stream.chunks())
    stream.close()
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert refused(ledger(gateway, mine).entries) == [(404, "token")]
    assert ledger(gateway, other).entries == []
    listed = call.shell("ls /acpbench/model; echo $?")
    assert "Permission denied" in listed
    assert ".sock" not in listed


def test_a_body_or_a_head_that_never_ends_is_cut_off(gateway: Gateway, call: Caller, run: Run) -> None:
    token = run(program(), limits={"body_ms": 300, "head_ms": 300, "linger_ms": 300})
    head = f"POST /r/{token}/v1/messages HTTP/1.1\r\nHost: x\r\n"
    answers = []
    for sent in (
        f"{head}Content-Length: 100\r\n\r\nabc",
        f"{head}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        head,
    ):
        stream = call.open(token=token)
        stream.write(sent.encode())
        answers.append(b"".join(chunk.data for chunk in stream.chunks()))  # until the gateway hangs up
        stream.close()
    assert [answer[:13] for answer in answers] == [b"HTTP/1.1 408 "] * 3
    assert refused(ledger(gateway, token).entries) == [(408, "body-time")] * 2 + [(408, "head-time")]


def test_connections_and_requests_at_once_are_bounded(gateway: Gateway, call: Caller, run: Run) -> None:
    limits = {"connections": 3, "open_requests": 2, "unread_ms": 30_000}
    token = run(program(1, latency={"ttft_ms": 1500.0, "tokens_per_s": None}), limits=limits)
    body = said("x")
    request = f"POST /r/{token}/v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    # Three on one connection: two are served, one is over.
    stream = call.open(token=token)
    stream.write(request * 2 + request.replace(b"Host: x", b"Host: x\r\nConnection: close"))
    # Two of four more are one too many. They may arrive in any order, and those that are let in say nothing.
    silent = [call.open("timeout", "5", token=token) for _ in range(4)]
    refusals = [b"".join(chunk.data for chunk in connection.chunks()) for connection in silent]
    answer = b"".join(chunk.data for chunk in stream.chunks())
    for connection in (stream, *silent):
        connection.close()
    # A client that is slow may be hung up on before it has read its refusal; the ledger below has both.
    assert 1 <= sum(b"HTTP/1.1 429 " in refusal for refusal in refusals) <= 2
    assert (answer.count(b"HTTP/1.1 200 "), answer.count(b"HTTP/1.1 429 ")) == (2, 1)
    entries = ledger(gateway, token).entries
    assert Counter(entry.limit for entry in entries) == {None: 2, "open-requests": 1, "connections": 2}


def test_an_agent_that_is_refused_too_often_gets_no_more_connections(gateway: Gateway, call: Caller, run: Run) -> None:
    token = run(program(), limits={"requests": 3, "refusals": 4})
    statuses = [call("GET", f"/r/{token}/v1/models")[0] for _ in range(7)]
    assert statuses == [200] * 3 + [429] * 4
    path = f"/acpbench/model/{socket_name(token)}"
    wait = f"while [ -S {path} ]; do sleep 0.05; done; socat - UNIX-CONNECT:{path} </dev/null; echo $?"
    assert "No such file" in call.shell(wait)
    entries = ledger(gateway, token).entries
    assert [entry.limit for entry in entries] == [None] * 3 + ["requests"] * 3 + ["refusals"]
    assert entries[-1].reason is not None
    assert "the run gets no more connections" in entries[-1].reason


def test_a_client_that_does_not_read_is_cut_off(gateway: Gateway, call: Caller, run: Run) -> None:
    given = program(1, streaming={"chunk_size": 4096})
    given["steps"][0]["say"] = "y" * 5 * MB
    token = run(given, limits={"unread_ms": 1000, "unread_bytes": 8 * MB})
    script = (
        "import socket, sys, time\n"
        f"body = {said('x')!r}\n"
        f"head = b'POST /r/{token}/v1/messages HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: %d\\r\\n\\r\\n' % len(body)\n"
        "held = []\n"
        "for _ in range(5):\n"
        "    one = socket.socket(socket.AF_UNIX)\n"
        f"    one.connect('/acpbench/model/{socket_name(token)}')\n"
        "    one.sendall(head + body)\n"
        "    held.append(one)\n"
        "    time.sleep(0.3)\n"
        "time.sleep(4)\n"
    )
    assert call.python(script) == ""
    entries = ledger(gateway, token).entries
    assert {entry.limit for entry in entries} == {"unread"}
    served = [entry for entry in entries if entry.kind == "main"]
    assert served
    assert all(entry.aborted and entry.reason == "the answer was not read for 1 s" for entry in served)
    assert {(entry.status, entry.kind) for entry in entries if entry not in served} == {(429, "refused")}


def test_beyond_its_cap_a_journal_keeps_lengths_hashes_and_canaries(gateway: Gateway, call: Caller, run: Run) -> None:
    canaries = {"secret": "canary-in-plain", "other": "never-said", "late": "canary-é-at-the-end"}
    token = run(program(1), limits={"journal_bytes": 2 * MB}, canaries=canaries)
    bodies = [said("x" * MB), said("y" * MB + "canary-in-plain"), said("z" * 3 * MB + "canary-é-at-the-end"), said("s")]
    for body in bodies:
        assert call("POST", f"/r/{token}/v1/messages", body)[0] == 200
    found = ledger(gateway, token)
    whole, *cut, small = found.entries
    assert whole.request.body == bodies[0].decode()
    assert (whole.request.cut, whole.request.sha256) == (False, None)
    assert small.request.body == bodies[3].decode()  # there is room for it
    assert [(one.request.body, one.response.body, one.request.cut) for one in cut] == [(None, None, True)] * 2
    assert [one.request.length for one in found.entries] == [len(body) for body in bodies]
    assert [one.request.sha256 for one in cut] == [hashlib.sha256(body).hexdigest() for body in bodies[1:3]]
    assert [one.canaries for one in found.entries] == [[], ["secret"], ["late"], []]
    assert [(one.kind, one.step, one.usage is not None) for one in cut] == [("main", 0, True)] * 2
    assert found.collected.cut_bodies == 2
    assert found.collected.cut_bytes > 4 * MB


FLOOD = """
import socket, sys, threading, time
path, token = sys.argv[1:]
def one():
    try:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(path)
        head = f"POST /r/{token}/v1/messages HTTP/1.1\\r\\nHost: x\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n"
        connection.sendall(head.encode())
        piece = b"10000\\r\\n" + b"x" * 0x10000 + b"\\r\\n"
        while True:
            connection.sendall(piece)
    except OSError:
        pass
threads = [threading.Thread(target=one) for _ in range(196)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("all cut")
"""


def test_bodies_that_never_end_leave_a_neighbour_alone(gateway: Gateway, call: Caller, run: Run) -> None:
    flooding, neighbour = run(program()), run(program(1))
    told: list[str] = []

    def flood() -> None:
        path = f"/acpbench/model/{socket_name(flooding)}"
        told.append(call.python(FLOOD, path, flooding))

    thread = threading.Thread(target=flood)
    thread.start()
    statuses = []
    while thread.is_alive():
        statuses.append(call("POST", f"/r/{neighbour}/v1/messages", said("x"))[0])
    thread.join()
    assert told == ["all cut\n"]
    assert statuses
    assert set(statuses) == {200}
    assert {entry.kind for entry in ledger(gateway, neighbour).entries} == {"main"}
    entries = ledger(gateway, flooding).entries
    assert {entry.limit for entry in entries} <= {
        "held-bytes",
        "request-bytes",
        "open-requests",
        "connections",
        "refusals",
    }
    assert {entry.kind for entry in entries} == {"refused"}
    assert gateway.peak_mb() < PEAK_MB


def test_the_largest_bodies_cost_bounded_memory(gateway: Gateway, call: Caller, run: Run) -> None:
    token = run(program(1))
    wide = said("x" * 9_800_000 + "😀")
    for body in (said("x" * 9_900_000), wide, wide, said("é" * 4_900_000), wide):
        assert call("POST", f"/r/{token}/v1/messages", body)[0] == 200
    assert [entry.request.body == wide.decode() for entry in ledger(gateway, token).entries].count(True) == 3
    assert gateway.peak_mb() < PEAK_MB


@pytest.mark.parametrize("mode", ["capture", "live"])
def test_what_is_refused_never_reaches_the_upstream(place: Place, mode: str) -> None:
    gateway = place.start()
    token = place.register(gateway, mode)
    path = f"/r/{token}/v1/messages"
    tries: list[tuple[bytes, dict[str, str]]] = [
        (said("x" * 11 * MB), {}),
        (b"\x1f\x8b" + bytes(100), {"Content-Encoding": "gzip"}),
        (b"[" * 5000, {}),
        (b'{"model":"a","model":"b","messages":[]}', {}),
    ]
    statuses = [place.call("POST", path, body, headers)[0] for body, headers in tries]
    assert statuses == [413, 415, 400, 400]
    assert place.api.asked == []
    assert place.ask(token)[0] == 200
    assert len(place.api.asked) == 1
    entries = ledger(gateway, token).entries
    assert [entry.kind for entry in entries] == ["refused"] * 4 + ["main"]
    assert (place.lost, place.spent) == ([], [])


def test_a_replay_refuses_the_same(place: Place) -> None:
    gateway = place.start()
    token = replay(place, gateway, [])
    assert place.call("POST", f"/r/{token}/v1/messages", b"[" * 5000)[0] == 400
    values = b'{"model":"m","messages":[' + b'{"role":"user","content":"x"},' * 40_000 + b"{}]}"
    assert place.call("POST", f"/r/{token}/v1/messages", values)[0] == 400
    entries = ledger(gateway, token).entries
    assert [(entry.kind, entry.limit) for entry in entries] == [("refused", "json-depth"), ("miss", None)]


def test_figures_of_an_upstream_that_cannot_be_are_none(place: Place) -> None:
    gateway = place.start()
    for usage in ({"input_tokens": 1e308}, {"input_tokens": -5, "output_tokens": 1}, {"output_tokens": 10**15}):
        place.api.replies = [Reply(json.dumps({"content": [], "usage": usage}).encode())]
        token = place.register(gateway, "live")
        assert place.ask(token)[0] == 200
        (entry,) = ledger(gateway, token).entries
        assert (entry.kind, entry.usage) == ("main", None)


def test_requests_after_a_runs_end_reach_nobody(gateway: Gateway, call: Caller, run: Run) -> None:
    token = run(program())
    connection = call.open("timeout", "20", token=token)
    call("GET", f"/r/{token}/v1/models")
    entries: list[Any] = ledger(gateway, token).entries
    assert [entry.kind for entry in entries] == ["side"]
    # Its open connections went with it.
    assert b"".join(chunk.data for chunk in connection.chunks()) == b""
    connection.close()
    assert "No such file" in call.shell(f"socat - UNIX-CONNECT:/acpbench/model/{socket_name(token)} </dev/null")
