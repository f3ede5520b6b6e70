"""What a guest can be asked, one method an operation (`runner.guest.supervisor` and its neighbours answer).

Every method that waits raises `GuestRefused` where the guest says no, `GuestGone` where there is none any more, and
`GuestSilent` where it does not answer within `within_s` seconds.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Literal

from runner.config.fixture import Fixture, Verify
from runner.sandbox.channel import GuestChannel, Reply


class GuestClient:
    """Typed calls over one guest's channel. Thread-safe, as the channel is."""

    def __init__(self, channel: GuestChannel) -> None:
        self._channel = channel

    def close(self) -> None:
        """Close the channel; what still waits for a reply raises `GuestGone`."""
        self._channel.close()

    # before the agent

    def clock(self, within_s: float) -> tuple[int, str | None]:
        """The guest's CLOCK_MONOTONIC in ns, and its kernel's boot id."""
        reply = self._channel.call("clock", within_s)
        return int(reply["t_ns"]), reply["boot"]

    def prepare(
        self,
        within_s: float,
        fixture: Fixture,
        tar: bytes,
        *,
        home: Mapping[str, str],
        plant: Sequence[Mapping[str, str]],
        reset: str | None = None,
    ) -> Reply:
        """Lay out the workspace from the fixture's tree; with `reset`, bring a used one back by that mode.

        home: files for HOME, path below it -> content. Returns `proofs` and `planted`.
        """
        return self._channel.call(
            "prepare" if reset is None else "reset",
            within_s,
            **({} if reset is None else {"mode": reset}),
            fixture=fixture.id,
            tar=_base64(tar),
            tree=fixture.tree,
            commit=fixture.commit,
            home=dict(home),
            plant=list(plant),
        )

    def prove(self, within_s: float, *, uid: int, workspace: str, state_dirs: Sequence[str]) -> list[Any]:
        """The proofs that the sandbox is what it is said to be."""
        reply = self._channel.call("prove", within_s, uid=uid, workspace=workspace, state_dirs=list(state_dirs))
        return list(reply["proofs"])

    def survey(self, within_s: float, state_dirs: Sequence[str]) -> list[Any]:
        """What an earlier run has left."""
        return list(self._channel.call("survey", within_s, state_dirs=list(state_dirs))["found"])

    def forward(self, within_s: float, *, port: int, socket: str) -> None:
        """Have a loopback port lead to the gateway's socket."""
        self._channel.call("forward", within_s, listen=port, socket=socket)

    def resolve(self, within_s: float, *, command: Sequence[str], query: str) -> None:
        """Start a resolver on loopback whose questions are counted."""
        self._channel.call("resolve", within_s, argv=list(command), query=query)

    def listen_for_readiness(self, within_s: float, addresses: Sequence[str]) -> None:
        """Listen for servers that say that they are ready; each is an event `ready`."""
        self._channel.call("readiness", within_s, addresses=list(addresses))

    # the agent

    def go(
        self,
        within_s: float,
        *,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        disk_bytes: int,
        sample_ms: int,
    ) -> int:
        """Start the agent; when it was started, ns of the guest's clock."""
        reply = self._channel.call(
            "go",
            within_s,
            argv=list(argv),
            env=dict(env),
            cwd=cwd,
            disk_bytes=disk_bytes,
            sample_ms=sample_ms,
        )
        return int(reply["spawn_ns"])

    def signal(self, within_s: float, name: Literal["TERM", "KILL"]) -> None:
        """Signal the agent and all its children."""
        self._channel.call("signal", within_s, signal=name)

    def submit(self, operation: str, /, **arguments: Any) -> Future[Reply]:
        """An operation on behalf of the agent (`fs.*`, `terminal.*`) whose reply is awaited elsewhere."""
        return self._channel.submit(operation, **arguments)

    def read_file(self, within_s: float, path: str, roots: Sequence[str]) -> Reply:
        """A text file below `roots`, as the client of the protocol reads it."""
        return self._channel.call("fs.read", within_s, path=path, roots=list(roots))

    def submit_change_times(self, workspace: str, skip: Sequence[str], look_s: float) -> Future[Reply]:
        """`change_times`, not waited for."""
        return self._channel.submit("change_times", workspace=workspace, skip=list(skip), within_s=look_s)

    # after the agent

    def change_times(self, within_s: float, workspace: str, skip: Sequence[str], look_s: float) -> Reply:
        """What has changed in the workspace and when. `look_s`: seconds that the guest may look."""
        return self._channel.call("change_times", within_s, workspace=workspace, skip=list(skip), within_s=look_s)

    def queried_names(self, within_s: float) -> Reply:
        """`names`: host name -> questions for it; `ended_ns`: when the resolver ended, None: it runs."""
        return self._channel.call("names", within_s)

    def collect(
        self, within_s: float, *, workspace: str, cap_bytes: int, writable: Sequence[str], guest_s: float
    ) -> Reply:
        """The changed files as a tar, and the list of what was written outside the workspace.

        cap_bytes: of the tar. guest_s: seconds after which the guest says that there is too much.
        """
        return self._channel.call(
            "collect",
            within_s,
            workspace=workspace,
            cap_bytes=cap_bytes,
            writable=list(writable),
            changes_only=True,
            within_s=guest_s,
        )

    def stop(self) -> None:
        """Tell the guest to end; nobody waits for it."""
        self._channel.submit("stop")

    def verify(
        self,
        within_s: float,
        fixture: Fixture,
        tar: bytes,
        agent_tar: str,
        *,
        env: Mapping[str, str],
        disk_bytes: int,
        differing: Sequence[str] | None,
        cap_bytes: int | None,
        tests: bytes | None,
    ) -> Reply:
        """Lay the agent's files over a clean fixture and run the fixture's command (`runner.guest.verify`).

        agent_tar: base64, as `collect` gave it. tests: tar of an isolated fixture's folder of tests.
        """
        verify: Verify = fixture.verify
        return self._channel.call(
            "verify",
            within_s,
            fixture=fixture.id,
            tar=_base64(tar),
            tree=fixture.tree,
            commit=fixture.commit,
            agent_tar=agent_tar,
            differing=None if differing is None else list(differing),
            cap_bytes=cap_bytes,
            protected=verify.protected,
            command=verify.command,
            env=dict(env),
            timeout_s=verify.timeout_s,
            disk_bytes=disk_bytes,
            **({} if tests is None else {"tests": _base64(tests)}),
        )


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
