"""What is counted of the notices; that they come, and that callers go on, is in test_seccomp and the engine's tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runner.guest import preallocated
from runner.guest.preallocated import Preallocated


class Kernel:
    """Stands for the listener's two ioctls: gives notices, takes answers, or has lost the caller meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.notices: list[tuple[int, int]] = []
        self.answers: list[tuple[int, ...]] = []
        self.caller_is_gone = False
        monkeypatch.setattr("fcntl.ioctl", self)

    def __call__(self, _fd: int, request: int, data: bytearray | bytes) -> int:
        if request == 0xC0502100:
            assert isinstance(data, bytearray)
            fd, length = self.notices.pop(0)
            arguments = (fd, 0, 0, length & 0xFFFFFFFFFFFFFFFF, 0, 0)
            data[:] = preallocated._NOTICE.pack(7, os.getpid(), 0, 285, 0xC000003E, 0, *arguments)
        elif self.caller_is_gone:
            raise FileNotFoundError
        else:
            self.answers.append(preallocated._ANSWER.unpack(data))
        return 0


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(monkeypatch)


def tell(kernel: Kernel, counted: Preallocated, fd: int, length: int) -> None:
    kernel.notices.append((fd, length))
    counted._answer(0)


def test_each_call_is_counted_and_goes_on(kernel: Kernel, tmp_path: Path) -> None:
    counted = Preallocated(0)
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    tell(kernel, counted, fd, 500)  # nobody is watched yet
    counted.watch(1000, lambda: pytest.fail("not full"))
    tell(kernel, counted, fd, 600)
    tell(kernel, counted, fd, -5)  # the kernel refuses it
    assert (counted.on_disk, counted.total) == (600, 600)
    assert kernel.answers == [(7, 0, 0, 1)] * 3
    os.close(fd)


def test_the_limit_is_told_before_the_call_goes_on(kernel: Kernel, tmp_path: Path) -> None:
    counted = Preallocated(0)
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    answered: list[int] = []
    counted.watch(1000, lambda: answered.append(len(kernel.answers)))
    tell(kernel, counted, fd, 600)
    tell(kernel, counted, fd, 600)
    assert answered == [1]
    counted.unwatch()
    tell(kernel, counted, fd, 600)
    assert answered == [1]
    os.close(fd)


def test_memory_is_no_disk(kernel: Kernel) -> None:
    counted = Preallocated(0)
    counted.watch(1000, lambda: pytest.fail("not full"))
    fd = os.memfd_create("x")
    tell(kernel, counted, fd, 5000)
    assert (counted.on_disk, counted.total) == (0, 5000)
    os.close(fd)
    counted.watch(10_000, lambda: pytest.fail("not full"))
    tell(kernel, counted, fd, 5000)  # a descriptor that cannot be looked at counts in full
    assert (counted.on_disk, counted.total) == (5000, 5000)


def test_a_call_that_a_signal_broke_off_is_asked_again_and_counts_once(kernel: Kernel, tmp_path: Path) -> None:
    counted = Preallocated(0)
    counted.watch(1000, lambda: pytest.fail("not full"))
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    kernel.caller_is_gone = True
    tell(kernel, counted, fd, 600)
    kernel.caller_is_gone = False
    tell(kernel, counted, fd, 600)
    assert (counted.on_disk, counted.total) == (600, 600)
    os.close(fd)
