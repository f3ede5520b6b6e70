"""Ctrl-C and SIGTERM as an event with listeners, so that a sweep ends by its own clean-up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    """Set once, by a signal; `listeners` are called then, on the main thread, and must not block."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.listeners: list[Callable[[], None]] = []

    @property
    def asked(self) -> bool:
        return self._event.is_set()

    def sleep(self, seconds: float) -> None:
        """Sleep, but not past the interrupt."""
        self._event.wait(seconds)

    def set(self) -> None:
        self._event.set()
        for listener in self.listeners:
            listener()


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """SIGINT and SIGTERM set what is yielded; a second signal ends the process at once (labels remain)."""
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt  # signals are the main thread's
        return

    def note(number: int, _frame: FrameType | None) -> None:
        if interrupt.asked:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        interrupt.set()

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
