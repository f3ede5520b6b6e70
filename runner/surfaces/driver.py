"""What every surface has in common: one loop, its deadlines, and how an agent is brought to its end.

The loop takes one item at a time from the inbox, so whatever a surface does in `on_frame` needs no lock. A deadline has
its own outcome (`timeout:<phase>`). An agent is ended in steps: stdin closed, then SIGTERM, then SIGKILL, each bounded.
"""

from __future__ import annotations

import heapq
import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from runner.acp.buffers import MediatedWrite
from runner.config.adapter import Adapter, Launch, Session
from runner.config.knobs import Deadlines
from runner.config.outcome import UNMEASURED
from runner.config.policy import Policy
from runner.config.surface import OpenBuffer, Surface
from runner.errors import AgentError, InfraError, PhaseTimeout, RunError
from runner.records.findings import Findings
from runner.records.schema import Buffer, Finding, Probe, Turn
from runner.sandbox.channel import GuestGone, GuestSilent, Reply
from runner.sandbox.guest_client import GuestClient
from runner.surfaces.phases import PhaseClock
from runner.surfaces.pipe import AgentPipe, Done, GuestEvent, Inbox, Item, Stop
from runner.wire.frames import Frame

#: Frames may still be on their way through the engine when the guest already tells of the exit.
_AFTER_EXIT_S = 0.5
#: Beyond a phase's own deadline, for the guest to answer.
_OP_S = 5.0
#: Processes that a finding shows, and characters of the command line of each.
_PROCESSES_SHOWN = 3
_COMMAND_SHOWN = 120


@dataclass(frozen=True, slots=True)
class DriverContext:
    """All that a surface needs to drive one turn."""

    pipe: AgentPipe
    guest: GuestClient
    inbox: Inbox
    phases: PhaseClock
    deadlines: Deadlines
    adapter: Adapter
    launch: Launch
    surface: Surface
    session: Session
    policy: Policy
    prompt: str
    cwd: str
    #: Directories that fs/* and terminal/* may touch.
    roots: tuple[str, ...]
    additional_directories: tuple[str, ...]
    #: Documents open with unsaved text, by absolute path.
    buffers: tuple[OpenBuffer, ...] = ()
    #: What must say that it is ready before the first prompt, by the address that the guest listens on.
    awaited: frozenset[str] = frozenset()


@dataclass(slots=True)
class DriverResult:
    """What driving an agent brought to light; filled as it happens, so that a run that ends early loses nothing."""

    turns: list[Turn] = field(default_factory=list)
    findings: Findings = field(default_factory=Findings)
    probes: list[Probe] = field(default_factory=list)
    ledger: list[MediatedWrite] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    errors: list[RunError] = field(default_factory=list)
    protocol_version: int | None = None
    agent_info: dict[str, Any] | None = None
    #: The guest's `exit` event.
    exit: Reply | None = None
    ended_by: str = "itself"
    #: Files that had changed in the workspace when the prompt was sent.
    early_changes: list[str] = field(default_factory=list)
    #: Why steps of the script may be left over: a rejected ask, a cancel.
    unreachable: str | None = None


