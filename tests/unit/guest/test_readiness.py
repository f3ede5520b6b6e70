"""Servers say that they are ready by sd_notify's datagram; whatever else is sent says nothing and costs nothing."""

from __future__ import annotations

import contextlib
import secrets
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from runner.guest.channel import OpError
from runner.guest.readiness import Readiness
from tests.unit.guest.recorder import Recorder


@pytest.fixture
def channel() -> Recorder:
    return Recorder()


@pytest.fixture
def address() -> str:
    return f"@acpbench-test-{secrets.token_hex(8)}"


@pytest.fixture
def readiness(channel: Recorder) -> Iterator[Readiness]:
    made = Readiness(channel)
    yield made
    made.listen(channel.request(addresses=[]))


def say(address: str, data: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(data, "\0" + address[1:])


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_each_is_told_once(channel: Recorder, readiness: Readiness, address: str) -> None:
    other = f"{address}-2"
    assert readiness.listen(channel.request(addresses=[address, other])) == {}
    say(address, b"STATUS=starting")
    say(address, b"STATUS=on\nREADY=1\n")
    until(lambda: bool(channel.sent))
    assert channel.sent == [{"event": "ready", "address": address}]
    say(other, b"READY=1")
    until(lambda: len(channel.sent) == 2)
    assert channel.sent[1] == {"event": "ready", "address": other}


def test_a_flood_is_no_longer_listened_to(channel: Recorder, readiness: Readiness, address: str) -> None:
    readiness.listen(channel.request(addresses=[address]))
    told = 0
    with contextlib.suppress(ConnectionRefusedError):
        for told in range(10_000):  # noqa: B007
            say(address, b"x")
    assert told < 10_000 - 1
    assert channel.sent == []


def test_a_later_run_listens_anew(channel: Recorder, readiness: Readiness, address: str) -> None:
    for _ in range(3):
        readiness.listen(channel.request(addresses=[address]))
    say(address, b"READY=1")
    until(lambda: bool(channel.sent))


@pytest.mark.parametrize("addresses", [["/tmp/x"], ["@x"] * 33])
def test_addresses_that_are_none(channel: Recorder, readiness: Readiness, addresses: list[str]) -> None:
    with pytest.raises(OpError, match="addresses"):
        readiness.listen(channel.request(addresses=addresses))


def test_an_address_that_is_taken(channel: Recorder, readiness: Readiness, address: str) -> None:
    with pytest.raises(OpError, match="Address already in use"):
        readiness.listen(channel.request(addresses=[address, address]))
