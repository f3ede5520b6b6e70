"""What the standard library does not offer: prctl and openat2, through ctypes. Linux only."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
#: One number on every architecture that Python's `ctypes` and Docker both run on (include/uapi/asm-generic/unistd.h).
_SYS_OPENAT2 = 437
_SYS_RT_SIGACTION = {"x86_64": 13, "aarch64": 134}

RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_BENEATH = 0x08

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class _OpenHow(ctypes.Structure):
    """`struct open_how` of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def hide() -> None:
    """Makes this process undumpable: one of the same uid can neither trace it nor read its memory and descriptors.

    Our own files under /proc then belong to root; what we need of them is opened before. An exec undoes it, so it
    reaches no child.
    """
    _prctl(_PR_SET_DUMPABLE, 0)


def adopt_orphans() -> None:
    """Makes this process the parent of every orphan below it: whatever the agent starts stays our descendant."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


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
