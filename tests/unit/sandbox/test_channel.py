"""The guest's channel over a socket pair: replies out of order, refusals, events, and a guest that dies."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from runner.errors import InfraError
from runner.sandbox.channel import GuestChannel, GuestRefused
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
