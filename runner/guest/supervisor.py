"""The guest as a whole: takes the channel, wires the operations to their rooms, serves until the host closes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
import struct
import sys
import threading
import time
from typing import Any

from . import collect, families, files, fixture, procs, proofs, reset, seccomp, system, untrusted, verify
from .agent import Agent, Streams
from .change_times import ChangeTimes
from .channel import Channel, Dispatcher, OpError, Request
from .disk import Writes
from .forwarder import Forwarder
from .preallocated import Preallocated
from .probing import Probing
from .readiness import Readiness
from .reaper import Reaper
from .resolver import NameServer
from .terminals import Terminals

#: Abstract: it needs no place on disk, and nobody can find it there once the listener is closed.
ADDRESS = "\0acpbench-guest"
#: Threads wait at most this long for one that computes; Python's default of 5 ms would show in the callbacks' times.
_SWITCH_S = 0.0005


class Guest:
    """The operations, and what they share."""

    def __init__(
        self,
        channel: Channel,
        streams: Streams | None,
        bridge_pid: int,
        writes: Writes,
        probing: Probing,
        preallocated: Preallocated,
    ) -> None:
        self.channel = channel
        self.layout = fixture.Layout()
        self.prepared: fixture.Prepared | None = None
        self.reaper = Reaper()
        self.forwarder = Forwarder(channel, self.reaper)
        self.resolver = NameServer(self.reaper)
        self.readiness = Readiness(channel)
        self.change_times = ChangeTimes()
        self.terminals = Terminals(self.reaper)
        self.agent: Agent | None = None
        if streams is not None:
            self.agent = Agent(
                channel,
                self.reaper,
                streams,
                self.forwarder,
                self.resolver,
                self.terminals,
                writes,
                preallocated,
                bridge_pid,
            )
        self.reaping = False
        self.probing = probing

    def serve(self) -> None:
        """Until `stop` or the end of the channel."""
        dispatcher = Dispatcher(self.channel)
        dispatcher.register("clock", self.clock)
        dispatcher.register("prepare", self.prepare)
        dispatcher.register("reset", self.reset)
        dispatcher.register("prove", self.prove)
        dispatcher.register("survey", self.survey)
        dispatcher.register("stop", self.stop)
        if self.agent is None:
            dispatcher.register("verify", self.verify, slow=True)
        else:
            dispatcher.register("forward", self.forward)
            dispatcher.register("resolve", self.resolve)
            dispatcher.register("names", self.resolver.names, slow=True)
            dispatcher.register("readiness", self.readiness.listen)
            dispatcher.register("go", self.go)
            dispatcher.register("change_times", self.change_times.list, slow=True)
            dispatcher.register("signal", self.agent.signal, slow=True)
            dispatcher.register("fs.read", files.read)
            dispatcher.register("fs.write", files.write)
            dispatcher.register("terminal.create", self.terminals.create)
            dispatcher.register("terminal.output", self.terminals.output)
            dispatcher.register("terminal.wait", self.terminals.wait)
            dispatcher.register("terminal.kill", self.terminals.kill)
            dispatcher.register("terminal.release", self.terminals.release)
            dispatcher.register("collect", self.collect, slow=True)
        dispatcher.run()

    def clock(self, request: Request) -> dict[str, Any]:
        return {"t_ns": time.monotonic_ns(), "boot": procs.read("/proc/sys/kernel/random/boot_id").strip() or None}

    def prepare(self, request: Request) -> dict[str, Any]:
        self._before_go("prepare")
        self.prepared = fixture.prepare(
            self.layout,
            request.text("fixture"),
            request.blob("tar"),
            fixture.Pins(request.optional_text("tree"), request.optional_text("commit")),
            request.text_map("home"),
            plant=request.objects("plant"),
        )
        return self._told(self.prepared)

    def reset(self, request: Request) -> dict[str, Any]:
        """`reset` {mode, and all of `prepare`} -> as `prepare`: in a container that was kept from an earlier run."""
        self._before_go("reset")
        self.probing.found()
        self.prepared = reset.reset(
            self.layout,
            request.text("fixture"),
            request.blob("tar"),
            fixture.Pins(request.optional_text("tree"), request.optional_text("commit")),
            request.text_map("home"),
            request.objects("plant"),
            request.text("mode"),
        )
        # What an agent has planted in its repository may have started something.
        untrusted.Untrusted().end()
        return self._told(self.prepared)

    def survey(self, request: Request) -> dict[str, Any]:
        """`survey` {state_dirs} -> {found: [{kind, path, sha256}]}. Error: `not_prepared`."""
        self._before_go("survey")
        if self.prepared is None:
            raise OpError("not_prepared", "prepare or reset comes first")
        found = reset.survey(self.layout, self.prepared, request.texts("state_dirs"))
        return {"found": [thing.as_json() for thing in found]}

    def _told(self, prepared: fixture.Prepared) -> dict[str, Any]:
        return {
            "tree": prepared.tree,
            "commit": prepared.commit,
            "proofs": [proof.as_json() for proof in prepared.proofs],
            "planted": [path.as_json() for path in prepared.planted],
        }

    def prove(self, request: Request) -> dict[str, Any]:
        found = proofs.prove(
            self.layout,
            self.prepared,
            self.probing.found,
            request.number("uid"),
            request.text("workspace"),
            request.texts("state_dirs"),
        )
        return {"proofs": [proof.as_json() for proof in found]}

    def forward(self, request: Request) -> dict[str, Any]:
        self._reap()
        return self.forwarder.forward(request)

    def resolve(self, request: Request) -> dict[str, Any]:
        self._reap()
        return self.resolver.resolve(request)

    def go(self, request: Request) -> dict[str, Any]:
        assert self.agent is not None
        self._reap()
        self.change_times.mark(request.text("cwd"))
        return self.agent.go(request)

    def collect(self, request: Request) -> None:
        if self.agent is not None and self.agent.running:
            raise OpError("agent_running", "the agent runs: what it still writes would be missed")
        collect.collect(request, self.prepared)

    def verify(self, request: Request) -> None:
        problems = proofs.conditions(self.probing.found(), untrusted.AGENT.uid)
        sockets = families.prove()
        if problems or not sockets.ok:
            raise OpError("not_proved", "; ".join([*problems, *([] if sockets.ok else [sockets.detail])]))
        verify.verify(request, self.layout)

    def stop(self, request: Request) -> None:
        request.reply({})
        self.end()

    def end(self) -> None:
        """Exits at once; with the container's first process gone, the kernel ends all others."""
        if self.agent is not None:
            self.agent.end_everything()
        os._exit(0)

    def _reap(self) -> None:
        """From the first long-lived child on, one thread waits for all; git is run before that or not at all."""
        if not self.reaping:
            self.reaping = True
            self.probing.found()
            self.reaper.start()
            self.terminals.start()
            assert self.agent is not None
            self.agent.start()

    def _before_go(self, what: str) -> None:
        if self.reaping:
            raise OpError("too_late", f"{what} comes before forward and go")


