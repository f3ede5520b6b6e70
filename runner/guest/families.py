"""The proof of the address families: what kinds of socket can be opened here? It opens one of each and looks.

It holds for whatever process it is made in, and asks nothing of how that was started.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket

from .fixture import ProofResult
from .seccomp import AF_INET, AF_UNIX, SOCKETS, STREAM
from .syscalls import ARCHITECTURES

NAME = "address-families"
#: Linux 6.18 knows 46 (AF_MAX in linux/socket.h); a newer one is asked for its newest too.
_FAMILIES = range(64)
_TYPES = {1: "stream", 2: "dgram", 3: "raw", 4: "rdm", 5: "seqpacket", 6: "dccp", 10: "packet"}
#: Internet protocols go to 255, MPTCP (262) and SMC (256) stand above.
_PROTOCOLS = range(1, 264)
#: A kernel may be built without the others; without these two the model cannot be reached.
_NEEDED: tuple[tuple[int, int], ...] = ((AF_UNIX, STREAM), (AF_INET, STREAM))
_VSOCK_HOST = 2
_VSOCK_S = 0.3


def prove() -> ProofResult:
    """`detail`: what opened where that is as it must be, else everything that is wrong."""
    try:
        opened: set[tuple[int, int]] = {
            (family, kind) for family in _FAMILIES for kind in _TYPES if opens(family, kind)
        }
        problems = [*_foreign(opened), *_foreign_protocols(), *_other_ways()]
    except OSError as error:
        return ProofResult(NAME, False, f"not checked: {error}")
    return ProofResult(NAME, not problems, ("; ".join(problems) if problems else ", ".join(_names(opened)))[:800])


def opens(family: int, kind: int, protocol: int = 0) -> bool:
    try:
        socket.socket(family, kind, protocol).close()
    except OSError:
        return False
    return True


def _foreign(opened: set[tuple[int, int]]) -> list[str]:
    allowed = {(family, kind) for family, (kinds, _) in SOCKETS.items() for kind in kinds}
    problems = [f"{name} opens" for name in _names(opened - allowed)]
    return problems + [f"{name} does not open" for name in _names(set(_NEEDED) - opened)]


def _foreign_protocols() -> list[str]:
    problems = []
    for family, (kinds, protocols) in SOCKETS.items():
        for kind in kinds if protocols is not None else ():
            found = [number for number in _PROTOCOLS if number not in (protocols or ()) and opens(family, kind, number)]
            if found:
                problems.append(f"{_name(family, kind)} opens for protocols {', '.join(map(str, found[:20]))}")
    return problems


def _other_ways() -> list[str]:
    """What makes a socket without `socket`, and what one would reach."""
    problems = []
    if _ring_number() not in (errno.ENOSYS, errno.EPERM):
        problems.append("io_uring is there")
    if _reaches_host():
        problems.append("a vsock connection to the host was tried")
    return problems


def _ring_number() -> int:
    """The error of io_uring_setup(0, NULL); a kernel that has it says EFAULT or EINVAL."""
    libc = ctypes.CDLL(None, use_errno=True)
    calls = ARCHITECTURES.get(os.uname().machine, (0, {"io_uring_setup": 425}))[1]
    libc.syscall(ctypes.c_long(calls["io_uring_setup"]), ctypes.c_uint(0), None)
    return ctypes.get_errno()


def _reaches_host() -> bool:
    """Whether a connection to the machine that hosts this one leaves; only a socket that cannot be made is safe."""
    if not hasattr(socket, "AF_VSOCK"):
        return False
    try:
        with socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM) as probe:
            probe.settimeout(_VSOCK_S)
            probe.connect((_VSOCK_HOST, 9))
    except TimeoutError:
        return True
    except OSError as error:
        # ENODEV: this kernel is no guest of a virtual machine.
        return error.errno not in (errno.EAFNOSUPPORT, errno.EPERM, errno.EACCES, errno.ENODEV)
    return True


def _names(opened: set[tuple[int, int]]) -> list[str]:
    return [_name(family, kind) for family, kind in sorted(opened)]


def _name(family: int, kind: int) -> str:
    try:
        text = socket.AddressFamily(family).name.removeprefix("AF_").lower()
    except ValueError:
        text = f"family {family}"
    return f"{text} {_TYPES[kind]}"
