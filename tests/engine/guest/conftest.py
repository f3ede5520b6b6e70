"""A guest in a real container, as it starts and as it is when a fixture has been prepared."""

from __future__ import annotations

from collections.abc import Iterator

import docker
import pytest

from runner.sandbox.images import Images
from tests.engine.guest.harness import Guest, guest_volume, running_guest
from tests.engine.guest.steps import Start, prepare


@pytest.fixture(scope="module")
def image(engine: docker.DockerClient) -> str:
    """Base and Node with the user `agent`; any image with python3, git, socat and that user will do."""
    return Images(engine).ensure("node").id


@pytest.fixture(scope="module")
def start(engine: docker.DockerClient, image: str) -> Iterator[Start]:
    with guest_volume(engine, image) as volume:
        yield lambda mode="unix", **options: running_guest(engine, image, volume, mode, **options)


@pytest.fixture
def guest(start: Start) -> Iterator[Guest]:
    with start() as running:
        yield running


@pytest.fixture
def prepared(guest: Guest) -> Guest:
    prepare(guest)
    return guest
