"""The way out of a sweep whose models are live: upstreams, their keys, the network and the volume for the gateway.

The keys' whole path: the host's environment or a file -> this process -> a file of mode 0600 in a volume that the
gateway's container alone mounts, put there before its start -> the gateway's memory, the file being removed at once.
They are in no argument, no environment of a container, no log, and no container of an agent.
"""

from __future__ import annotations

import io
import json
import os
import ssl
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from docker import DockerClient

from runner.config.catalog import Catalog
from runner.config.keys import SHORTEST
from runner.config.loaded_sweep import LoadedSweep
from runner.config.source import Place, shown
from runner.config.upstream import Upstream
from runner.errors import ConfigError
from runner.redaction import redact
from runner.redaction.forms import Forms
from runner.sandbox.container import USER, engine_errors
from runner.sandbox.host import authorities
from runner.sandbox.labels import labels

PRIVATE_TARGET = "/private"
_POLICY = "policy.json"
_SOCKETS = "/upstream"
#: Largest file that is read for a key or a certificate, bytes: the bundle of all public authorities has 200 kB.
_LARGEST = 4 << 20
#: Longest key, characters: an HTTP header takes hardly more.
_LONGEST = 4096


@dataclass(frozen=True, slots=True)
class LiveUpstreams:
    """The live models of a sweep, by id, with their keys and the certificates (PEM) they may be signed by."""

    upstreams: Mapping[str, Upstream]
    #: Never shown, not even by accident.
    keys: Mapping[str, str] = field(repr=False)
    authorities: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, loaded: LoadedSweep, models: Iterable[str], environ: Mapping[str, str] | None = None
    ) -> LiveUpstreams | None:
        """What the models of whole names `models` need; None where none of them is live.

        :raises ConfigError: a key or a certificate is not where it should be.
        """
        wanted = {loaded.upstreams[name].id: loaded.upstreams[name] for name in models if name in loaded.upstreams}
        if not wanted:
            return None
        there = os.environ if environ is None else environ
        found = {name: _Files(loaded, one, there) for name, one in wanted.items()}
        keys = {name: one.key() for name, one in found.items() if one.upstream.key is not None}
        redact.know(keys.values())
        _check_no_key(loaded, keys)
        return cls(
            wanted,
            keys,
            {name: one.authorities() for name, one in found.items() if one.upstream.base_url.startswith("https:")},
        )

    @property
    def needs_network(self) -> bool:
        return any(upstream.socket is None for upstream in self.upstreams.values())

    @property
    def folders(self) -> dict[str, str]:
        """Folder of the host -> where the gateway sees it: those of sockets."""
        found = sorted(
            {str(PurePosixPath(upstream.socket).parent) for upstream in self.upstreams.values() if upstream.socket}
        )
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
            "ca": self.authorities.get(upstream.id) or None,
            "silence_s": upstream.silence_s,
            "budget": upstream.budget.model_dump(),
            "prices": {name: price.model_dump() for name, price in upstream.prices.items()},
        }


def _check_no_key(loaded: LoadedSweep, keys: Mapping[str, str]) -> None:
    """Raise ConfigError where a file of this sweep says a key: what stands there is copied into records and agents."""
    forms = {name: Forms([key]) for name, key in keys.items()}
    files = {path: path.read_bytes() for path in (loaded.root / name for name in loaded.digests) if path.is_file()}
    for path, data in {**files, loaded.path: loaded.source}.items():
        for name, found in forms.items():
            for start, _ in found.spans(data)[:1]:
                message = f"this line holds the key of model '{name}'; a file says where a key is, never the key itself"
                raise ConfigError(shown(path), data.count(b"\n", 0, start) + 1, message)


def _is_pem(text: str) -> bool:
    try:
        ssl.create_default_context(cadata=text)
    except (ssl.SSLError, ValueError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Files:
    """Reads what a live model's configuration points to; what is wrong there is told at the line that says where."""

    loaded: LoadedSweep
    upstream: Upstream
    environ: Mapping[str, str]

    def key(self) -> str:
        key = self.upstream.key
        assert key is not None
        name = "env" if key.env is not None else "file"
        if key.env is not None:
            value, where = self.environ.get(key.env, ""), f"the environment variable {key.env}"
        else:
            value, where = self._text(key.file or "", ("key", "file")), str(self._path(key.file or ""))
        value = value.strip()
        if not value:
            problem = f"{where} is empty or not set" if name == "env" else f"{where} is empty"
            raise self._error(("key", name), problem)
        if not value.isascii() or not value.isprintable() or " " in value:
            raise self._error(("key", name), f"{where} does not hold a key alone")
        if len(value) < SHORTEST or value.isdigit():
            # Nor would it be a secret: what is kept says such words and numbers of its own.
            message = f"{where} holds a key that cannot be struck out of what is kept"
            raise self._error(("key", name), f"{message}; it must have {SHORTEST} characters or more, not digits alone")
        if len(value) > _LONGEST:
            raise self._error(("key", name), f"{where} holds more than {_LONGEST} characters, which is no key")
        return value

    def authorities(self) -> str:
        """PEM text; empty: the public ones are enough."""
        if self.upstream.ca is None:
            found = authorities(self.environ).decode("utf-8", "replace")
            return found if _is_pem(found) else ""
        text = self._text(self.upstream.ca, ("ca",))
        where = self._path(self.upstream.ca)
        if "PRIVATE KEY" in text:
            raise self._error(("ca",), f"{where} holds a private key; name a file of certificates alone")
        if not _is_pem(text):
            raise self._error(("ca",), f"{where} holds no certificate in PEM form")
        return text

    def _path(self, given: str) -> Path:
        return self.loaded.root / Path(given).expanduser()

    def _text(self, given: str, place: Place) -> str:
        path = self._path(given)
        try:
            with path.open("rb") as file:
                data = file.read(_LARGEST + 1)
            if len(data) > _LARGEST:
                raise self._error(place, f"{path} is larger than {_LARGEST >> 20} MiB")
            return data.decode("utf-8-sig")
        except (OSError, ValueError) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else "not text"
            raise self._error(place, f"{path} cannot be read: {reason}") from None

    def _error(self, place: Place, problem: str) -> ConfigError:
        name = self.upstream.id
        path, line = Catalog(self.loaded.root).loaded_upstream(name).at(*place)
        return ConfigError(path, line, f"model '{name}': {problem}")


@dataclass(frozen=True, slots=True)
class UpstreamAccess:
    """The engine's part of it: names of the private volume and of the network ("none" where sockets are enough)."""

    live_upstreams: LiveUpstreams
    volume: str
    network: str

    @classmethod
    def create(cls, client: DockerClient, sweep: str, live_upstreams: LiveUpstreams) -> UpstreamAccess:
        """Create both, labelled, so that the reaper finds them.

        :raises InfraError: the engine refuses.
        """
        volume = f"acpbench-{sweep}-private"
        network = f"acpbench-{sweep}-out" if live_upstreams.needs_network else "none"
        with engine_errors("create the way out of the model gateway"):
            client.api.create_volume(name=volume, labels=labels(sweep))
            if live_upstreams.needs_network:
                client.api.create_network(network, driver="bridge", internal=False, labels=labels(sweep))
        return cls(live_upstreams, volume, network)

    def tar(self) -> bytes:
        """The private file as the gateway's container gets it: its user's alone."""
        data = self.live_upstreams.policy()
        member = tarfile.TarInfo(_POLICY)
        member.size, member.mode = len(data), 0o600
        member.uid, member.gid = (int(part) for part in USER.split(":"))
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            tar.addfile(member, io.BytesIO(data))
        return buffer.getvalue()