class Driver(ABC):
    """The loop. A surface gives `play` (what to send and wait for) and `on_frame` (what a line of the agent means)."""

    def __init__(self, context: DriverContext) -> None:
        self.context = context
        self.result = DriverResult()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._last_frame = time.monotonic()
        self._exit_seen = 0.0
        #: Of the context's `awaited`, what has said that it is ready.
        self.ready: set[str] = set()

    @abstractmethod
    def play(self) -> None:
        """Send what the surface sends, and wait for what it waits for.

        :raises RunError: the run cannot go on.
        """

    @abstractmethod
    def on_frame(self, frame: Frame) -> None:
        """Take one line of the agent's standard output."""

    @abstractmethod
    def conclude(self) -> None:
        """Called once, when the agent has ended: add what only the whole of the run can tell."""

    def note(self, identity: str, message: str, seq: int | None = None) -> None:
        """Add a finding; `seq`: the frame that shows it."""
        self.result.findings.append(Finding(id=identity, message=message, seq=seq))

    @property
    def owes_answer(self) -> bool:
        """Whether the agent waits for us: the silence deadline stands still."""
        return False

    def run(self) -> DriverResult:
        """Drive to the end; what goes wrong lands in `result.errors`, never in an exception."""
        try:
            self.play()
        except RunError as problem:
            self.result.errors.append(problem)
        try:
            with self.context.phases.phase("exit"):
                self._end_agent()
        except RunError as problem:
            self.result.errors.append(problem)
        self.conclude()
        return self.result

    def wait(self, phase: str, seconds: float, done: Callable[[], bool], *, silence: bool = False) -> None:
        """Serve the inbox until `done`.

        :raises PhaseTimeout: `seconds` passed; or, with `silence`, the agent owed us a frame and sent nothing for long.
        :raises AgentError: the agent ended before.
        """
        deadline = time.monotonic() + seconds
        self._last_frame = time.monotonic()
        while not done():
            now = time.monotonic()
            if self.owes_answer:
                self._last_frame = now
            quiet_until = self._last_frame + self.context.deadlines.silence if silence else deadline
            self._step(min(deadline, quiet_until))
            now = time.monotonic()
            if done():
                return
            if self.result.exit is not None and not self._still_draining():
                raise AgentError(f"ended before {phase} was done: {exit_words(self.result.exit)}")
            if now >= deadline:
                raise PhaseTimeout(phase, seconds)
            if silence and not self.owes_answer and now >= self._last_frame + self.context.deadlines.silence:
                raise PhaseTimeout("silence", self.context.deadlines.silence)

    def read_on(self, seconds: float) -> None:
        """Go on serving the inbox for `seconds` (the quiet window), or until the agent has ended."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.result.exit is None:
            self._step(until)

    def later(self, seconds: float, then: Callable[[], None]) -> None:
        """Run `then` on this loop after `seconds`."""
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._count), then))

    def when_done(self, future: Future[Reply], then: Callable[[Future[Reply]], None]) -> None:
        """Run `then` on this loop once `future` is there."""
        future.add_done_callback(lambda ready: self.context.inbox.put(Done(lambda: then(ready))))

    def _still_draining(self) -> bool:
        return time.monotonic() < self._exit_seen + _AFTER_EXIT_S

    def _step(self, until: float) -> None:
        if self._timers:
            until = min(until, self._timers[0][0])
        if self.result.exit is not None:
            until = min(until, self._exit_seen + _AFTER_EXIT_S)
        item = self.context.inbox.get(until - time.monotonic())
        while self._timers and self._timers[0][0] <= time.monotonic():
            heapq.heappop(self._timers)[2]()
        if item is not None:
            self._take(item)

    def _take(self, item: Item) -> None:
        if isinstance(item, Frame):
            self._last_frame = time.monotonic()
            self.on_frame(item)
        elif isinstance(item, Done):
            item.then()
        elif isinstance(item, Stop):
            raise item.reason
        else:
            self._guest_event(item)

    def _guest_event(self, event: GuestEvent) -> None:
        name = event.body["event"]
        if name == "exit":
            self.result.exit = event.body
            self._exit_seen = time.monotonic()
        elif name == "ready":
            self.ready.add(str(event.body["address"]))
        elif name == "gone":
            raise GuestGone(str(event.body["reason"]))
        elif name == "forwarder-died":
            self.note("forwarder-killed", "the model's loopback forwarder ended during the run")

    def _end_agent(self) -> None:
        """Bring the agent to its end.

        :raises InfraError: it still runs after SIGKILL, or the guest is gone.
        """
        limits = self.context.deadlines
        self.context.pipe.close_stdin()
        if any(isinstance(error, GuestGone | GuestSilent) for error in self.result.errors):
            return  # nobody is there to tell or to end anything; the container is removed whole
        stopped = any(error.outcome in UNMEASURED for error in self.result.errors)
        for word, seconds in (
            ("itself", 0.0 if stopped else limits.exit),
            ("terminate", 0.0 if stopped else limits.terminate),
            ("kill", limits.kill),
        ):
            if word != "itself":
                self.context.guest.signal(limits.kill + _OP_S, "TERM" if word == "terminate" else "KILL")
            self.result.ended_by = word
            if self._exits_within(seconds):
                break
        else:
            raise InfraError("the agent still runs after SIGKILL")
        if self.result.ended_by != "itself" and not self.result.errors:
            message = f"still runs {limits.exit:g} s after its standard input was closed"
            self.note("no-exit-on-eof", message)
        ended = self.result.exit or {}
        if ended.get("disk_exceeded") and not self.result.errors:
            # However it ended: it has spent its limit, in its turn or after it.
            self.result.errors.append(AgentError(f"ended with {exit_words(ended)}"))
        # Whoever had to be ended was told so with all its children.
        left = ended.get("survivors", []) if self.result.ended_by == "itself" else []
        if left:
            shown = ", ".join(process[:_COMMAND_SHOWN] for process in left[:_PROCESSES_SHOWN])
            message = f"{len(left)} outlived the agent: {shown}"
            self.note("process-left-behind", message)

    def _exits_within(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while self.result.exit is None:
            if time.monotonic() >= until:
                return False
            self._step(until)
        return True


def exit_words(event: Reply) -> str:
    """An `exit` event in words: `exit code 1`, `signal 9, out of memory`."""
    words = f"signal {event['signal']}" if event.get("signal") else f"exit code {event.get('code')}"
    if event.get("oom"):
        words += ", out of memory"
    if event.get("disk_exceeded"):
        words += ", wrote more than its limit"
    return words
