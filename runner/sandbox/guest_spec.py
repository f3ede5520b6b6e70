"""The container that a guest of ours runs in, whoever it serves: an agent, or the tests that judge one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

from runner.sandbox.container import GUEST_CAPABILITIES, GUEST_RESERVE_MB, GUEST_USER, Spec

_MB = 10**6


class GuestLimits(Protocol):
    """What the one that the guest serves may use."""

    memory_mb: int
    cpus: float
    pids: int


def guest_command(channel: Literal["unix", "stdio"]) -> list[str]:
    """The guest as a command; `channel`: where it listens to us."""
    return ["python3", "-I", "-u", "/acpbench/guest/main.py", "--channel", channel]


def guest_spec(
    channel: Literal["unix", "stdio"],
    limits: GuestLimits,
    mounts: Mapping[str, str],
    *,
    name: str,
    image: str,
    labels: Mapping[str, str],
    file_bytes: int | None = None,
) -> Spec:
    """The limits are those of the one that is served; what the guest takes comes on top. The rest: see `Spec`."""
    return Spec(
        name=name,
        image=image,
        command=guest_command(channel),
        labels=labels,
        mounts=mounts,
        user=GUEST_USER,
        capabilities=GUEST_CAPABILITIES,
        memory_bytes=(limits.memory_mb + GUEST_RESERVE_MB) * _MB,
        cpus=limits.cpus,
        pids=limits.pids,
        file_bytes=file_bytes,
    )
