"""The multiplexed stream over a socket pair: any cut gives the same bytes; a peer that does not read is named."""

from __future__ import annotations

import itertools
import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.errors import AgentError
from runner.sandbox.stream import AttachedStream


@pytest.fixture
def pair() -> Iterator[tuple[AttachedStream, socket.socket]]:
    ours, theirs = socket.socketpair()
    stream = AttachedStream(ours)
    yield stream, theirs
    stream.close()
    theirs.close()


def framed(kind: int, data: bytes) -> bytes:
    return struct.pack(">BxxxL", kind, len(data)) + data


@given(
    st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=300)), max_size=8),
    st.lists(st.integers(1, 40), min_size=1, max_size=6),
)
def test_any_cut_gives_the_same_bytes(parts: list[tuple[int, bytes]], cuts: list[int]) -> None:
    ours, theirs = socket.socketpair()
    stream = AttachedStream(ours)
    whole = b"".join(framed(kind, data) for kind, data in parts)

    def feed() -> None:
        rest, turn = whole, 0
        while rest:
            size = cuts[turn % len(cuts)]
            theirs.sendall(rest[:size])
            rest, turn = rest[size:], turn + 1
        theirs.close()

    feeder = threading.Thread(target=feed)
    feeder.start()
    chunks = list(stream.chunks())
    feeder.join()
    stream.close()
    for kind, channel in ((1, "stdout"), (2, "stderr")):
        sent = b"".join(data for k, data in parts if k == kind)
        assert b"".join(c.data for c in chunks if c.channel == channel) == sent
    assert all(a.t_ns <= b.t_ns for a, b in itertools.pairwise(chunks))


def test_a_connection_cut_inside_a_frame_ends_the_stream(pair: tuple[AttachedStream, socket.socket]) -> None:
    stream, theirs = pair
    theirs.sendall(framed(1, b"hello")[:-2])
    theirs.close()
    assert b"".join(chunk.data for chunk in stream.chunks()) == b"hel"


def test_half_close_reaches_the_peer_and_reading_goes_on(pair: tuple[AttachedStream, socket.socket]) -> None:
    stream, theirs = pair
    stream.half_close()
    assert theirs.recv(1) == b""
    theirs.sendall(framed(1, b"still here"))
    theirs.close()
    assert [chunk.data for chunk in stream.chunks()] == [b"still here"]


def test_a_peer_that_does_not_read_is_an_agent_error(pair: tuple[AttachedStream, socket.socket]) -> None:
    stream, _ = pair
    with pytest.raises(AgentError, match="does not read"):
        stream.write(b"x" * 10_000_000, timeout_s=0.05)


def test_a_closed_peer_is_an_agent_error(pair: tuple[AttachedStream, socket.socket]) -> None:
    stream, theirs = pair
    theirs.close()
    with pytest.raises(AgentError, match="closed"):
        stream.write(b"x")
