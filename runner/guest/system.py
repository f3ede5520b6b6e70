"""What the standard library does not offer: prctl, openat2, the credentials of one thread. By ctypes, Linux only.

The C library gives new credentials to all threads of a process at once; the kernel keeps them per thread. What is here
changes the calling thread alone, and threads that it starts later inherit from it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Collection

_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522
#: One number on every architecture that Python's `ctypes` and Docker both run on (include/uapi/asm-generic/unistd.h).
_SYS_OPENAT2 = 437
_SYS_RT_SIGACTION = {"x86_64": 13, "aarch64": 134}
_SYS_SETRESUID = {"x86_64": 117, "aarch64": 147}

RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_BENEATH = 0x08

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
#: Keeps Python's lock during a call: between two calls no other thread of ours gets its turn.
_locked_libc = ctypes.PyDLL(None, use_errno=True)
_locked_libc.syscall.restype = ctypes.c_long


class _OpenHow(ctypes.Structure):
    """`struct open_how` of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class _CapabilityHeader(ctypes.Structure):
    """`struct __user_cap_header_struct` of capset(2)."""

    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapabilityData(ctypes.Structure):
    """`struct __user_cap_data_struct`: 32 capabilities; version 3 has two of them."""

    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise _error()


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


def hide() -> None:
    """Makes this process undumpable: one of the same uid can neither trace it nor read its memory and descriptors.

    Our own files under /proc then belong to root; what we need of them is opened before. An exec undoes it, so it
    reaches no child.
    """
    _prctl(_PR_SET_DUMPABLE, 0)


def adopt_orphans() -> None:
    """Makes this process the parent of every orphan below it: whatever the agent starts stays our descendant."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def empty_bounding_set() -> None:
    """Nothing that we start can ever gain a capability. Raises OSError without CAP_SETPCAP."""
    number = 0
    while True:
        try:
            _prctl(_PR_CAPBSET_DROP, number)
        except OSError:
            # The first number that this kernel does not know; every kernel knows the first one.
            if number == 0 or not os.path.exists("/proc/sys/kernel/cap_last_cap"):
                raise
            with open("/proc/sys/kernel/cap_last_cap", encoding="ascii") as last:
                if number <= int(last.read()):
                    raise
            return
        number += 1


def keep_capabilities(kept: Collection[int]) -> None:
    """Our effective and permitted capabilities become those of `kept` that we have; none is inheritable or ambient."""
    _libc.prctl(_PR_CAP_AMBIENT, ctypes.c_ulong(_PR_CAP_AMBIENT_CLEAR_ALL), 0, 0, 0)  # a kernel before 4.3 has none
    header = _CapabilityHeader(_CAPABILITY_VERSION_3, 0)
    data = (_CapabilityData * 2)()
    if _libc.capget(ctypes.byref(header), data) != 0:
        raise _error()
    for index, word in enumerate(data):
        mask = sum(1 << (number - 32 * index) for number in kept if number // 32 == index)
        word.effective, word.permitted, word.inheritable = word.effective & mask, word.permitted & mask, 0
    if _libc.capset(ctypes.byref(header), data) != 0:
        raise _error()


def set_file_user(uid: int, gid: int) -> None:
    """This thread's file operations have the rights of `uid` and `gid`; all else that it may do stays as it is."""
    # Groups first: neither call says whether it worked, so both are asked for what they left.
    _libc.setfsgid(gid)
    _libc.setfsuid(uid)
    if _libc.setfsgid(-1) != gid or _libc.setfsuid(-1) != uid:
        raise PermissionError(f"file operations cannot be made those of {uid}:{gid}")


def file_user() -> int:
    """Whose rights this thread's file operations have."""
    return int(_libc.setfsuid(-1))


def signal_user(uid: int, number: int, nobody: int) -> None:
    """Signals every process of `uid` at once. For a thread of root's that is not the process's first one.

    The kernel does kill(-1) in one step: none of them can fork meanwhile, and it reaches also a process whose main
    thread has ended. To reach no other user's, the thread becomes one that may signal `uid` alone: its effective user
    is `uid`, its real one `nobody` (who must own no process), its saved one root. Nobody of `uid` may signal, trace or
    look into such a thread; it could be given another scheduling policy, nice value or set of cpus, which are put back
    afterwards.
    """
    call = ctypes.c_long(_SYS_SETRESUID[os.uname().machine])
    files, cpus = file_user(), os.sched_getaffinity(0)
    policy, parameters, nice = os.sched_getscheduler(0), os.sched_getparam(0), os.getpriority(os.PRIO_PROCESS, 0)
    root, user, other = ctypes.c_uint(0), ctypes.c_uint(uid), ctypes.c_uint(nobody)
    if _locked_libc.syscall(call, other, user, root) != 0:
        raise _error()
    # With nobody there it fails, which is as well.
    _locked_libc.kill(-1, number)
    if _locked_libc.syscall(call, root, root, root) != 0:
        raise _error()
    _libc.setfsuid(files)
    # An engine without root of its own gives the right to it in name only.
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, policy, parameters)
        os.setpriority(os.PRIO_PROCESS, 0, nice)
        os.sched_setaffinity(0, cpus)


def openat2(dir_fd: int, path: str, flags: int, mode: int, resolve: int) -> int:
    """openat2(2); the descriptor is close-on-exec. Raises OSError (EXDEV: the path leaves `dir_fd`)."""
    how = _OpenHow(flags | os.O_CLOEXEC, mode if flags & os.O_CREAT else 0, resolve)
    fd = _libc.syscall(
        ctypes.c_long(_SYS_OPENAT2),
        ctypes.c_int(dir_fd),
        ctypes.c_char_p(os.fsencode(path)),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return int(fd)


def has_openat2() -> bool:
    """Whether kernel and seccomp filter let us call openat2 (older filters answer EPERM, older kernels ENOSYS)."""
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        os.close(openat2(root, ".", os.O_PATH, 0, RESOLVE_BENEATH))
    except OSError:
        return False
    finally:
        os.close(root)
    return True


def default_signals() -> None:
    """Every signal that we were started with ignored or blocked gets its default again: an exec passes both on, so the
    agent would inherit what whoever started the engine happened to ignore. Python's own two stay: it undoes them itself
    in what it starts (`restore_signals`)."""
    with open("/proc/self/status", encoding="ascii") as status:
        (mask,) = (int(line.split()[1], 16) for line in status if line.startswith("SigIgn:"))
    ignored = {number for number in range(1, signal.NSIG) if mask >> (number - 1) & 1}
    for number in ignored - {signal.SIGPIPE, signal.SIGXFSZ}:
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):
            _kernel_default(number)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _kernel_default(number: int) -> None:
    """SIG_DFL past the C library, which keeps 32 and 33 to itself; nothing where the call's number is not known."""
    call = _SYS_RT_SIGACTION.get(os.uname().machine)
    if call is not None:
        nothing = ctypes.create_string_buffer(64)  # `struct sigaction` with handler, flags and mask of 0
        _libc.syscall(ctypes.c_long(call), ctypes.c_int(number), nothing, None, ctypes.c_size_t(8))


def signal_name(number: int) -> str:
    """`SIGKILL` for 9; `SIG35` for a number without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"
