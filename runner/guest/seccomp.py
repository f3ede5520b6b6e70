"""A seccomp filter of our own: which system calls the guest, and so everything that it starts, may make.

The engine's profile differs from engine to engine, and none of them keeps all address families out: AF_VSOCK reaches
the machine that hosts this one past `network_mode: none`. So the guest installs this filter in itself before its first
thread; whatever it starts inherits it and nobody can take it off. It comes on top of the engine's: the stricter answer
of the two counts.

Allowed on purpose, since real tools want them and they reach nothing of ours:
  ptrace, process_vm_readv, process_vm_writev: debuggers; the kernel asks for the right to trace, and nobody has it over
    the guest, which is not dumpable
  memfd_create, execveat: a program or a file in memory; counted as memory, and not on disk
  vmsplice, personality, name_to_handle_at: pipes, gdb's switch for address randomisation, an id of a mount
  seccomp, landlock_*: a program may only make its own rules stricter
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .syscalls import ARCHITECTURES

#: Instructions of classic BPF (linux/bpf_common.h): load a word of `struct seccomp_data`, and, jumps, return.
_LOAD, _AND, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
#: Answers (linux/seccomp.h).
_ALLOW, _ERRNO, _NOTIFY = 0x7FFF0000, 0x00050000, 0x7FC00000

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
STREAM, DGRAM, RAW, SEQPACKET = 1, 2, 3, 5
#: The rest of a type's argument are the flags SOCK_NONBLOCK and SOCK_CLOEXEC.
_TYPE_MASK = 0xF
NETLINK_ROUTE = 0
#: 0: the type's own one; TCP, UDP, and MPTCP, which Go's standard library asks for.
INTERNET_PROTOCOLS = (0, 6, 17, 262)
#: What may be opened: family -> (types, protocols; None: any).
SOCKETS: dict[int, tuple[tuple[int, ...], tuple[int, ...] | None]] = {
    AF_UNIX: ((STREAM, DGRAM, SEQPACKET), None),
    AF_INET: ((STREAM, DGRAM), INTERNET_PROTOCOLS),
    AF_INET6: ((STREAM, DGRAM), INTERNET_PROTOCOLS),
    # The list of interfaces, which C libraries and Node ask for; no other table of the kernel.
    AF_NETLINK: ((DGRAM, RAW), (NETLINK_ROUTE,)),
}
#: CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET: another network stack, other users, other mounts.
_NAMESPACES = 0x7E020000
#: Of unshare only: in clone that bit belongs to the signal's number.
_CLONE_NEWTIME = 0x80
#: fallocate modes that take no room: PUNCH_HOLE, COLLAPSE_RANGE, INSERT_RANGE.
_TAKES_NO_ROOM = 0x02 | 0x08 | 0x20
#: fallocate by other names, with its arguments behind a pointer: FS_IOC_RESVSP, FS_IOC_RESVSP64, FS_IOC_ZERO_RANGE,
#: XFS_IOC_ALLOCSP, XFS_IOC_ALLOCSP64.
_PREALLOCATING = (0x40305828, 0x4030582A, 0x40305839, 0x4030580A, 0x40305824)
#: FS_IOC_FSSETXATTR: sets how much a file takes at once, and the project whose quota it counts in.
_SET_FILE_ATTRIBUTES = 0x401C5820

#: Refused whatever their arguments are, and why.
_REFUSED: dict[str, int] = {
    # Makes sockets and files past every filter of system calls.
    "io_uring_setup": errno.ENOSYS,
    "io_uring_enter": errno.ENOSYS,
    "io_uring_register": errno.ENOSYS,
    # Its flags are behind a pointer, out of a filter's reach; C libraries then take clone.
    "clone3": errno.ENOSYS,
    # Takes descriptors out of other processes.
    "pidfd_getfd": errno.EPERM,
    # Keys belong to a user of the whole machine: a way from one run to the next.
    "keyctl": errno.EPERM,
    "add_key": errno.EPERM,
    "request_key": errno.EPERM,
    # Large parts of the kernel that no agent needs.
    "bpf": errno.EPERM,
    "userfaultfd": errno.EPERM,
    "perf_event_open": errno.EPERM,
    "kcmp": errno.EPERM,
    "fanotify_init": errno.EPERM,
    # The kernel's log tells of the host.
    "syslog": errno.EPERM,
    # The mounts are the engine's; and by a handle a file or a namespace is opened past them.
    "setns": errno.EPERM,
    "mount": errno.EPERM,
    "umount2": errno.EPERM,
    "pivot_root": errno.EPERM,
    "open_tree": errno.EPERM,
    "open_tree_attr": errno.EPERM,
    "move_mount": errno.EPERM,
    "fsopen": errno.EPERM,
    "fsconfig": errno.EPERM,
    "fsmount": errno.EPERM,
    "fspick": errno.EPERM,
    "mount_setattr": errno.EPERM,
    "open_by_handle_at": errno.EPERM,
    "kexec_load": errno.EPERM,
    # As FS_IOC_FSSETXATTR, behind a pointer.
    "file_setattr": errno.ENOSYS,
}

_PR_SET_DUMPABLE, _PR_GET_NO_NEW_PRIVS, _SET_MODE_FILTER = 4, 39, 1
_NEW_LISTENER, _WAIT_KILLABLE = 1 << 3, 1 << 5


class Instruction(NamedTuple):
    """`struct sock_filter`: a jump's two ways are counted in instructions from the next one."""

    code: int
    if_true: int
    if_false: int
    value: int


Code = list[Instruction]


