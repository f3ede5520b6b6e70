"""A real gateway in its container, and a caller that reaches it as an agent does: from another one, as uid 1000."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from docker import DockerClient

from runner.gateway.container import CollectedJournal, Gateway, socket_name
from runner.gateway.control import Miss
from runner.gateway.journal import JournalEntry, parse_journal
from runner.sandbox.container import USER, Container, Spec
from runner.sandbox.engine import connect
from runner.sandbox.images import Images
from runner.sandbox.labels import labels
from runner.sandbox.stream import AttachedStream
from tests.engine.speakers import Answer, Result, Speaker

SWEEP = f"test-{secrets.token_hex(4)}"


class _Received:
    """What http.client wants of a socket."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


@dataclass(frozen=True, slots=True)
class Ledger:
    """A run's journal as it came from the gateway."""

    entries: list[JournalEntry]
    lines: list[bytes]
    collected: CollectedJournal


def ledger(gateway: Gateway, token: str) -> Ledger:
    """Collect a run's journal; the gateway forgets the run."""
    pieces: list[bytes] = []
    collected = gateway.collect(token, pieces.extend)
    lines = b"".join(pieces).splitlines()
    entries = parse_journal(lines)
    assert collected.entries in (len(entries), None)
    return Ledger(entries, lines, collected)


class Caller:
    """An agent's stand-in: one connection per request, as uid 1000 with the model volume read-only."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._tokens: list[str] = []

    def knows(self, token: str) -> None:
        """A run was registered; a request that names no known one goes over the socket of the latest."""
        self._tokens.append(token)

    def socket(self, request: bytes = b"") -> str:
        named = [token for token in self._tokens if token.encode() in request.partition(b"\r\n\r\n")[0]]
        return f"/acpbench/model/{socket_name((named or self._tokens)[-1])}"

    def open(self, *more: str, token: str | None = None) -> AttachedStream:
        """A connection to a run's socket; `more` stands before socat on its command line."""
        path = self.socket((token or "").encode())
        return self._container.execute([*more, "socat", "-t", "0.02", "-", f"UNIX-CONNECT:{path}"], USER)

    def shell(self, command: str) -> str:
        """What a command line prints that is run where an agent would run it."""
        return self._printed(["/bin/sh", "-c", command])

    def python(self, program: str, *arguments: str) -> str:
        """What a Python program prints that is run there."""
        return self._printed(["python3", "-c", program, *arguments])

    def _printed(self, argv: list[str]) -> str:
        stream = self._container.execute(argv, USER)
        try:
            return b"".join(chunk.data for chunk in stream.chunks()).decode()
        finally:
            stream.close()

    def raw(self, request: bytes) -> bytes:
        # The answer's end is the server's EOF; ours never comes, so socat need not wait for it.
        argv = ["socat", "-t", "0.02", "-", f"UNIX-CONNECT:{self.socket(request)}"]
        stream = self._container.execute(argv, USER)
        try:
            stream.write(request)
            return b"".join(chunk.data for chunk in stream.chunks() if chunk.channel == "stdout")
        finally:
            stream.close()

    def __call__(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, str]:
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        head = {"Host": "model", "Connection": "close", "Content-Length": str(len(data)), **(headers or {})}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items()), "", ""]
        received = self.raw("\r\n".join(lines).encode() + data)
        response = http.client.HTTPResponse(_Received(received), method=method)  # type: ignore[arg-type]
        response.begin()
        return response.status, response.read().decode()


@pytest.fixture(scope="module")
def client() -> Iterator[DockerClient]:
    with contextlib.closing(connect()) as found:
        yield found


@pytest.fixture(scope="module")
def image(client: DockerClient) -> str:
    return Images(client).ensure("gateway").id


@pytest.fixture(scope="module")
def volumes(client: DockerClient) -> Iterator[tuple[str, str]]:
    names = (f"acpbench-{SWEEP}-model", f"acpbench-{SWEEP}-journal")
    for name in names:
        client.api.create_volume(name=name, labels=labels(SWEEP))
    yield names
    for name in names:
        client.api.remove_volume(name, force=True)


