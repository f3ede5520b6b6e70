from __future__ import annotations

import errno
import os
import signal
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
