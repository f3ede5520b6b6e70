"""Processes as /proc shows them: who descends from whom, what they have used, and how to end all of them."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
#: States of a thread that has ended: zombie, dead.
_ENDED = "ZX"
#: Of the fields of a stat file behind the name in brackets (proc(5) counts from 1, and the state is its third).
_VSIZE = 20


class Process(NamedTuple):
    """One line of /proc/<pid>/stat, which tells of the process's main thread."""

    pid: int
    parent: int
    session: int
    state: str

    @property
    def alive(self) -> bool:
        """Whether a thread of it lives: the main thread can end (state Z) while others work on."""
        return self.state not in _ENDED or living_thread(self.pid) is not None


def snapshot(uid: int | None = None) -> dict[int, Process]:
    """Every process of our pid namespace, by pid; or those of one (effective) user."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (uid is None or _owner(name) == uid):
            process = look(int(name))
            if process is not None:
                found[process.pid] = process
    return found


def look(pid: int) -> Process | None:
    """One process; None if there is none."""
    text = read(f"/proc/{pid}/stat")
    return _parse(pid, text) if text else None


def _owner(name: str) -> int | None:
    """The folder of a process is its effective user's, whether it hides its files or not (proc(5), `dumpable`)."""
    try:
        return os.stat(f"/proc/{name}").st_uid
    except OSError:
        return None


def _parse(pid: int, text: str) -> Process:
    """The command name (in brackets) may hold anything, brackets and spaces too: read from its last bracket on."""
    fields = text[text.rindex(")") + 2 :].split()
    return Process(pid=pid, state=fields[0], parent=int(fields[1]), session=int(fields[3]))


def living_thread(pid: int, *, leaving: bool = True) -> int | None:
    """A thread of a process that has not ended, the main one first.

    `leaving`: also one that has let go of its memory (vsize 0): it is on its way out and runs no code of its program.
    """
    try:
        names = sorted(os.listdir(f"/proc/{pid}/task"), key=int)
    except OSError:
        return None
    for name in names:
        text = read(f"/proc/{pid}/task/{name}/stat")
        if not text or _parse(int(name), text).state in _ENDED:
            continue
        if leaving or text[text.rindex(")") + 2 :].split()[_VSIZE] != "0":
            return int(name)
    return None


def descendants(root: int, without: Iterable[int] = (), *, dead: bool = False) -> list[Process]:
    """The living processes below `root`, not those in `without` nor what descends from them; see `Process.alive`.

    `dead`: those that have ended too; as long as nobody has waited for them their counters are theirs.
    """
    everyone = snapshot()
    children: dict[int, list[Process]] = {}
    for process in everyone.values():
        children.setdefault(process.parent, []).append(process)
    skipped = set(without)
    processes, queue = [], [root]
    while queue:
        for process in children.get(queue.pop(), []):
            if process.pid not in skipped:
                queue.append(process.pid)
                if dead or process.alive:
                    processes.append(process)
    return processes


def end_all(list_targets: Callable[[], list[Process]], limit_s: float = 5.0) -> list[Process]:
    """Stops and then kills until `list_targets` finds nobody. Returns who is left after `limit_s`.

    Stopping first is what beats a fork bomb: a stopped process forks no more, so each round has fewer to find.
    """
    deadline = time.monotonic() + limit_s
    while True:
        stopped: set[int] = set()
        while fresh := [process for process in list_targets() if process.pid not in stopped]:
            for process in fresh:
                send(process.pid, signal.SIGSTOP)
                stopped.add(process.pid)
            if time.monotonic() > deadline:
                break
        targets = list_targets()
        for process in targets:
            send(process.pid, signal.SIGKILL)
        if not targets or time.monotonic() > deadline:
            return targets
        time.sleep(0.001)


def reap(known: Iterable[int], uid: int | None = None) -> None:
    """Waits for our children that have ended, but for those in `known`: orphans that we have adopted. Of one user, or
    of all."""
    own_pid, skipped = os.getpid(), set(known)
    for process in snapshot(uid).values():
        if process.parent == own_pid and process.state == "Z" and process.pid not in skipped:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)


def send(pid: int, number: int) -> bool:
    """Signals a process; False if it is gone."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def read(path: str) -> str:
    """A file of /proc as text; empty if its process is gone or it is not ours to read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(fd, 1 << 16).decode("utf-8", "surrogateescape")
    except OSError:
        return ""
    finally:
        os.close(fd)


def command_line(pid: int) -> str:
    """Arguments joined by spaces, at most 400 characters; the name in brackets where there are none.

    Asked of a thread that lives: one that has ended has let go of them.
    """
    words = read(f"/proc/{living_thread(pid) or pid}/cmdline").rstrip("\0").replace("\0", " ")
    return words[:400] if words else f"[{read(f'/proc/{pid}/comm').strip()}]"


def cpu_s(pid: int) -> float:
    """Seconds of cpu of a process and of its children that it has waited for; 0 if it is gone.

    Its own part is exact (schedstat), its children's is counted in ticks.
    """
    text = read(f"/proc/{pid}/stat")
    if not text:
        return 0.0
    fields = text[text.rindex(")") + 2 :].split()
    waited = (int(fields[13]) + int(fields[14])) * _TICK_S
    precise = read(f"/proc/{pid}/schedstat").split()
    own = int(precise[0]) / 1e9 if precise else (int(fields[11]) + int(fields[12])) * _TICK_S
    return own + waited


def anonymous_bytes(pid: int) -> int:
    """Resident memory without file and shared pages; 0 if the process is gone."""
    fields = read(f"/proc/{pid}/statm").split()
    return (int(fields[1]) - int(fields[2])) * _PAGE if fields else 0


def written_bytes(text: str) -> int:
    """`write_bytes` of a /proc/<pid>/io text: the process, its threads and the children it has waited for."""
    for line in text.splitlines():
        if line.startswith("write_bytes:"):
            return int(line.partition(":")[2])
    return 0