def program(machine: str, *, notify: bool) -> Code:
    """The filter for a machine as `os.uname` names it. Raises KeyError for one that is not in the table.

    :param notify: an fallocate that takes room is told to the listener; without, it is refused (C libraries' own
        posix_fallocate then writes, and that is counted).
    """
    architecture, calls = ARCHITECTURES[machine]
    code = [
        Instruction(_LOAD, 0, 0, _ARCHITECTURE),
        # 32-bit programs: other numbers, and `socketcall` behind a pointer.
        *_unless_equal(architecture, _refuse(errno.ENOSYS)),
        Instruction(_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        # x32: the same calls by other numbers. -1 is no call: what a tracer skips.
        skipped = _choose([((0xFFFFFFFF,), _allow())], _refuse(errno.ENOSYS))
        code += [Instruction(_AT_LEAST, 0, len(skipped), 0x40000000), *skipped]
    rules: list[tuple[str, Code]] = [
        ("socket", _socket(SOCKETS)),
        ("socketpair", _socket({AF_UNIX: SOCKETS[AF_UNIX]})),
        ("clone", _unless_bits(_NAMESPACES, errno.EPERM)),
        ("unshare", _unless_bits(_NAMESPACES | _CLONE_NEWTIME, errno.EPERM)),
        ("ioctl", _ioctl()),
        ("prctl", _prctl()),
        ("fallocate", _fallocate([_return(_NOTIFY)] if notify else _refuse(errno.EOPNOTSUPP))),
        *((name, _refuse(number)) for name, number in _REFUSED.items()),
    ]
    return code + _choose([((calls[name],), then) for name, then in rules], _allow())


def install() -> int | None:
    """Puts the filter on this process, for good; call it before the first thread. Returns the listener's descriptor.

    None: this kernel has no listener (or another one is there already), and fallocate is refused.
    Raises OSError where there is no filter for this machine, or no_new_privs is not set (we must not set it: that it is
    there is one of the proofs).
    """
    machine = os.uname().machine
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    libc.syscall.argtypes = (ctypes.c_long, ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p)
    if machine not in ARCHITECTURES or libc.prctl(_PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1:
        raise PermissionError(errno.EACCES, f"no filter: {machine}, or new privileges are allowed")
    number = ARCHITECTURES[machine][1]["seccomp"]
    # Whoever waits for the listener is not woken by a signal where the kernel can do that: it would ask twice.
    for flags, notify in ((_NEW_LISTENER | _WAIT_KILLABLE, True), (_NEW_LISTENER, True), (0, False)):
        code = program(machine, notify=notify)
        instructions = (_Filter * len(code))(*(_Filter(*instruction) for instruction in code))
        handed = _Program(len(code), instructions)
        fd = libc.syscall(number, _SET_MODE_FILTER, flags, ctypes.addressof(handed))
        if fd >= 0:
            return int(fd) if notify else None
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class _Filter(ctypes.Structure):
    _fields_ = (("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint))


class _Program(ctypes.Structure):
    _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.POINTER(_Filter)))


def _socket(allowed: dict[int, tuple[tuple[int, ...], tuple[int, ...] | None]]) -> Code:
    cases = []
    for family, (types, protocols) in allowed.items():
        fits = _allow() if protocols is None else _of_protocols(protocols)
        raw = [] if RAW in types else [((RAW,), _refuse(errno.EPERM))]
        by_type = _choose([(types, fits), *raw], _refuse(errno.ESOCKTNOSUPPORT))
        cases.append(((family,), [_argument(1), Instruction(_AND, 0, 0, _TYPE_MASK), *by_type]))
    return [_argument(0), *_choose(cases, _refuse(errno.EAFNOSUPPORT))]


def _of_protocols(protocols: tuple[int, ...]) -> Code:
    return [_argument(2), *_choose([(protocols, _allow())], _refuse(errno.EPROTONOSUPPORT))]


def _ioctl() -> Code:
    cases = [(_PREALLOCATING, _refuse(errno.ENOTTY)), ((_SET_FILE_ATTRIBUTES,), _refuse(errno.EOPNOTSUPP))]
    return [_argument(1), *_choose(cases, _allow())]


def _prctl() -> Code:
    """Whoever makes itself undumpable is told that it is (some agents end otherwise), and stays as it was: what it
    writes, and the unlinked files that it holds, could not be seen any more."""
    pretend = [_argument(1), *_choose([((1,), _allow())], _refuse(0))]
    return [_argument(0), *_choose([((_PR_SET_DUMPABLE,), pretend)], _allow())]


def _fallocate(takes_room: Code) -> Code:
    return [_argument(1), Instruction(_ANY_BIT, 0, 1, _TAKES_NO_ROOM), *_allow(), *takes_room]


def _unless_bits(bits: int, number: int) -> Code:
    return [_argument(0), Instruction(_ANY_BIT, 0, 1, bits), *_refuse(number), *_allow()]


def _unless_equal(value: int, then: Code) -> Code:
    return [Instruction(_EQUAL, len(then), 0, value), *then]


def _choose(cases: Sequence[tuple[Iterable[int], Code]], otherwise: Code) -> Code:
    """Compares the loaded word with each case's values; every `then` must end in a return."""
    code: Code = []
    for values, then in cases:
        for value in values:
            code += [Instruction(_EQUAL, 0, len(then), value), *then]
    return code + otherwise


def _argument(index: int) -> Instruction:
    """Loads the lower half (little-endian) of an argument: all of those that are looked at are 32 bits wide."""
    return Instruction(_LOAD, 0, 0, _ARGUMENTS + 8 * index)


def _allow() -> Code:
    return [_return(_ALLOW)]


def _refuse(number: int) -> Code:
    return [_return(_ERRNO | number)]


def _return(answer: int) -> Instruction:
    return Instruction(_RETURN, 0, 0, answer)
