"""Waits for every child of the guest, its own and adopted ones, and tells who asked how theirs ended."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from . import procs
from .channel import OpError
from .spawn import spawn
from .untrusted import AGENT, User


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
        self._expected: dict[int, Callable[[Ended], None]] = {}
        self._someone = threading.Event()
        self._refusing = False

    def start(self) -> None:
        threading.Thread(target=self._run, name="reaper", daemon=True).start()

    def spawn(
        self,
        argv: Sequence[str],
        on_end: Callable[[Ended], None],
        *,
        user: User,
        env: Mapping[str, str],
        cwd: str | None = None,
        **options: Any,
    ) -> int:
        """Starts a child in its own session. Returns its pid; `on_end` runs in our thread.

        `options` are those of `spawn.spawn`. Raises OpError `spawn_failed`, and `agent_ended` after `refuse`.
        """
        with self._lock:
            if self._refusing and user == AGENT:
                raise OpError("agent_ended", "the agent has ended")
            pid = spawn(argv, user, env=env, cwd=cwd, **options)
            self._expected[pid] = on_end
        self._someone.set()
        return pid

    def refuse(self, refusing: bool) -> None:
        """Whether nothing of the agent's is started any more: what is ended now must not come back."""
        with self._lock:
            self._refusing = refusing

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
                reaped, status, usage = os.wait4(pid, os.WNOHANG)
            except ChildProcessError:
                return
            if reaped == 0:
                return
            if os.WIFSTOPPED(status):
                # It has made us its tracer (PTRACE_TRACEME), so that a signal stops it until we let it go on.
                procs.send(pid, signal.SIGKILL)
                return
            on_end = self._expected.pop(pid, None)
        code = os.waitstatus_to_exitcode(status)
        if on_end is None:
            return
        on_end(
            Ended(
                pid=pid,
                code=code if code >= 0 else None,
                signal=-code if code < 0 else None,
                t_ns=t_ns,
                cpu_s=usage.ru_utime + usage.ru_stime,
            )
        )
