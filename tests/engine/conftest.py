"""What engine tests share: a client of the real engine, and a check that nothing of ours is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from runner.sandbox.engine import connect
from runner.sandbox.labels import LABEL, Owner
from tests.engine.gateway_harness import call, client, gateway, image, misses, run, start, volumes
from tests.engine.lab import Lab
from tests.engine.place import place

__all__ = ["call", "client", "gateway", "image", "misses", "place", "run", "start", "volumes"]


@pytest.fixture(scope="session")
def engine() -> Iterator[docker.DockerClient]:
    """The engine; a machine without one fails these tests, it does not skip them."""
    client = connect()
    yield client
    client.close()


def leftovers(client: docker.DockerClient) -> set[str]:
    """Containers and volumes of this very process: sweeps run in it."""
    mine = {"label": f"{LABEL}.owner={Owner.me()}"}
    containers = client.api.containers(all=True, filters=mine)
    volumes = client.api.volumes(filters=mine)["Volumes"] or []
    return {one["Id"] for one in containers} | {one["Name"] for one in volumes}


@pytest.fixture
def lab(tmp_path: Path, engine: docker.DockerClient) -> Iterator[Lab]:
    """A root to write configurations in; afterwards the engine holds nothing that it did not hold before."""
    before = leftovers(engine)
    yield Lab(tmp_path / "lab")
    assert leftovers(engine) <= before
