"""Waits for every child of the guest, its own and adopted ones, and tells who asked how theirs ended."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from .channel import OpError


class Ended(NamedTuple):
    """How a child ended: exactly one of `code` and `signal` is set. `cpu_s` holds the children it has waited for."""

    pid: int
    code: int | None
    signal: int | None
    t_ns: int
    cpu_s: float


class Reaper:
    """Once `start`ed it is the only one that waits; `subprocess.run` and `Popen.wait` must then not be used.

    A child is announced under the lock that reaping takes, so none can end unseen between its fork and its entry.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._expected: dict[int, tuple[subprocess.Popen[bytes], Callable[[Ended], None]]] = {}
        self._someone = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name="reaper", daemon=True).start()

    def spawn(
        self,
        argv: Sequence[str],
        on_end: Callable[[Ended], None],
        *,
        env: Mapping[str, str],
        cwd: str | None = None,
        **options: Any,
    ) -> int:
        """Starts a child in its own session; `options` are Popen's. Returns its pid; `on_end` runs in our thread.

        Raises OpError `spawn_failed`.
        """
        with self._lock:
            try:
                child = subprocess.Popen(argv, env=env, cwd=cwd, start_new_session=True, **options)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                raise OpError("spawn_failed", f"{argv[0]}: {error}") from error
            self._expected[child.pid] = (child, on_end)
        self._someone.set()
        return child.pid

    def _run(self) -> None:
        while True:
            try:
                peek = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            except ChildProcessError:
                # Nobody below us: no orphan can come either, until we start a child.
                self._someone.wait()
                self._someone.clear()
                continue
            if peek is not None:
                self._reap(peek.si_pid, time.monotonic_ns())

    def _reap(self, pid: int, t_ns: int) -> None:
        with self._lock:
            try:
                _, status, usage = os.wait4(pid, 0)
            except ChildProcessError:
                return
            child, on_end = self._expected.pop(pid, (None, None))
        code = os.waitstatus_to_exitcode(status)
        if child is None or on_end is None:
            return
        # Popen would otherwise wait for the pid again, when it may be someone else's.
        child.returncode = code
        on_end(
            Ended(
                pid=pid,
                code=code if code >= 0 else None,
                signal=-code if code < 0 else None,
                t_ns=t_ns,
                cpu_s=usage.ru_utime + usage.ru_stime,
            )
        )
