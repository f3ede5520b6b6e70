"""Ctrl-C, SIGTERM and a closed terminal as an event with listeners, so that a sweep ends by its own clean-up."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Seconds after the first signal in which another one counts as the same: people press twice, terminals repeat.
_PATIENCE_S = 2.0


class Interrupt:
    """Set once, by a signal; `listeners` are called then, on the main thread, and must not block."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._since = 0.0
        self.listeners: list[Callable[[], None]] = []

    @property
    def asked(self) -> bool:
        return self._event.is_set()

    @property
    def impatient(self) -> bool:
        """Whether a signal now means: end at once, whatever is left behind."""
        return self.asked and time.monotonic() > self._since + _PATIENCE_S

    def sleep(self, seconds: float) -> None:
        """Sleep, but not past the interrupt."""
        self._event.wait(seconds)

    def set(self) -> None:
        if not self.asked:
            self._since = time.monotonic()
            self._event.set()
            for listener in self.listeners:
                listener()


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """What is yielded is set by the first signal; a late second one ends the process (labels remain for the reaper).

    A signal that whoever started us had ignored stays so: SIGHUP under nohup, SIGINT in a script's background job.
    """
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt  # signals are the main thread's
        return

    def note(number: int, _frame: FrameType | None) -> None:
        if interrupt.impatient:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        interrupt.set()

    heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, note) for number in heard}
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
