from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runner.guest import system


def test_openat2_stays_beneath(tmp_path: Path) -> None:
    if not system.has_openat2():
        pytest.skip("no openat2 here")
    (tmp_path / "root").mkdir()
    (tmp_path / "root/out").symlink_to("..")
    root = os.open(tmp_path / "root", os.O_PATH)
    try:
        fd = system.openat2(root, "new", os.O_WRONLY | os.O_CREAT, 0o640, system.RESOLVE_BENEATH)
        assert not os.get_inheritable(fd)
        os.close(fd)
        with pytest.raises(OSError, match="cross-device") as refused:
            system.openat2(root, "out/root", os.O_RDONLY, 0, system.RESOLVE_BENEATH)
        assert refused.value.errno == errno.EXDEV
        with pytest.raises(FileNotFoundError):
            system.openat2(root, "none", os.O_RDONLY, 0, system.RESOLVE_BENEATH)
    finally:
        os.close(root)
    assert (tmp_path / "root/new").exists()


def test_signals_have_names() -> None:
    assert system.signal_name(signal.SIGKILL) == "SIGKILL"
    assert system.signal_name(35) == "SIG35"


#: Ignores and blocks what a parent can, 32 among it (the C library refuses that), and becomes the program of argv[1:].
_INHERITED = """
import ctypes, os, signal, struct, sys
ignore = ctypes.create_string_buffer(struct.pack("@QQQQ", 1, 0, 0, 0))
call = {"x86_64": 13, "aarch64": 134}[os.uname().machine]
for number in (signal.SIGHUP, signal.SIGUSR1, 32, 40):
    assert ctypes.CDLL(None).syscall(call, int(number), ignore, None, ctypes.c_size_t(8)) == 0
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR2])
os.execv(sys.argv[1], sys.argv[1:])
"""
_RESET = """
import subprocess, sys
from runner.guest import system
if sys.argv[1:]:
    system.default_signals()
print(subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True, check=True).stdout)
"""


def test_what_was_inherited_ignored_or_blocked_is_passed_on_to_nobody() -> None:
    def masks(*argv: str) -> list[int]:
        line = [sys.executable, "-c", _INHERITED, sys.executable, "-c", _RESET, *argv]
        ran = subprocess.run(line, capture_output=True, text=True, check=True)
        status = dict(row.split(":\t") for row in ran.stdout.splitlines() if row)
        return [int(status[name], 16) for name in ("SigBlk", "SigIgn", "SigCgt")]

    assert masks()[:2] != [0, 0]  # the control: without it they are
    assert masks("reset") == [0, 0, 0]
