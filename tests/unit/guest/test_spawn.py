from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from runner.guest import procs, spawn, untrusted
from runner.guest.channel import OpError
from runner.guest.untrusted import AGENT, User

ENV = {"PATH": "/usr/bin:/bin"}


def output(*argv: str, **options: object) -> str:
    reading, writing = os.pipe2(os.O_CLOEXEC)
    try:
        pid = spawn.spawn(argv, AGENT, env=ENV, stdout=writing, **options)  # type: ignore[arg-type]
    finally:
        os.close(writing)
    with open(reading) as stream:
        text = stream.read()
    assert os.waitpid(pid, 0)[1] == 0
    return text


def inherited() -> set[str]:
    """What this test was itself started with beyond its streams; the guest closes such (`supervisor.main`)."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if int(name) > 2 and os.get_inheritable(int(name)):
                found.add(name)
    return found


def children() -> set[int]:
    """Pids of this process's children, other tests' too, zombies among them."""
    return {process.pid for process in procs.snapshot().values() if process.parent == os.getpid()}


def test_a_program_has_what_it_was_given_and_no_more(tmp_path: Path) -> None:
    assert output("pwd", cwd=str(tmp_path)) == f"{tmp_path}\n"
    assert output("env") == "PATH=/usr/bin:/bin\n"
    assert output("cat") == ""
    session, pid = output("sh", "-c", "ps -o sid= -p $$; echo $$").split()
    assert session == pid
    status = dict(line.split(":\t") for line in output("cat", "/proc/self/status").splitlines() if ":\t" in line)
    assert [int(status[name], 16) for name in ("SigBlk", "SigCgt")] == [0, 0]
    with open(tmp_path / "held", "w") as held:
        given = {"0", "1", "2", str(held.fileno())}
        found = set(output("ls", "/proc/self/fd", pass_fds=(held.fileno(),)).split()) - inherited()
        assert given <= found
        assert len(found) == len(given) + 1  # the folder that is being listed


@pytest.mark.parametrize(
    ("argv", "cwd", "words"),
    [
        (["no-such-program"], "/", "No such file"),
        (["/"], "/", "ermission denied"),
        (["true"], "/no/such/folder", "No such file"),
        (["a\0b"], "/", "null"),
    ],
)
def test_what_cannot_be_started_is_said(argv: list[str], cwd: str, words: str) -> None:
    before = children()
    with pytest.raises(OpError, match=words) as refused:
        spawn.spawn(argv, AGENT, env=ENV, cwd=cwd)
    assert refused.value.code == "spawn_failed"
    assert children() <= before


def test_who_is_stopped_before_its_exec_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an agent can stop what has just become its user."""
    monkeypatch.setattr(spawn, "conditions", lambda user: os.kill(os.getpid(), signal.SIGSTOP))
    with pytest.raises(OpError, match="stopped before it began"):
        spawn.spawn(["true"], AGENT, env=ENV)


def test_where_there_is_one_user_nothing_is_changed() -> None:
    """The guest on a host, in tests: whatever it starts is its own user's, and no other's is signalled."""
    assert not untrusted.settle()
    assert not untrusted.settled()
    assert output("id", "-u") == f"{os.geteuid()}\n"
    present = procs.snapshot().keys()
    pid = spawn.spawn(["sleep", "60"], User(12345, 12345, oom=0), env=ENV)
    mine = untrusted.Untrusted(lambda: present)
    reaping = threading.Thread(target=os.waitpid, args=(pid, 0))
    reaping.start()
    assert [process.pid for process in mine.living()] == [pid]
    mine.freeze()
    while (process := procs.look(pid)) is not None and process.state != "T":
        time.sleep(0.01)
    assert mine.end() == []
    reaping.join(10)