Start = Callable[..., Gateway]
Register = Callable[[dict[str, Any]], str]


@pytest.fixture(scope="module")
def start(client: DockerClient, image: str, volumes: tuple[str, str]) -> Start:
    def make(**more: Any) -> Gateway:
        name = f"acpbench-{SWEEP}-gateway-{secrets.token_hex(3)}"
        model, journal = volumes
        made = Gateway(
            client, image=image, name=name, model_volume=model, journal_volume=journal, labels=labels(SWEEP), **more
        )
        made.start()
        return made

    return make


@pytest.fixture(scope="module")
def misses() -> list[Miss]:
    return []


@pytest.fixture(scope="module")
def gateway(start: Start, misses: list[Miss]) -> Iterator[Gateway]:
    made = start(on_miss=misses.append)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def call(client: DockerClient, gateway: Gateway, image: str, volumes: tuple[str, str]) -> Iterator[Caller]:
    spec = Spec(
        name=f"acpbench-{SWEEP}-caller",
        image=image,
        command=["sleep", "600"],
        labels=labels(SWEEP),
        mounts={volumes[0]: "/acpbench/model"},
    )
    container = Container(client, spec)
    container.create()
    try:
        container.start()
        yield Caller(container)
    finally:
        container.remove()


def program(count: int = 3, **more: Any) -> dict[str, Any]:
    """`count` answers: all but the last call a tool, the last one says "done"."""
    made = [
        {
            "index": index,
            "say": f"step {index}" if index == 0 else None,
            "think": None,
            "calls": [
                {
                    "meaning": "run",
                    "alternatives": [
                        {"tool": "mcp__other__Bash", "arguments": {}},
                        {"tool": "Bash", "arguments": {"command": f"echo {index} é"}},
                    ],
                }
            ],
            "usage": {"input": 1000 + index, "output": 10 + index},
            "finish": "tool_use",
        }
        for index in range(count - 1)
    ]
    usage = {"input": 2000, "output": 20}
    made.append({"index": count - 1, "say": "done", "think": None, "calls": [], "usage": usage, "finish": "end_turn"})
    defaults = {
        "dialect": "anthropic",
        "steps": made,
        "side_requests": [],
        "streaming": {"chunk_size": 8},
        "latency": {"ttft_ms": 0.0, "tokens_per_s": None},
    }
    return {**defaults, **more}


def side_rule(**given: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("method", "path", "model", "body", "without_tools", "say", "call", "json_body"))
    return {**empty, "status": 200, **given}


@pytest.fixture
def run(gateway: Gateway, call: Caller) -> Callable[..., str]:
    def register(given: dict[str, Any], **more: Any) -> str:
        token = secrets.token_urlsafe(24)
        gateway.register(token, given, **more)
        call.knows(token)
        return token

    return register


class Turn:
    """One agent's turn with a registered program."""

    def __init__(self, call: Caller, token: str, speaker: Speaker, stream: bool = True) -> None:
        self.call, self.token, self.speaker, self.stream = call, token, speaker, stream
        self.history: list[Result] = []

    def raw(self, **asked: Any) -> tuple[int, str]:
        """Status and body of one answer."""
        return self.call("POST", f"/r/{self.token}{self.speaker.path(self.stream)}", self._body(asked))

    def bytes(self, **asked: Any) -> bytes:
        """Whatever came back before the connection's end."""
        body = json.dumps(self._body(asked)).encode()
        head = f"POST /r/{self.token}{self.speaker.path(self.stream)} HTTP/1.1\r\nHost: model\r\nConnection: close"
        return self.call.raw(f"{head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)

    def _body(self, asked: dict[str, Any]) -> dict[str, Any]:
        return self.speaker.ask(self.history, **{"prompt": "fix it", "stream": self.stream, **asked})

    def ask(self, result: str = "ok", failed: bool = False, **asked: Any) -> Answer:
        """One answer; its calls join the history with that result."""
        status, text = self.raw(**asked)
        assert status == 200, text
        answer = self.speaker.read(text, self.stream)
        self.history += [Result(number, result, failed, tool) for number, tool, _ in answer.calls]
        return answer
