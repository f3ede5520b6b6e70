"""The way into the driver's loop: frames wait for room, the guest's news never do."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from runner.errors import AgentError
from runner.surfaces import pipe
from runner.surfaces.pipe import AgentPipe, Done, Inbox
from runner.wire.frames import Frame


def frame(number: int) -> Frame:
    return Frame(number, number, "a2c", "stdout", b"{}")


def test_news_of_the_guest_never_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver may be waiting for a reply, while whoever hands it in would wait for the driver."""
    monkeypatch.setattr(pipe, "_BACKLOG", 4)
    inbox = Inbox()
    for number in range(4):
        inbox.put(frame(number))
    news = Done(lambda: None)
    inbox.put(news)
    fifth = threading.Thread(target=inbox.put, args=(frame(4),), daemon=True)
    fifth.start()
    taken = [inbox.get(1) for _ in range(6)]
    fifth.join(5)
    assert not fifth.is_alive()
    assert taken[4] is news
    assert [item.seq for item in taken if isinstance(item, Frame)] == [0, 1, 2, 3, 4]


def test_nobody_waits_for_room_once_it_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe, "_BACKLOG", 1)
    inbox = Inbox()
    inbox.put(frame(0))
    waiting = threading.Thread(target=inbox.put, args=(frame(1),), daemon=True)
    waiting.start()
    inbox.abandon()
    waiting.join(5)
    assert not waiting.is_alive()
    inbox.put(frame(2))
    assert [item.seq for item in (inbox.get(1), inbox.get(0)) if isinstance(item, Frame)] == [0]


class Deaf:
    """A stream whose other side does not read."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, line: bytes) -> None:
        self.written.append(line)
        raise AgentError("does not read its standard input: 2 bytes unread")

    def half_close(self) -> None:
        pass


def test_after_half_a_line_nothing_is_sent(tmp_path: Any) -> None:
    stream: Any = Deaf()
    agent = AgentPipe(stream, Inbox(), tmp_path, 10**6, 10**6)
    with pytest.raises(AgentError, match="does not read"):
        agent.send(b"{}\n")
    assert agent.send(b"{}\n") is None
    assert stream.written == [b"{}\n"]
