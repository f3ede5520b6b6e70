"""The container that an agent runs in: made, attached to, asked through its guest, let go of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

from runner.errors import InternalError
from runner.run.context import SweepContext
from runner.run.inputs import RunInputs
from runner.sandbox.channel import GuestChannel
from runner.sandbox.container import Container, Spec
from runner.sandbox.guest_client import GuestClient
from runner.sandbox.guest_spec import guest_spec
from runner.sandbox.labels import labels
from runner.sandbox.reused import ReusedContainer
from runner.sandbox.volumes import GUEST_TARGET, MODEL_TARGET, TOOLBOX_TARGET
from runner.surfaces.pipe import AgentPipe, GuestEvent, Inbox

_BRIDGE = ["socat", "-t", "3600", "-", "ABSTRACT-CONNECT:acpbench-guest,retry=200,interval=0.01"]
#: Its own: neither the agent nor a helper whom the agent talks to can trace, kill or read it.
_BRIDGE_USER = "65532:65532"
#: Above its disk limit, so that whoever fills one file up to the kernel's bound has written too much already. The bound
#: is the guest's too, which packs what the agent left into one file: hard links can make that more than the disk held.
_FILE_SLACK_BYTES = 1 << 20
_MB = 10**6
_T = TypeVar("_T")


def container_name(context: SweepContext, inputs: RunInputs, role: str) -> str:
    return f"acpbench-{context.sweep}-{inputs.cell.order}-{inputs.attempt}-{role}"


def container_labels(context: SweepContext, inputs: RunInputs) -> dict[str, str]:
    return labels(context.sweep, f"{inputs.cell.name}/{inputs.attempt}")


def agent_spec(context: SweepContext, inputs: RunInputs) -> Spec:
    """The agent's container; its limits are the adapter's."""
    limits = inputs.adapter.limits
    mounts = {context.volumes.guest: GUEST_TARGET, context.volumes.model: MODEL_TARGET}
    if inputs.surface.toolbox is not None:
        mounts[context.volumes.toolboxes[inputs.surface.toolbox]] = TOOLBOX_TARGET
    return guest_spec(
        "unix",
        limits,
        mounts,
        name=container_name(context, inputs, "agent"),
        image=context.images[inputs.adapter.image],
        labels=container_labels(context, inputs),
        file_bytes=max(limits.disk_mb, inputs.knobs.collect_cap_mb) * _MB + _FILE_SLACK_BYTES,
    )


class AgentContainer:
    """`create`, `start`, `connect`, then its `pipe` and `guest`; `release` whatever came of these.

    `reused`: the arm's container, where the arm keeps one; None: a container of its own.
    """

    def __init__(self, context: SweepContext, inputs: RunInputs, reused: ReusedContainer | None) -> None:
        self._context = context
        self._inputs = inputs
        self._reused = reused
        self._container: Container | None = None
        self._pipe: AgentPipe | None = None
        self._guest: GuestClient | None = None
        #: The engine's; None: it was not made, or is not known yet.
        self.id: str | None = None

    @property
    def runs_before(self) -> int:
        """How many runs have ended in it."""
        return 0 if self._reused is None else self._reused.runs

    @property
    def pipe(self) -> AgentPipe:
        return _made(self._pipe)

    @property
    def guest(self) -> GuestClient:
        return _made(self._guest)

    @property
    def container(self) -> Container:
        return _made(self._container)

    @property
    def attached(self) -> bool:
        """Whether there are streams, and so logs of them."""
        return self._pipe is not None

    def create(self, inbox: Inbox, folder: Path) -> None:
        """Make the container and log its streams into `folder`; the agent's lines go to `inbox`."""

        def make() -> Container:
            return Container(self._context.client, agent_spec(self._context, self._inputs), self._context.gate)

        self._container = container = make() if self._reused is None else self._reused.take(make)
        if not container.id:
            container.create()
        knobs = self._inputs.knobs
        self._pipe = AgentPipe(container.attach(), inbox, folder, knobs.frames_cap_mb * _MB, knobs.stderr_cap_mb * _MB)
        self._pipe.start()

    def start(self) -> None:
        self.container.start()

    def connect(self, inbox: Inbox) -> GuestClient:
        """The channel to its guest, over a bridge that the agent cannot touch; the guest's events go to `inbox`."""
        channel = GuestChannel(
            self.container.execute(_BRIDGE, _BRIDGE_USER),
            lambda body: inbox.put(GuestEvent(body)),
            name="guest-channel",
        )
        self._guest = GuestClient(channel)
        return self._guest

    def workspace_archive(self) -> AbstractContextManager[Iterator[bytes]]:
        """The workspace as the engine packs it, whatever state the guest is in."""
        return self.container.archive(self._inputs.workspace)

    def end_streams(self, within_s: float) -> bool:
        """Wait until its streams have ended; False: they have not."""
        return self._pipe is None or self._pipe.finish(within_s)

    def disconnect(self) -> None:
        if self._guest is not None:
            self._guest.close()

    def release(self, *, ours_failed: bool) -> None:
        """Let go of the container; twice is harmless.

        A reused one stays for the next run, unless this run failed for our own reasons (`ours_failed`).
        """
        container, self._container = self._container, None
        if container is None:
            return
        self.id = container.id
        if self._reused is None:
            container.remove()
        elif ours_failed:
            self._reused.discard()
        else:
            self._reused.give_back()


def _made(part: _T | None) -> _T:
    if part is None:
        raise InternalError("internal error: a part of the agent's container is used before it is there")
    return part
