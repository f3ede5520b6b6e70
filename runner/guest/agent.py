"""The agent's life: go, the measurement while it runs, its exit and who outlives it."""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from typing import Any, NamedTuple

from . import procs
from .cgroup import Cgroup
from .channel import Channel, OpError, Request
from .disk import Writes
from .forwarder import Forwarder
from .preallocated import Preallocated
from .reaper import Ended, Reaper
from .resolver import NameServer
from .sampler import Sampler
from .terminals import Terminals
from .untrusted import AGENT, Untrusted

#: Children that are just ending when the agent exits are not survivors; where none is left nobody waits.
_GRACE_S = 0.1
_GRACE_STEP_S = 0.005
#: Survivors that are named.
_MAX_NAMED = 1000


class Streams(NamedTuple):
    """The container's own stdin, stdout and stderr, kept away from the guest's 0, 1 and 2."""

    stdin: int
    stdout: int
    stderr: int


class Agent:
    """One agent at a time; after its exit another `go` may follow (the kept container of the reset experiment)."""

    def __init__(
        self,
        channel: Channel,
        reaper: Reaper,
        streams: Streams,
        forwarder: Forwarder,
        resolver: NameServer,
        terminals: Terminals,
        writes: Writes,
        preallocated: Preallocated,
        bridge_pid: int,
    ) -> None:
        self._channel = channel
        self._reaper = reaper
        self._streams = streams
        self._forwarder = forwarder
        self._resolver = resolver
        self._terminals = terminals
        self._writes = writes
        self._preallocated = preallocated
        self._bridge_pid = bridge_pid
        self._cgroup = Cgroup()
        self._own_pid = os.getpid()
        self._untrusted = Untrusted(self._helpers)
        self._running = False
        self._disk_exceeded = False
        self._sampler: Sampler | None = None
        self._endings: queue.SimpleQueue[Ended] = queue.SimpleQueue()

    def start(self) -> None:
        """Starts the thread that sees to the exit; before *go*, since the agent may leave no room for a new one."""
        threading.Thread(target=self._finish_each, name="finisher", daemon=True).start()

    @property
    def running(self) -> bool:
        return self._running

    def go(self, request: Request) -> dict[str, Any]:
        """`go` {argv, env, cwd, disk_bytes, sample_ms} -> {pid, spawn_ns}. Errors: `agent_running`, `spawn_failed`."""
        argv, env, cwd = request.texts("argv"), request.text_map("env"), request.text("cwd")
        if self._running:
            raise OpError("agent_running", "an agent runs already")
        if not argv:
            raise OpError("bad_request", "argv is empty")
        sampler = Sampler(
            self._cgroup,
            self._writes,
            list_helpers=lambda: [self._bridge_pid, *self._forwarder.pids(), *self._resolver.root()],
            list_agent=lambda: self._untrusted.living(dead=True),
            on_full=self._end_for_disk,
            sample_s=request.number("sample_ms") / 1000,
            disk_bytes=request.number("disk_bytes"),
            preallocated=self._preallocated,
        )
        self._terminals.base_env = env
        self._disk_exceeded = False
        sampler.start()
        self._sampler, self._running = sampler, True
        self._reaper.refuse(False)
        spawn_ns = time.monotonic_ns()
        try:
            pid = self._reaper.spawn(
                argv,
                self._endings.put,
                user=AGENT,
                env=env,
                cwd=cwd,
                stdin=self._streams.stdin,
                stdout=self._streams.stdout,
                stderr=self._streams.stderr,
            )
        except OpError:
            self._running = False
            sampler.stop()
            raise
        return {"pid": pid, "spawn_ns": spawn_ns}

    def signal(self, request: Request) -> dict[str, Any]:
        """`signal` {signal: TERM|KILL} -> {signalled}: to everything of the agent's. KILL returns when all are dead."""
        name = request.text("signal")
        if name not in ("TERM", "KILL"):
            raise OpError("bad_request", f"signal: TERM or KILL, not {name}")
        targets = self._untrusted.living()
        if name == "KILL":
            self.end_everything()
        else:
            self._untrusted.signal(signal.SIGTERM)
        return {"signalled": len(targets)}

    def end_everything(self) -> list[procs.Process]:
        """Ends all that is the agent's, terminals among it, and then our helpers. Returns who would not die."""
        self._reaper.refuse(True)
        left = self._untrusted.end()
        self._forwarder.ending()
        return left + procs.end_all(lambda: procs.descendants(self._own_pid))

    def _helpers(self) -> list[int]:
        return [*self._forwarder.root(), *self._resolver.root()]

    def _end_for_disk(self) -> None:
        self._disk_exceeded = True
        self.end_everything()

    def _finish_each(self) -> None:
        while True:
            self._finish(self._endings.get())

    def _finish(self, ended: Ended) -> None:
        sampler = self._sampler
        assert sampler is not None
        usage = sampler.usage()
        survivors = self._survivors()
        sampler.stop()
        left = self.end_everything()
        written = sampler.written()
        self._disk_exceeded = self._disk_exceeded or sampler.exceeds(written)
        self._running = False
        self._channel.event(
            "exit",
            code=ended.code,
            signal=ended.signal,
            exit_ns=ended.t_ns,
            cpu_s=usage.cpu_s,
            peak_anon_mb=usage.peak_anon_mb,
            bytes_written=written,
            oom=usage.oom,
            disk_exceeded=self._disk_exceeded,
            survivors=survivors,
            unkilled=len(left),
        )

    def _survivors(self) -> list[str]:
        """The command lines of who is still there after the grace; frozen, so that nobody can hop out of the list.

        What the client runs in terminals is not the agent's.
        """
        self._reaper.refuse(True)
        deadline = time.monotonic() + _GRACE_S
        while self._left_behind() and time.monotonic() < deadline:
            time.sleep(_GRACE_STEP_S)
        self._untrusted.freeze()
        return [procs.command_line(process.pid) for process in self._left_behind()[:_MAX_NAMED]]

    def _left_behind(self) -> list[procs.Process]:
        sessions = self._terminals.sessions()
        return [
            process
            for process in self._untrusted.living()
            if process.session not in sessions and procs.living_thread(process.pid, leaving=False) is not None
        ]
