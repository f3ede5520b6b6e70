"""The way out of a sweep whose models are live: upstreams, their keys, the network and the volume for the gateway.

The keys' whole path: the host's environment or a file -> this process -> a file of mode 0600 in a volume that the
gateway's container alone mounts, put there before its start -> the gateway's memory, the file being removed at once.
They are in no argument, no environment of a container, no log, and no container of an agent.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from docker import DockerClient

from runner.config.catalog import LoadedSweep
from runner.config.upstream import Key, Upstream
from runner.errors import UsageError
from runner.sandbox.container import USER, engine_errors
from runner.sandbox.labels import labels

PRIVATE_TARGET = "/private"
_POLICY = "policy.json"
_SOCKETS = "/upstream"


@dataclass(frozen=True, slots=True)
class Outward:
    """The live models of a sweep, by id, and their keys."""

    upstreams: Mapping[str, Upstream]
    #: Never shown, not even by accident.
    keys: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, loaded: LoadedSweep, models: Iterable[str], environ: Mapping[str, str] | None = None) -> Outward | None:
        """What the models of whole names `models` need; None where none of them is live.

        :raises UsageError: a key is not where it should be.
        """
        wanted = {loaded.upstreams[name].id: loaded.upstreams[name] for name in models if name in loaded.upstreams}
        if not wanted:
            return None
        there = os.environ if environ is None else environ
        keys = {name: _read(one.key, name, loaded.root, there) for name, one in wanted.items() if one.key is not None}
        return cls(wanted, keys)

    @property
    def needs_network(self) -> bool:
        return any(one.socket is None for one in self.upstreams.values())

    @property
    def folders(self) -> dict[str, str]:
        """Folder of the host -> where the gateway sees it: those of sockets."""
        found = sorted({str(PurePosixPath(one.socket).parent) for one in self.upstreams.values() if one.socket})
        return {folder: f"{_SOCKETS}/{number}" for number, folder in enumerate(found)}

    def policy(self) -> bytes:
        """The private file, as images/gateway/upstream.mjs reads it."""
        return json.dumps({"upstreams": {name: self._one(one) for name, one in self.upstreams.items()}}).encode()

    def _one(self, upstream: Upstream) -> dict[str, Any]:
        socket = upstream.socket
        there = PurePosixPath(socket) if socket else None
        return {
            "base_url": upstream.base_url,
            "socket": f"{self.folders[str(there.parent)]}/{there.name}" if there else None,
            "allow": upstream.allow,
            "key": self.keys.get(upstream.id),
            "auth": upstream.auth.model_dump() if upstream.auth else None,
            "budget": upstream.budget.model_dump(),
            "prices": {name: price.model_dump() for name, price in upstream.prices.items()},
        }


def _read(key: Key, upstream: str, root: Path, environ: Mapping[str, str]) -> str:
    if key.env is not None:
        value, where = environ.get(key.env, ""), f"the environment variable {key.env}"
    else:
        path = root / Path(key.file or "").expanduser()
        where = str(path)
        try:
            value = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else "not text"
            raise UsageError(f"the key of model '{upstream}': {where} cannot be read: {reason}") from None
    value = value.strip()
    if not value or not value.isascii() or not value.isprintable() or " " in value:
        what = "is empty or not set" if not value else "does not hold a key alone"
        raise UsageError(f"the key of model '{upstream}': {where} {what}")
    return value


@dataclass(frozen=True, slots=True)
class WayOut:
    """The engine's part of it: names of the private volume and of the network ("none" where sockets are enough)."""

    outward: Outward
    volume: str
    network: str

    @classmethod
    def create(cls, client: DockerClient, sweep: str, outward: Outward) -> WayOut:
        """Create both, labelled, so that the reaper finds them.

        :raises InfraError: the engine refuses.
        """
        volume = f"acpbench-{sweep}-private"
        network = f"acpbench-{sweep}-out" if outward.needs_network else "none"
        with engine_errors("create the way out of the model gateway"):
            client.api.create_volume(name=volume, labels=labels(sweep))
            if outward.needs_network:
                client.api.create_network(network, driver="bridge", internal=False, labels=labels(sweep))
        return cls(outward, volume, network)

    def tar(self) -> bytes:
        """The private file as the gateway's container gets it: its user's alone."""
        data = self.outward.policy()
        member = tarfile.TarInfo(_POLICY)
        member.size, member.mode = len(data), 0o600
        member.uid, member.gid = (int(part) for part in USER.split(":"))
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            tar.addfile(member, io.BytesIO(data))
        return buffer.getvalue()
