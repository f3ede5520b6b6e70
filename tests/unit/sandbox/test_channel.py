"""The guest's channel over a socket pair: replies out of order, refusals, events, and a guest that dies."""

from __future__ import annotations

import base64
import json
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from runner.errors import InfraError
from runner.sandbox.channel import GuestBroken, GuestChannel, GuestRefused, reply_bytes
from runner.sandbox.stream import AttachedStream


class Guest:
    """The other end: reads calls, sends lines as the engine would frame them."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._file = end.makefile("rb")

    def next(self) -> dict[str, Any]:
        call: dict[str, Any] = json.loads(self._file.readline())
        return call

    def say(self, body: dict[str, Any] | bytes, kind: int = 1) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode() + b"\n"
        self._end.sendall(struct.pack(">BxxxL", kind, len(data)) + data)

    def die(self) -> None:
        self._file.close()
        self._end.close()


@pytest.fixture
def ends() -> Iterator[tuple[GuestChannel, Guest, list[dict[str, Any]]]]:
    ours, theirs = socket.socketpair()
    events: list[dict[str, Any]] = []
    channel = GuestChannel(AttachedStream(ours), events.append, name="test")
    guest = Guest(theirs)
    yield channel, guest, events
    guest.die()
    channel.close()


Ends = tuple[GuestChannel, Guest, list[dict[str, Any]]]


def test_replies_may_come_in_any_order(ends: Ends) -> None:
    channel, guest, _ = ends
    first, second = channel.submit("terminal.wait", terminal="t"), channel.submit("clock")
    a, b = guest.next(), guest.next()
    guest.say({"id": b["id"], "ok": True, "t_ns": 7})
    assert second.result(2)["t_ns"] == 7
    assert not first.done()
    guest.say({"id": a["id"], "ok": True, "exitCode": 0})
    assert first.result(2)["exitCode"] == 0


def test_replies_are_taken_while_a_call_is_written(ends: Ends) -> None:
    """A guest that is still answering does not read; it would wait for us while we wait for it."""
    channel, guest, _ = ends
    first = channel.submit("clock")
    call = guest.next()
    large = threading.Thread(target=channel.submit, args=("fs.write",), kwargs={"text": "x" * 10**7}, daemon=True)
    large.start()
    while not channel._writing.locked():
        time.sleep(0.001)
    guest.say({"id": call["id"], "ok": True, "t_ns": 7})
    assert first.result(5)["t_ns"] == 7
    assert large.is_alive()
    assert guest.next()["op"] == "fs.write"
    large.join(5)


def test_an_argument_may_have_any_name(ends: Ends) -> None:
    channel, guest, _ = ends
    future = channel.submit("verify", timeout_s=3, name="x")
    call = guest.next()
    assert (call["op"], call["timeout_s"], call["name"]) == ("verify", 3, "x")
    guest.say({"id": call["id"], "ok": True})
    future.result(2)


def test_a_refusal_has_its_code(ends: Ends) -> None:
    channel, guest, _ = ends
    future = channel.submit("fs.read")
    guest.say({"id": guest.next()["id"], "ok": False, "error": {"code": "denied", "message": "outside"}})
    with pytest.raises(GuestRefused, match="outside") as caught:
        future.result(2)
    assert caught.value.code == "denied"


def test_events_and_split_lines(ends: Ends) -> None:
    channel, guest, events = ends
    line = json.dumps({"event": "exit", "code": 0}).encode() + b"\n"
    guest.say(line[:5])
    guest.say(line[5:])
    future = channel.submit("clock")
    guest.say({"id": guest.next()["id"], "ok": True})
    future.result(2)
    assert events == [{"event": "exit", "code": 0}]


def test_a_dead_guest_fails_what_waits_and_what_comes(ends: Ends) -> None:
    channel, guest, events = ends
    future = channel.submit("clock")
    guest.next()
    guest.say(b"MemoryError\n", kind=2)
    guest.die()
    with pytest.raises(InfraError, match="MemoryError"):
        future.result(2)
    with pytest.raises(InfraError, match="gone"):
        channel.call("clock", 1)
    assert events[-1]["event"] == "gone"


def test_a_silent_guest_is_infra(ends: Ends) -> None:
    channel, _, _ = ends
    with pytest.raises(InfraError, match=r"did not answer 'clock' within 0\.05 s"):
        channel.call("clock", 0.05)


def test_ids_cannot_be_guessed(ends: Ends) -> None:
    channel, guest, _ = ends
    idents = set()
    for _ in range(20):
        channel.submit("clock")
        idents.add(guest.next()["id"])
    assert len(idents) == 20
    assert all(re.fullmatch("[0-9a-f]{32}", ident) for ident in idents)


def test_long_text_comes_as_text(ends: Ends) -> None:
    channel, guest, _ = ends
    future = channel.submit("fs.read", path="/a")
    text = base64.b64encode("grüße\n".encode()).decode()
    guest.say({"id": guest.next()["id"], "ok": True, "size": 9, "content#utf8": text})
    assert future.result(2)["content"] == "grüße\n"


#: What is no guest's word, with the id of the call that waits in place of ID.
FOREIGN: dict[str, bytes] = {
    "no JSON": b"Traceback (most recent call last):\n",
    "no object": b"[1]\n",
    "deep": b"[" * 100_000 + b"\n",
    "a guessed id": b'{"id": 1, "ok": true}\n',
    "no id": b'{"ok": true}\n',
    "an id of another kind": b'{"id": ["ID"], "ok": true}\n',
    "a reply that is too long": b'{"id": "ID", "ok": true, "x": "' + b"x" * (5 << 20) + b'"}\n',
    "an event that is too long": b'{"event": "x", "x": "' + b"x" * (5 << 20) + b'"}\n',
    "a line without an end": b'{"id": "ID", "ok": true, "x": "' + b"x" * (5 << 20),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_is_no_guest_s_word_ends_the_channel(ends: Ends, name: str) -> None:
    channel, guest, events = ends
    future = channel.submit("clock")
    line = FOREIGN[name].replace(b"ID", guest.next()["id"].encode())
    writer = threading.Thread(target=_say_what_goes, args=(guest, line))
    writer.start()
    with pytest.raises(GuestBroken, match="the guest's channel broke"):
        future.result(5)
    writer.join(5)
    with pytest.raises(GuestBroken):
        channel.call("clock", 1)
    assert [event["event"] for event in events] == ["gone"]


def _say_what_goes(guest: Guest, line: bytes) -> None:
    try:
        guest.say(line)
    except OSError:
        return  # it has hung up


def test_what_was_asked_says_how_long_a_reply_may_be(ends: Ends) -> None:
    """A large one beside a small one: each is judged by its own."""
    channel, guest, _ = ends
    small, large = channel.submit("clock"), channel.submit("collect", cap_bytes=30_000_000)
    guest.next()
    ident = guest.next()["id"]
    guest.say(b'{"id": "%s", "ok": true, "tar": "%s"}\n' % (ident.encode(), b"x" * 20_000_000))
    assert len(large.result(10)["tar"]) == 20_000_000
    assert not small.done()
    assert reply_bytes("collect", {"cap_bytes": 10**8}) > 4 * 10**8 // 3
    assert reply_bytes("verify", {}) > (64 << 20) * 4 // 3
    assert reply_bytes("clock", {}) < 8 << 20


ENDLESS = """
import socket, struct, threading
from runner.sandbox.channel import GuestBroken, GuestChannel
from runner.sandbox.stream import AttachedStream
ours, theirs = socket.socketpair()
channel = GuestChannel(AttachedStream(ours), lambda event: None, name="test")
future = channel.submit("collect", cap_bytes=10_000_000)
block = b"x" * 1_000_000
def flood():
    try:
        for _ in range(600):
            theirs.sendall(struct.pack(">BxxxL", 1, len(block)) + block)
    except OSError:
        pass
threading.Thread(target=flood, daemon=True).start()
try:
    future.result(60)
except GuestBroken as problem:
    print(problem)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def test_600_mb_without_an_end_leave_our_memory_flat() -> None:
    done = subprocess.run([sys.executable, "-c", ENDLESS], capture_output=True, text=True, check=True, timeout=100)
    told, peak_kb = done.stdout.splitlines()
    assert told.startswith("the guest's channel broke: a line of more than")
    assert int(peak_kb) < 200_000
