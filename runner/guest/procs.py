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


class Process(NamedTuple):
    """One line of /proc/<pid>/stat."""

    pid: int
    parent: int
    session: int
    state: str


def snapshot() -> dict[int, Process]:
    """Every process of our pid namespace, by pid."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            text = read(f"/proc/{name}/stat")
            if text:
                found[int(name)] = _parse(int(name), text)
    return found


def _parse(pid: int, text: str) -> Process:
    """The command name (in brackets) may hold anything, brackets and spaces too: read from its last bracket on."""
    fields = text[text.rindex(")") + 2 :].split()
    return Process(pid=pid, state=fields[0], parent=int(fields[1]), session=int(fields[3]))


def descendants(root: int, without: Iterable[int] = ()) -> list[Process]:
    """The living processes below `root`, not those in `without` nor what descends from them. Zombies are not living."""
    everyone = snapshot()
    children: dict[int, list[Process]] = {}
    for process in everyone.values():
        children.setdefault(process.parent, []).append(process)
    skipped = set(without)
    found, queue = [], [root]
    while queue:
        for process in children.get(queue.pop(), []):
            if process.pid not in skipped:
                queue.append(process.pid)
                if process.state not in "ZX":
                    found.append(process)
    return found


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


def reap(known: Iterable[int]) -> None:
    """Waits for our children that have ended, but for those in `known`: orphans that we have adopted."""
    own_pid, skipped = os.getpid(), set(known)
    for process in snapshot().values():
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
    """Arguments joined by spaces, at most 400 characters; the name in brackets where there are none."""
    words = read(f"/proc/{pid}/cmdline").rstrip("\0").replace("\0", " ")
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


def prefer_for_oom(pid: int) -> None:
    """Makes the kernel choose this process and its children before the guest when memory runs out.

    A process that has just been executed may for a moment still count as hidden (`system.hide`), hence the tries.
    """
    for _ in range(20):
        with contextlib.suppress(PermissionError):
            try:
                with open(f"/proc/{pid}/oom_score_adj", "w", encoding="ascii") as stream:
                    stream.write("1000")
            except (FileNotFoundError, ProcessLookupError):
                pass
            return
        time.sleep(0.0005)
