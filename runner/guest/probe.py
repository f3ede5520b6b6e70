"""Looks at the sandbox from where the agent will be: `python3 -I -S probe.py PID...` prints what it found as JSON.

The guest starts it as it starts the agent, so what holds for it holds for the agent. PIDs are processes that must be
out of its reach. Whatever it tries it gives up at once, and it changes nothing where it is let.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import resource
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

_SIOCGIFFLAGS = 0x8913
_IFF_UP = 0x1
#: Addresses kept for documentation (RFC 5737, RFC 3849): nobody is there, a network would be asked all the same.
_NOWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
_CONNECT_S = 0.3
#: How our own abstract names begin: the channel's (`supervisor.ADDRESS`), and those of `readiness`.
_OUR_NAMES = "@acpbench-"
_PTRACE_SEIZE = 0x4206


def main(argv: list[str]) -> int:
    found: dict[str, Any] = {"network": network(), "status": status(), "reached": reached([int(pid) for pid in argv])}
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


def network() -> list[str]:
    """What speaks against it: nothing but loopback is up, no route leaves it, a connection to the outside fails at
    once; nobody else has an abstract Unix socket here: they belong to the network stack, and the host's engine has
    some."""
    problems = [f"{name} is up" for name in _interfaces() if name != "lo" and _is_up(name)]
    routes = [line.split() for line in _read("/proc/net/route").splitlines()[1:]]
    problems += [f"a route through {fields[0]}" for fields in routes if fields and fields[0] != "lo"]
    routes = [line.split() for line in _read("/proc/net/ipv6_route").splitlines()]
    problems += [f"an IPv6 route through {fields[-1]}" for fields in routes if fields and fields[-1] != "lo"]
    for family, address in _NOWHERE:
        problem = _connects(family, address)
        if problem:
            problems.append(problem)
    return problems + [f"the abstract socket {name[:60]} is in reach" for name in _abstract_sockets()[:5]]


def _abstract_sockets() -> list[str]:
    lines = (line.split() for line in _read("/proc/net/unix").splitlines()[1:])
    names = {fields[7] for fields in lines if len(fields) > 7}
    return sorted(name for name in names if name.startswith("@") and not name.startswith(_OUR_NAMES))


def status() -> dict[str, str]:
    """Users, groups, capabilities and privileges of this process, as /proc/self/status says them."""
    lines = (line.partition(":") for line in _read("/proc/self/status").splitlines())
    return {name: value.strip() for name, _, value in lines}


def reached(pids: list[int]) -> list[str]:
    """What this process could do to others: signal, trace, look into, limit or slow them."""
    found = []
    for pid in pids:
        attempts: dict[str, Callable[[], object]] = {
            "signalled": lambda pid=pid: os.kill(pid, 0),  # type: ignore[misc]
            "traced": lambda pid=pid: _trace(pid),  # type: ignore[misc]
            "limited": lambda pid=pid: resource.prlimit(pid, resource.RLIMIT_NOFILE),  # type: ignore[misc]
            "scheduled": lambda pid=pid: os.sched_setscheduler(  # type: ignore[misc]
                pid, os.sched_getscheduler(pid), os.sched_getparam(pid)
            ),
            "slowed": lambda pid=pid: os.setpriority(  # type: ignore[misc]
                os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid)
            ),
            "bound": lambda pid=pid: os.sched_setaffinity(pid, os.sched_getaffinity(pid)),  # type: ignore[misc]
            "preferred for want of memory": lambda pid=pid: _open(pid, "oom_score_adj", os.O_WRONLY),  # type: ignore[misc]
            **{
                f"looked into ({name})": lambda pid=pid, name=name: _open(pid, name)  # type: ignore[misc]
                for name in ("fd", "mem", "environ", "maps", "cwd/", "root/")
            },
        }
        for what, attempt in attempts.items():
            try:
                attempt()
            except PermissionError:
                continue
            except OSError as error:
                found.append(f"process {pid}: not refused but {errno.errorcode.get(error.errno or 0)}: {what}")
            else:
                found.append(f"process {pid} can be {what}")
    return found


def _trace(pid: int) -> None:
    """SEIZE stops nobody, and ends with us."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(ctypes.c_long(_PTRACE_SEIZE), ctypes.c_long(pid), None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")


def _open(pid: int, name: str, flags: int = os.O_RDONLY) -> None:
    os.close(os.open(f"/proc/{pid}/{name}", flags | os.O_CLOEXEC))


def _interfaces() -> list[str]:
    return [line.partition(":")[0].strip() for line in _read("/proc/net/dev").splitlines()[2:]]


def _is_up(name: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        answer = fcntl.ioctl(probe, _SIOCGIFFLAGS, struct.pack("16sH14x", name.encode(), 0))
    return bool(struct.unpack("16sH14x", answer)[1] & _IFF_UP)


def _connects(family: int, address: str) -> str:
    """Empty when the kernel itself refuses; a timeout means that something was sent."""
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.settimeout(_CONNECT_S)
            probe.connect((address, 9))
    except TimeoutError:
        return f"a connection to {address} was tried"
    except OSError as error:
        if error.errno in (errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EHOSTUNREACH):
            return ""
        return f"a connection to {address} failed with {errno.errorcode.get(error.errno or 0, error)}"
    return f"a connection to {address} was made"


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
