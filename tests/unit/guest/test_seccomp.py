"""The filter, run by an interpreter of its few instructions, and once for real in a child."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from runner.guest import families, seccomp
from runner.guest.syscalls import ARCHITECTURES

ALLOW, NOTIFY = "allow", "notify"
MACHINES = sorted(ARCHITECTURES)


def answer(
    machine: str,
    call: str | int,
    arguments: Sequence[int] = (),
    *,
    architecture: int | None = None,
    notify: bool = True,
) -> str | int:
    """What the filter says to a call: `allow`, `notify`, or the number of an error."""
    real, calls = ARCHITECTURES[machine]
    number = calls[call] if isinstance(call, str) else call
    words = {0: number & 0xFFFFFFFF, 4: real if architecture is None else architecture}
    for index, value in enumerate([*arguments, *[0] * (6 - len(arguments))]):
        words |= {16 + 8 * index: value & 0xFFFFFFFF, 20 + 8 * index: value >> 32 & 0xFFFFFFFF}
    code = seccomp.program(machine, notify=notify)
    at, register = 0, 0
    while True:
        kind, if_true, if_false, value = code[at]
        at += 1
        if kind == 0x20:
            register = words[value]
        elif kind == 0x54:
            register &= value
        elif kind == 0x06:
            break
        else:
            holds = {0x15: register == value, 0x35: register >= value, 0x45: bool(register & value)}[kind]
            at += if_true if holds else if_false
    known: dict[int, str | int] = {0x7FFF0000: ALLOW, 0x7FC00000: NOTIFY}
    return known.get(value, value & 0xFFFF)


@pytest.mark.parametrize("machine", MACHINES)
def test_sockets_are_of_four_families(machine: str) -> None:
    flags = 0x800 | 0x80000
    opened = {
        (family, kind)
        for family in range(300)
        for kind in range(16)
        if answer(machine, "socket", (family, kind | flags, 0)) == ALLOW
    }
    assert opened == {(1, 1), (1, 2), (1, 5), (2, 1), (2, 2), (10, 1), (10, 2), (16, 2), (16, 3)}
    pairs = {
        (family, kind)
        for family in range(300)
        for kind in range(16)
        if answer(machine, "socketpair", (family, kind, 0)) == ALLOW
    }
    assert pairs == {(1, 1), (1, 2), (1, 5)}


@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        ((40, 1, 0), errno.EAFNOSUPPORT),  # AF_VSOCK
        ((38, 5, 0), errno.EAFNOSUPPORT),  # AF_ALG
        ((17, 3, 0), errno.EAFNOSUPPORT),  # AF_PACKET
        ((-1, 1, 0), errno.EAFNOSUPPORT),
        ((2, 3, 255), errno.EPERM),  # raw
        ((2, 10, 0), errno.ESOCKTNOSUPPORT),  # SOCK_PACKET
        ((2, 5, 132), errno.ESOCKTNOSUPPORT),  # SCTP
        ((2, 1, 132), errno.EPROTONOSUPPORT),
        ((2, 1, 256), errno.EPROTONOSUPPORT),  # SMC
        ((10, 2, 58), errno.EPROTONOSUPPORT),  # ping
        ((16, 3, 15), errno.EPROTONOSUPPORT),  # the kernel's events
        ((2 | 40 << 32, 1, 0), ALLOW),  # the kernel looks at the lower half too
        ((2, 1, 262), ALLOW),  # MPTCP
    ],
)
def test_a_socket_s_error_says_what_is_wrong(arguments: tuple[int, ...], number: int | str) -> None:
    assert answer("x86_64", "socket", arguments) == number


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_refused_whatever_it_is_asked(machine: str) -> None:
    unsupported = ("io_uring_setup", "io_uring_enter", "io_uring_register", "clone3", "file_setattr")
    assert {answer(machine, call) for call in unsupported} == {errno.ENOSYS}
    forbidden = (
        "keyctl add_key request_key bpf userfaultfd perf_event_open kcmp fanotify_init syslog setns mount umount2 "
        "pivot_root open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick mount_setattr open_by_handle_at "
        "kexec_load pidfd_getfd"
    )
    assert {answer(machine, call) for call in forbidden.split()} == {errno.EPERM}


#: ptrace, memfd_create, execveat, seccomp, landlock_create_ruleset, read, clock_gettime.
@pytest.mark.parametrize(
    ("machine", "numbers"),
    [("x86_64", (101, 319, 322, 317, 444, 0, 228)), ("aarch64", (117, 279, 281, 277, 444, 63, 113))],
)
def test_what_real_tools_use_stays(machine: str, numbers: tuple[int, ...]) -> None:
    assert {answer(machine, number) for number in numbers} == {ALLOW}


@pytest.mark.parametrize("machine", MACHINES)
def test_no_other_architecture(machine: str) -> None:
    """i386 (`int 0x80`), 32-bit ARM, and the other 64-bit one."""
    for architecture in (0x40000003, 0x40000028, 0xC000003E, 0xC00000B7):
        wanted = ALLOW if architecture == ARCHITECTURES[machine][0] else errno.ENOSYS
        number = 0 if machine == "x86_64" else 63
        assert answer(machine, number, architecture=architecture) == wanted


def test_no_x32() -> None:
    """`socket` by its x32 number; -1 is what a tracer puts where it wants no call."""
    assert answer("x86_64", 0x40000000 | 41, (40, 1, 0)) == errno.ENOSYS
    assert answer("x86_64", -1) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_no_namespaces(machine: str) -> None:
    threads = 0x3D0F00  # what a C library passes for a thread
    assert answer(machine, "clone", (threads,)) == ALLOW
    assert answer(machine, "clone", (17,)) == ALLOW
    assert answer(machine, "unshare", (0x400,)) == ALLOW  # CLONE_FILES
    for bit in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert answer(machine, "clone", (17 | bit,)) == errno.EPERM
        assert answer(machine, "unshare", (bit,)) == errno.EPERM
    assert answer(machine, "unshare", (0x80,)) == errno.EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_fallocate_is_told_or_refused(machine: str) -> None:
    for mode in (0, 1, 0x10, 0x11, 0x40, 0x80):
        assert answer(machine, "fallocate", (3, mode)) == NOTIFY
        assert answer(machine, "fallocate", (3, mode), notify=False) == errno.EOPNOTSUPP
    for mode in (3, 8, 0x20):  # punch a hole, collapse, insert
        assert answer(machine, "fallocate", (3, mode)) == ALLOW
    assert answer(machine, "ioctl", (3, 0x40305828)) == errno.ENOTTY
    assert answer(machine, "ioctl", (3, 0x401C5820)) == errno.EOPNOTSUPP
    assert answer(machine, "ioctl", (3, 0x5413)) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_nobody_hides_what_it_writes(machine: str) -> None:
    """PR_SET_DUMPABLE is answered with success and not done, but for 1; every other option is as ever."""
    assert answer(machine, "prctl", (4, 0)) == 0
    assert answer(machine, "prctl", (4, 2)) == 0
    assert answer(machine, "prctl", (4, 1)) == ALLOW
    assert answer(machine, "prctl", (38, 1)) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_jumps_stay_within_a_byte(machine: str) -> None:
    code = seccomp.program(machine, notify=True)
    assert len(code) < 4096
    assert all(one.if_true < 256 and one.if_false < 256 for one in code)


#: no_new_privs first where argv says so, as the engine sets it.
CHILD = """
import ctypes, os, subprocess, sys, threading
from runner.guest import families, seccomp
from runner.guest.preallocated import Preallocated
if sys.argv[1] == "engine":
    ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
