"""What all runs of a sweep share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from docker import DockerClient

from runner.config.loaded_sweep import LoadedSweep
from runner.gateway.container import Gateway
from runner.redaction.redact import Redactor
from runner.sandbox.container import Gate
from runner.sandbox.volumes import Volumes


@dataclass(frozen=True, slots=True)
class SweepContext:
    """The engine, the volumes and the gateway of one sweep, as its runs use them."""

    client: DockerClient
    #: Short name for containers and volumes.
    sweep: str
    loaded: LoadedSweep
    #: Image folder -> image id (`sha256:...`).
    images: Mapping[str, str]
    volumes: Volumes
    #: Of the containers that may come up at once.
    gate: Gate
    #: The living gateway; raises `InfraError` if none can be had.
    gateway: Callable[[], Gateway]
    #: Image folder -> version of the ACP schema -> its file.
    schemas: Mapping[str, Mapping[str, Any]]
    #: Strikes keys out of what is kept; None: no key is near.
    redactor: Redactor | None = None
