"""A stand-in for a model's API: our own scripted gateway behind a Unix socket of the host, which demands a key.

The gateway finds a run by its key, so the run it is given is the key: whoever shows another one gets 404.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker import DockerClient

from runner.config.catalog import Catalog
from runner.gateway.compile import compile_program
from runner.gateway.container import Gateway, socket_name
from runner.sandbox.container import Container, Spec
from runner.sandbox.images import Images
from runner.sandbox.labels import labels
from tests.engine.lab import REPOSITORY


def canary() -> str:
    """A key as Anthropic's look; it opens nothing."""
    return f"sk-ant-api03-{secrets.token_hex(24)}"


@dataclass
class StandIn:
    """`gateway` answers on the socket `path` of the host."""

    gateway: Gateway
    path: Path
    key: str

    def stop(self) -> None:
        self.gateway.stop()


def scripted(adapter: str, workspace: str = "/workspace/semver", *, ttft_ms: float = 0.0) -> dict[str, Any]:
    """The program of `fix-semver` for an adapter of the repository, with a latency."""
    catalog = Catalog(REPOSITORY)
    program = compile_program(catalog.script("fix-semver"), catalog.adapter(adapter), workspace)
    return {**program, "latency": {"ttft_ms": ttft_ms, "tokens_per_s": None}}


@contextlib.contextmanager
def stand_in(client: DockerClient, folder: Path, key: str, program: dict[str, Any]) -> Iterator[StandIn]:
    """Serve `program` to whoever shows `key`, until the block ends or `stop` is called."""
    sweep = f"upstream-{secrets.token_hex(4)}"
    image = Images(client).ensure("gateway").id
    folder.mkdir()
    folder.chmod(0o777)
    names = (f"acpbench-{sweep}-model", f"acpbench-{sweep}-journal")
    # The volume of the socket is the folder itself.
    where = {"type": "none", "o": "bind", "device": str(folder)}
    client.api.create_volume(name=names[0], driver_opts=where, labels=labels(sweep))
    client.api.create_volume(name=names[1], labels=labels(sweep))
    gateway = Gateway(
        client, image=image, name=f"acpbench-{sweep}", model_volume=names[0], journal_volume=names[1],
        labels=labels(sweep),
    )  # fmt: skip
    try:
        gateway.start()
        gateway.register(key, program)
        yield StandIn(gateway, folder / socket_name(key), key)
    finally:
        gateway.stop()
        for name in names:
            client.api.remove_volume(name, force=True)


@contextlib.contextmanager
def on_network(client: DockerClient, path: Path, network: str, alias: str, port: int) -> Iterator[None]:
    """The socket `path` of the host on a network as well, as `alias:port`."""
    spec = Spec(
        name=f"acpbench-door-{secrets.token_hex(4)}",
        image=Images(client).ensure("gateway").id,
        command=["socat", f"TCP-LISTEN:{port},fork,reuseaddr,backlog=128", f"UNIX-CONNECT:/door/{path.name}"],
        labels=labels("door"),
        mounts={},
        folders={str(path.parent): "/door"},
        network=network,
    )
    door = Container(client, spec)
    door.create()
    try:
        client.api.disconnect_container_from_network(door.id, network)
        client.api.connect_container_to_network(door.id, network, aliases=[alias])
        door.start()
        yield
    finally:
        door.remove()