try:
    listener = seccomp.install()
except OSError as error:
    print(error.errno)
    sys.exit()
Preallocated(listener).start()
thread = threading.Thread(target=lambda: print(families.prove().ok, flush=True))
thread.start()
thread.join()
subprocess.run([sys.executable, "-c", "import socket; socket.socket(40, 1)"], stderr=sys.stdout)
os.posix_fallocate(os.open(sys.argv[2], os.O_RDWR | os.O_CREAT), 0, 1 << 20)
print(os.stat(sys.argv[2]).st_blocks)
"""


def in_child(*argv: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", CHILD, *argv], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.split("\n")


@pytest.mark.skipif(os.uname().machine not in ARCHITECTURES, reason="no filter for this machine")
def test_in_earnest(tmp_path: Path) -> None:
    lines = in_child("engine", str(tmp_path / "file"))
    assert lines[0] == "True"
    assert "Address family not supported by protocol" in lines[-3]
    assert lines[-2] == "2048"


def test_without_no_new_privs_it_is_not_installed(tmp_path: Path) -> None:
    """That the engine sets it is one of the proofs: we must not make it true ourselves."""
    assert in_child("nobody", str(tmp_path / "file")) == [str(errno.EACCES), ""]


def test_the_proof_names_what_opens() -> None:
    """Here, without the filter, more opens than may."""
    proof = families.prove()
    assert not proof.ok
    assert "unix raw opens" in proof.detail
    assert families.opens(1, 1)
    assert not families.opens(63, 1)
