from __future__ import annotations

import base64
import json
import os
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.guest.channel import SHORT_TEXT, Channel, Dispatcher, OpError, Request, within
from tests.unit.guest.recorder import Recorder

LINES = st.lists(st.binary(max_size=40).map(lambda data: data.replace(b"\n", b" ")), max_size=8)


class Pipes:
    """A channel between two pipes, and the host's ends of them."""

    def __init__(self) -> None:
        read_fd, self.to_guest = os.pipe()
        self.from_guest, write_fd = os.pipe()
        self.fds = [read_fd, write_fd, self.to_guest, self.from_guest]
        self.channel = Channel(read_fd, write_fd)

    def close_host(self) -> None:
        self.fds.remove(self.to_guest)
        os.close(self.to_guest)

    def receive(self) -> dict[str, Any]:
        data = b""
        while not data.endswith(b"\n"):
            data += os.read(self.from_guest, 1 << 16)
        message: dict[str, Any] = json.loads(data)
        return message


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    made = Pipes()
    yield made
    for fd in made.fds:
        os.close(fd)


@given(LINES, st.lists(st.integers(1, 60), max_size=20))
def test_any_chunking_gives_the_same_lines(lines: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(line + b"\n" for line in lines) + b"a last line without its end"
    read_fd, write_fd = os.pipe()
    got: list[bytearray] = []
    reader = threading.Thread(target=lambda: got.extend(Channel(read_fd, -1).lines()))
    reader.start()
    for cut in cuts:
        piece, stream = stream[:cut], stream[cut:]
        os.write(write_fd, piece)
    os.write(write_fd, stream)
    os.close(write_fd)
    reader.join()
    os.close(read_fd)
    assert got == lines


def test_a_name_that_is_not_utf8_passes_unchanged(pipes: Pipes) -> None:
    name = os.fsdecode(b"caf\xe9\n\xff")
    pipes.channel.send({"path": name})
    assert os.fsencode(pipes.receive()["path"]) == b"caf\xe9\n\xff"


@given(st.binary(max_size=5))
def test_blobs_are_joined_to_one_base64_text(end: bytes) -> None:
    blob = bytes(3 * (1 << 18)) + end
    read_fd, write_fd = os.pipe()
    got: list[bytearray] = []
    reader = threading.Thread(target=lambda: got.extend(Channel(read_fd, -1).lines()))
    reader.start()
    Channel(-1, write_fd).send({"id": 1}, {"tar": blob, "other": b""})
    os.close(write_fd)
    reader.join()
    os.close(read_fd)
    (line,) = got
    message = json.loads(line)
    assert base64.b64decode(message["tar"], validate=True) == blob
    assert message["other"] == ""


@pytest.mark.parametrize(
    ("read", "args"),
    [
        (lambda request: request.text("x"), {}),
        (lambda request: request.text("x"), {"x": 1}),
        (lambda request: request.number("x"), {"x": True}),
        (lambda request: request.number("x"), {"x": "1"}),
        (lambda request: request.optional_number("x"), {"x": 1.5}),
        (lambda request: request.texts("x"), {"x": ["a", 1]}),
        (lambda request: request.texts("x"), {"x": "a"}),
        (lambda request: request.text_map("x"), {"x": {"a": None}}),
        (lambda request: request.blob("x"), {"x": "no base64!"}),
    ],
)
def test_a_wrong_argument_is_a_bad_request(read: Any, args: dict[str, Any]) -> None:
    with pytest.raises(OpError) as refused:
        read(Recorder().request(**args))
    assert refused.value.code == "bad_request"


def serve(pipes: Pipes, *requests: bytes) -> list[dict[str, Any]]:
    """Runs a dispatcher over the requests; one reply for each."""
    dispatcher = Dispatcher(pipes.channel)
    held: list[Request] = []

    def fail(_: Request) -> dict[str, Any]:
        raise ZeroDivisionError("oh")

    def refuse(_: Request) -> dict[str, Any]:
        raise OpError("no", "never")

    def release(request: Request) -> dict[str, Any]:
        held.pop().reply({"late": True})
        return {"late": False}

    dispatcher.register("echo", lambda request: {"echo": request.args})
    dispatcher.register("slow", lambda request: {"slow": request.text("x")}, slow=True)
    dispatcher.register("fail", fail)
    dispatcher.register("slow-fail", fail, slow=True)
    dispatcher.register("refuse", refuse)
    dispatcher.register("hold", held.append)
    dispatcher.register("release", release)
    thread = threading.Thread(target=dispatcher.run)
    thread.start()
    replies = []
    for request in requests:
        os.write(pipes.to_guest, request + b"\n")
        if b'"hold"' not in request:
            replies.append(pipes.receive())
        if b'"release"' in request and "late" in replies[-1] and replies[-1]["late"]:
            replies.append(pipes.receive())
    pipes.close_host()
    thread.join()
    return replies


def test_handlers_answer_quick_and_slow(pipes: Pipes) -> None:
    replies = serve(pipes, b'{"id":7,"op":"echo","a":[1]}', b'{"id":"x","op":"slow","x":"y"}')
    assert replies == [{"id": 7, "ok": True, "echo": {"a": [1]}}, {"id": "x", "ok": True, "slow": "y"}]


def test_an_exception_is_an_error_reply_and_the_guest_lives_on(pipes: Pipes) -> None:
    replies = serve(
        pipes,
        b'{"id":1,"op":"fail"}',
        b'{"id":2,"op":"slow-fail"}',
        b'{"id":3,"op":"refuse"}',
        b'{"id":4,"op":"nothing"}',
        b'{"id":5,"op":["echo"]}',
        b'{"id":6,"op":"echo"}',
    )
    codes = [reply.get("error", {}).get("code") for reply in replies]
    assert codes == ["internal", "internal", "no", "unknown_op", "unknown_op", None]
    assert "ZeroDivisionError" in replies[0]["error"]["message"]


@pytest.mark.parametrize(
    "line", [b"", b"nonsense", b"[]", b"3", b'{"op":"echo"}', b'{"id":1}', b"\xff", b"[" * 100_000]
)
def test_what_is_no_request_is_an_event(pipes: Pipes, line: bytes) -> None:
    (reply, after) = serve(pipes, line, b'{"id":1,"op":"echo"}')
    assert reply["event"] == "bad-request"
    assert after["ok"]


def test_a_file_is_sent_as_a_blob_is(pipes: Pipes) -> None:
    content = bytes(range(256)) * 5000
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        sent = threading.Thread(target=pipes.channel.send, args=({"id": 1}, {"tar": file}))
        sent.start()
        assert base64.b64decode(pipes.receive()["tar"]) == content
        sent.join()


@pytest.mark.parametrize("text", ["short ä", "ä" * SHORT_TEXT])
def test_text_is_replied_and_taken_as_it_is(text: str) -> None:
    recorder = Recorder()
    request = recorder.request()
    request.reply_text("content", text.encode(), size=3)
    (reply,) = recorder.sent
    assert reply["size"] == 3
    assert ("content" in reply) == (len(text.encode()) <= SHORT_TEXT)
    sent = base64.b64encode(text.encode()).decode()
    assert recorder.request(content=text).utf8("content") == text.encode()
    assert recorder.request(**{"content#utf8": sent}).utf8("content") == text.encode()


@given(st.lists(st.text(max_size=20), max_size=20), st.integers(0, 400))
def test_a_list_is_bounded_by_what_it_takes(items: list[str], limit: int) -> None:
    kept = within(items, limit)
    assert items[: len(kept)] == kept
    assert len(json.dumps(kept, separators=(",", ":"))) <= limit + 2
    assert kept == items or len(json.dumps(items[: len(kept) + 1], separators=(",", ":"))) > limit
