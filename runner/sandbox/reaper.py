"""Removes what a dead owner left behind, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import docker.errors
import requests
from docker import DockerClient

from runner.errors import EngineUnavailable
from runner.sandbox.labels import LABEL, is_dead


@dataclass(slots=True)
class Reaped:
    """Names of what was removed, and what could not be (with the engine's words)."""

    containers: list[str] = field(default_factory=list)
    volumes: list[str] = field(default_factory=list)
    networks: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def reap(client: DockerClient, *, sweep: str | None = None) -> Reaped:
    """Remove containers, then volumes and networks, whose owner is dead.

    :param sweep: also remove what carries this sweep's label, whoever owns it (our own clean-up at exit).
    :raises EngineUnavailable: the engine does not answer.
    """
    done = Reaped()

    def ours(labels: dict[str, str] | None) -> bool:
        found = labels or {}
        return is_dead(found) or (sweep is not None and LABEL in found and found.get(f"{LABEL}.sweep") == sweep)

    try:
        for container in client.api.containers(all=True, filters={"label": f"{LABEL}.owner"}):
            if ours(container.get("Labels")):
                remove = partial(client.api.remove_container, container["Id"], force=True, v=True)
                _try(done, done.containers, container["Id"][:12], remove)
        for volume in client.api.volumes(filters={"label": f"{LABEL}.owner"})["Volumes"] or []:
            if ours(volume.get("Labels")):
                remove = partial(client.api.remove_volume, volume["Name"], force=True)
                _try(done, done.volumes, volume["Name"], remove)
        for network in client.api.networks(filters={"label": f"{LABEL}.owner"}):
            if ours(network.get("Labels")):
                _try(done, done.networks, network["Name"], partial(client.api.remove_network, network["Id"]))
    except requests.RequestException as problem:
        raise EngineUnavailable(f"the container engine does not answer: {problem}") from problem
    return done


def _try(done: Reaped, removed: list[str], name: str, remove: Callable[[], object]) -> None:
    try:
        remove()
    except docker.errors.NotFound:
        return  # another reaper was first
    except docker.errors.APIError as problem:
        done.failed.append(f"{name}: {problem.explanation or problem}")
    else:
        removed.append(name)