def main(argv: list[str]) -> int:
    """Returns 64 for wrong arguments; otherwise the process ends in `Guest.end`."""
    if argv not in (["--channel", "unix"], ["--channel", "stdio"]):
        sys.stderr.write("usage: main.py --channel unix|stdio\n")
        return 64
    _inherit_nothing()
    if argv[1] == "unix":
        _share_streams()
    writes = Writes()
    untrusted.settle()
    # Hidden first: then nobody whom the filter lets trace can trace us. Both come before the first thread.
    system.hide()
    preallocated = Preallocated(_filter_calls())
    preallocated.start()
    system.adopt_orphans()
    sys.setswitchinterval(_SWITCH_S)
    system.default_signals()
    _ignore_signals()
    # Beside the opening of the channel, which takes longer.
    probing = Probing()
    if argv[1] == "unix":
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(ADDRESS)
            listener.listen(1)
            connection, _ = listener.accept()
        fd = connection.detach()
        guest = Guest(Channel(fd, fd), _take_streams(), _peer(fd), writes, probing, preallocated)
    else:
        streams = _take_streams()
        guest = Guest(Channel(streams.stdin, streams.stdout), None, 0, writes, probing, preallocated)
    _report_threads(guest.channel)
    with contextlib.suppress(ConnectionError):
        guest.serve()
    guest.end()
    return 0


def _filter_calls() -> int | None:
    """The listener of our filter. Where it cannot be installed we go on: the proof of the address families says so."""
    try:
        return seccomp.install()
    except OSError:
        return None


def _ignore_signals() -> None:
    """An agent's `kill -- -1` must not take us; a handler, unlike SIG_IGN, is not passed on to what we start."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda *_: None)


def _inherit_nothing() -> None:
    """Whatever else the container was started with is for none of the programs that we start."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with contextlib.suppress(OSError):  # the listing's own
                os.set_inheritable(int(name), False)


def _share_streams() -> None:
    """The container's streams are root's, and the agent opens them anew by name (/dev/stderr)."""
    for fd in (0, 1, 2):
        if stat.S_ISFIFO(os.fstat(fd).st_mode):
            os.fchmod(fd, 0o666)


def _take_streams() -> Streams:
    """Moves the container's streams out of our own way: whatever of ours writes to 1 or 2 writes to nowhere."""
    streams = Streams(*(os.dup(fd) for fd in (0, 1, 2)))
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd, inheritable=False)
    os.close(nowhere)
    return streams


def _peer(fd: int) -> int:
    """The pid of the bridge; 0 where it cannot be seen."""
    with socket.socket(fileno=os.dup(fd)) as connection:
        pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(pid)


def _report_threads(channel: Channel) -> None:
    """A thread of ours that dies says so to the host."""

    def report(details: threading.ExceptHookArgs) -> None:
        channel.event("guest-error", message=f"{details.exc_type.__name__}: {details.exc_value}")

    threading.excepthook = report
