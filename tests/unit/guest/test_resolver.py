"""The name server's log: which names come out of it, and what becomes of one that does not start or ends early."""

from __future__ import annotations

import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from runner.guest import resolver
from runner.guest.channel import OpError, Request
from runner.guest.reaper import Ended, Reaper
from runner.guest.resolver import NameServer
from runner.guest.untrusted import HELPER, User
from tests.unit.guest.recorder import Recorder

QUERY = r"query\[(?!PTR)[^\]]+\] (\S+) from"


def request(**fields: Any) -> Request:
    return Recorder().request(**fields)


class Starter(Reaper):
    """Starts children as the reaper does, and leaves the waiting to the test: the real one waits for all there are."""

    def __init__(self) -> None:
        super().__init__()
        self.children: list[subprocess.Popen[bytes]] = []

    def spawn(
        self,
        argv: Sequence[str],
        on_end: Callable[[Ended], None],
        *,
        user: User,
        env: Mapping[str, str],
        cwd: str | None = None,
        **options: Any,
    ) -> int:
        assert user == HELPER
        try:
            child = subprocess.Popen(argv, env=env, cwd=cwd, **options)
        except OSError as error:
            raise OpError("spawn_failed", str(error)) from error
        self.children.append(child)
        if argv == ["false"]:
            on_end(Ended(child.pid, child.wait(), None, time.monotonic_ns(), 0.0))
        return child.pid


@pytest.fixture
def reaper() -> Iterator[Starter]:
    mine = Starter()
    yield mine
    for child in mine.children:
        child.kill()
        child.wait()


@pytest.fixture
def listening(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolver, "_listening", lambda: True)


def says(*lines: str, then: str = "") -> list[str]:
    """A program that logs these lines; the last command keeps it."""
    return ["sh", "-c", "".join(f"echo {shlex.quote(line)}; " for line in lines) + then]


def asked(of: NameServer) -> dict[str, int]:
    return dict(of.names(request())["names"])


@pytest.mark.usefixtures("listening")
def test_names_are_those_of_the_questions(reaper: Starter) -> None:
    mine = NameServer(reaper)
    log = says(
        "dnsmasq: started, version 2.91",
        "dnsmasq: query[A] Data.Example.org from 127.0.0.1",
        "dnsmasq: query[AAAA] data.example.org. from 127.0.0.1",
        "dnsmasq: query[HTTPS] api.example.com from 127.0.0.1",
        "dnsmasq: query[PTR] 1.0.0.127.in-addr.arpa from 127.0.0.1",
        f"dnsmasq: query[A] {socket.gethostname()} from 127.0.0.1",
        "dnsmasq: config error is REFUSED (EDE: not ready)",
    )
    mine.resolve(request(argv=log, query=QUERY))
    assert asked(mine) == {"api.example.com": 1, "data.example.org": 2}


@pytest.mark.usefixtures("listening")
def test_nobody_can_make_the_list_grow_without_end(reaper: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolver, "_MAX_NAMES", 2)
    mine = NameServer(reaper)
    lines = [f"query[A] {name} from x" for name in ("a", "b", "c", "a", "d" * 400)]
    mine.resolve(request(argv=says(*lines), query=QUERY))
    assert asked(mine) == {"a": 2, "b": 1}


@pytest.mark.usefixtures("listening")
def test_one_at_a_time_and_known_by_its_process(reaper: Starter) -> None:
    mine = NameServer(reaper)
    assert mine.root() == []
    pid = mine.resolve(request(argv=says(then="exec sleep 60"), query=QUERY))["pid"]
    assert mine.root() == [pid]
    with pytest.raises(OpError, match="runs already"):
        mine.resolve(request(argv=says(), query=QUERY))


def test_one_that_ends_at_once_is_not_ready(reaper: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolver, "_listening", lambda: False)
    mine = NameServer(reaper)
    with pytest.raises(OpError, match="does not listen"):
        mine.resolve(request(argv=["false"], query=QUERY))
    assert mine.root() == []
    assert mine.names(request())["ended_ns"] <= time.monotonic_ns()


@pytest.mark.parametrize(
    ("argv", "query", "code"),
    [([sys.executable], "(", "bad_request"), (["/nowhere/dnsmasq"], QUERY, "spawn_failed")],
)
def test_what_cannot_be_started(argv: list[str], query: str, code: str, reaper: Starter) -> None:
    mine = NameServer(reaper)
    with pytest.raises(OpError) as failed:
        mine.resolve(request(argv=argv, query=query))
    assert failed.value.code == code
    assert mine.root() == []
    assert asked(mine) == {}


@pytest.mark.parametrize(
    ("table", "there"),
    [("  1: 0100007F:0035 00000000:0000 07", True), ("  1: 0100007F:0135 00000000:0035 07", False), ("", False)],
)
def test_whether_anybody_listens_is_read_from_the_kernel(
    table: str, there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "udp").write_text(f"  sl  local_address rem_address   st\n{table}\n")
    monkeypatch.setattr(resolver, "_TABLE", str(tmp_path / "udp"))
    assert resolver._listening() is there
