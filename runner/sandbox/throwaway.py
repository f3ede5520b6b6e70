"""Containers that live for one command: no rights, no log, no network unless one is asked for, always removed."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import docker
from docker.errors import NotFound
from docker.types import LogConfig

from runner.sandbox.engine import retrying
from runner.sandbox.labels import labels
from runner.sandbox.stream import AttachedStream

#: Seconds between the end of a program's output and its exit.
EXIT_S = 5


@contextmanager
def created(
    client: docker.DockerClient,
    image: str,
    command: Sequence[str],
    *,
    stdin: bool = False,
    user: str | None = None,
    network: str = "none",
) -> Iterator[str]:
    """A created, not yet started container; yields its id and removes it whatever happens."""
    api = client.api
    host = api.create_host_config(
        network_mode=network,
        init=True,
        log_config=LogConfig(type="none"),
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
    )
    container: str = api.create_container(
        image,
        list(command),
        host_config=host,
        labels=labels("images"),
        stdin_open=stdin,
        user=user,
        # docker-py would add the host's proxy settings to the environment.
        use_config_proxy=False,
    )["Id"]
    try:
        yield container
    finally:
        remove(client, container)


@retrying
def remove(client: docker.DockerClient, container: str) -> None:
    """Remove a container with its anonymous volumes, running or not; it may be gone already."""
    try:
        client.api.remove_container(container, v=True, force=True)
    except NotFound:
        return


def output(
    client: docker.DockerClient,
    image: str,
    command: Sequence[str],
    *,
    user: str | None = None,
    limit_s: float = 60.0,
) -> tuple[int, str]:
    """Run one command; exit code and what it printed, stdout and stderr as they came.

    A program that is not there is init's own exit code 127. Raises TimeoutError where it has not ended after `limit_s`,
    and what docker-py raises.
    """
    with created(client, image, command, user=user) as container:
        # Attached before the start: with log driver none nothing is kept for later.
        stream = AttachedStream.attach(client, container, stdin=False)
        late = threading.Event()

        def give_up() -> None:
            late.set()
            stream.close()

        timer = threading.Timer(limit_s, give_up)
        timer.start()
        try:
            client.api.start(container)
            printed = b"".join(chunk.data for chunk in stream.chunks())
        finally:
            timer.cancel()
            stream.close()
        if late.is_set():
            raise TimeoutError(f"{command[0]} has not ended after {limit_s:g} s")
        code = int(client.api.wait(container, timeout=EXIT_S)["StatusCode"])
    return code, printed.decode("utf-8", "replace")
