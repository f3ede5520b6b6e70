"""The conversation with the gateway, against a stand-in for its container's streams."""

from __future__ import annotations

import base64
import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runner.errors import AgentError, InfraError
from runner.gateway.control import Control, Miss
from runner.sandbox.stream import Channel, Chunk

Answer = Callable[["FakeStream", dict[str, Any]], None]


class FakeStream:
    """Answers each request by `answer`; `None` in the queue ends it."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.queue: queue.SimpleQueue[Chunk | None] = queue.SimpleQueue()
        self.answer = answer
        self.broken = False

    def send(self, *messages: dict[str, Any]) -> None:
        self.raw("stdout", b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def raw(self, channel: Channel, data: bytes) -> None:
        self.queue.put(Chunk(channel, time.monotonic_ns(), data))

    def die(self) -> None:
        self.queue.put(None)

    def write(self, data: bytes, timeout_s: float) -> None:
        if self.broken:
            raise AgentError("its standard input is closed (Broken pipe)")
        if self.answer is not None:
            self.answer(self, json.loads(data))

    def half_close(self) -> None:
        self.die()

    def chunks(self) -> Iterator[Chunk]:
        while (chunk := self.queue.get()) is not None:
            yield chunk

    def close(self) -> None:
        self.die()


def test_ready_and_replies_in_any_chunks() -> None:
    def answer(stream: FakeStream, request: dict[str, Any]) -> None:
        for byte in json.dumps({"id": request["id"], "ok": True, "run": request["run"]}).encode() + b"\n":
            stream.raw("stdout", bytes([byte]))

    stream = FakeStream(answer)
    control = Control(stream)
    stream.send({"event": "ready", "versions": {"node": "25.9.0"}})
    assert control.versions(5) == {"node": "25.9.0"}
    assert control.ask("register", run="é\u2028")["run"] == "é\u2028"
    assert control.alive
    assert control.close()


def test_a_journal_comes_in_pieces_that_are_asked_for() -> None:
    journal = bytes(range(256)) * 1000
    asked: list[int] = []

    def answer(stream: FakeStream, request: dict[str, Any]) -> None:
        asked.append(request["at"])
        piece = journal[request["at"] : request["at"] + 100_000]
        stream.send({"id": request["id"], "ok": True, "data": base64.b64encode(piece).decode()})

    control = Control(FakeStream(answer))
    pieces = control.journal("token", len(journal))
    assert next(pieces) == journal[:100_000]
    assert asked == [0]  # nothing is read ahead: no more than a piece is held
    assert b"".join(pieces) == journal[100_000:]
    assert asked == [0, 100_000, 200_000]
    control.close()


def test_a_journal_that_ends_too_soon_is_infra() -> None:
    stream = FakeStream(lambda stream, request: stream.send({"id": request["id"], "ok": True, "data": ""}))
    control = Control(stream)
    with pytest.raises(InfraError, match="announced 10 bytes and sent 0"):
        list(control.journal("token", 10))
    control.close()


def test_replies_reach_the_caller_they_belong_to() -> None:
    asked: list[dict[str, Any]] = []
    both = threading.Event()

    def answer(stream: FakeStream, request: dict[str, Any]) -> None:
        asked.append(request)
        if len(asked) == 2:
            stream.send(*({"id": one["id"], "ok": True, "run": one["run"]} for one in reversed(asked)))
            both.set()

    control = Control(FakeStream(answer))
    found: dict[str, Any] = {}
    threads = [
        threading.Thread(target=lambda n=n: found.update({n: control.ask("x", run=n)["run"]})) for n in ("a", "b")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert both.is_set()
    assert found == {"a": "a", "b": "b"}
    control.close()


def test_a_refusal_is_infra_with_its_words() -> None:
    error = {"code": "bad-request", "message": "this run is registered already"}
    stream = FakeStream(lambda stream, request: stream.send({"id": request["id"], "ok": False, "error": error}))
    control = Control(stream)
    with pytest.raises(InfraError, match="register: this run is registered already"):
        control.ask("register", run="x")
    control.close()


def test_silence_is_bounded() -> None:
    control = Control(FakeStream())
    with pytest.raises(InfraError, match=r"no answer to ping within 0.05 s"):
        control.ask("ping", timeout_s=0.05)
    control.close()


def test_its_death_ends_waiting_calls_and_is_told_once() -> None:
    deaths: list[str] = []

    def answer(stream: FakeStream, request: dict[str, Any]) -> None:
        stream.raw("stderr", b"Error: out of words\n")
        stream.die()

    stream = FakeStream(answer)
    control = Control(stream, on_death=deaths.append)
    started = time.monotonic()
    with pytest.raises(InfraError, match="it ended; its last words: Error: out of words"):
        control.ask("ping", timeout_s=30)
    assert time.monotonic() - started < 5
    assert not control.alive
    with pytest.raises(InfraError, match="it ended"):
        control.ask("ping")
    control.close()
    assert deaths == ["model gateway: it ended; its last words: Error: out of words"]


def test_an_end_we_asked_for_is_no_death() -> None:
    deaths: list[str] = []
    control = Control(FakeStream(), on_death=deaths.append)
    assert control.close()
    assert deaths == []


def test_a_closed_pipe_is_infra_not_the_agents_fault() -> None:
    stream = FakeStream()
    stream.broken = True
    control = Control(stream)
    with pytest.raises(InfraError, match="model gateway: its standard input is closed"):
        control.ask("ping")
    control.close()


def test_misses_are_told_as_they_happen_and_noise_is_survived() -> None:
    misses: list[Miss] = []
    stream = FakeStream(lambda stream, request: stream.send({"id": request["id"], "ok": True}))
    control = Control(stream, on_miss=misses.append)
    stream.raw("stdout", b"a warning of node\n")
    stream.send({"event": "miss", "run": "token", "reason": "no step 3", "nearest": "step 2 (say)"})
    control.ask("ping")
    assert misses == [Miss("token", "no step 3", "step 2 (say)")]
    control.close()
