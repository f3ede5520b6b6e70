"""What stands ready before a sweep's first run and is gone after its last: images, pins, volumes, the gateway.

Nothing is built or fetched during a run. The gateway is watched: when it dies, every run that needs it is stopped at
once (an agent would retry for minutes), and the next run gets a new one.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from docker import DockerClient

from runner.config.adapter import Adapter
from runner.config.loaded_sweep import LoadedSweep
from runner.errors import BuildError, InfraError, RunError
from runner.gateway.container import Gateway
from runner.gateway.upstream_access import LiveUpstreams, UpstreamAccess
from runner.records.lock import AdapterPins, Binary, ImagePin, PackagePin, build_lock
from runner.records.outcome import Aborted
from runner.redaction.redact import Redactor
from runner.run.context import SweepContext
from runner.run.run import Run
from runner.sandbox.engine import describe
from runner.sandbox.images import ImageRef, Images
from runner.sandbox.labels import labels
from runner.sandbox.pins import canonical
from runner.sandbox.reaper import reap
from runner.sandbox.volumes import Volumes, guest_digest
from runner.surfaces.pipe import Stop

GATEWAY_IMAGE = "gateway"
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ResolvedPins:
    """Images by folder, ACP schemas by image folder and SDK version, and what each adapter is made of."""

    images: Mapping[str, ImageRef]
    schemas: Mapping[str, Mapping[str, Path]]
    adapters: Mapping[str, AdapterPins]


def pin(images: Images, adapters: Iterable[Adapter], say: Say, toolboxes: Iterable[str] = ()) -> ResolvedPins:
    """Build what is missing and resolve every pin. `toolboxes`: images whose programs surfaces bring along.

    :raises BuildError: an image cannot be built, or a program in it is not the version it is pinned to.
    """
    adapters = list(adapters)
    folders = sorted({adapter.image for adapter in adapters} | {GATEWAY_IMAGE, *toolboxes})
    refs = dict(zip(folders, images.build(folders, say), strict=True))
    return ResolvedPins(
        images=refs,
        schemas={adapter.image: images.schemas(adapter.image, adapter.acp_sdk) for adapter in adapters},
        adapters={adapter.id: _pins(images, refs[adapter.image], adapter) for adapter in adapters},
    )


def check_packages(ref: ImageRef, adapter: Adapter) -> None:
    """What an adapter says it is made of must be what its image's locks install.

    :raises BuildError: a version differs, or a package is not there.
    """
    held: dict[tuple[str, str], list[str]] = {}
    for installed in ref.packages:
        held.setdefault((installed.registry, canonical(installed.name)), []).append(installed.version)
    for package in adapter.packages:
        found = held.get((package.registry, canonical(package.name)), [])
        if package.version not in found:
            message = f"holds {', '.join(found)}" if found else "does not hold it"
            raise BuildError(
                f"adapter {adapter.id} pins {package.name} {package.version}, image {ref.name} {message}; "
                f"mend configs/adapters or images/{ref.name}"
            )


def _pins(images: Images, ref: ImageRef, adapter: Adapter) -> AdapterPins:
    check_packages(ref, adapter)
    launches = {"acp": adapter.acp, "cli": adapter.cli}
    paths = {transport: launch.binary for transport, launch in launches.items() if launch is not None}
    digests = images.digests(ref.name, sorted(set(paths.values())))
    return AdapterPins(
        image=ref.name,
        packages=[
            PackagePin(package.registry, package.name, package.version, package.integrity) for package in ref.packages
        ],
        programs=_stated(images, ref, adapter),
        binaries={transport: Binary(path, digests[path]) for transport, path in paths.items()},
    )


def _stated(images: Images, ref: ImageRef, adapter: Adapter) -> dict[str, str]:
    """What each program says of its own version; asked once per image and list of programs."""
    asked = [program.model_dump() for program in adapter.programs]
    cache = images.cache / "programs" / f"{ref.id.removeprefix('sha256:')}.json"
    try:
        kept = json.loads(cache.read_text(encoding="utf-8"))
        if kept["asked"] == asked:
            return dict(kept["printed"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # no cache, or another version's: ask
    printed = {stated.program: stated.printed for stated in images.verify([ref.name], [adapter])}
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.write_text(json.dumps({"asked": asked, "printed": printed}), encoding="utf-8")
    return printed


@dataclass(slots=True)
class SweepResources:
    """Volumes and the gateway of one sweep; a context manager that leaves nothing behind."""

    client: DockerClient
    loaded: LoadedSweep
    pinned: ResolvedPins
    #: What live models need; None: there are none, and nothing of this sweep reaches a network.
    live_upstreams: LiveUpstreams | None = None
    name: str = field(default_factory=lambda: secrets.token_hex(4))
    _upstream_access: UpstreamAccess | None = None
    _volumes: Volumes | None = None
    _gateway: Gateway | None = None
    _gateways: int = 0
    _running: set[Run] = field(default_factory=set)
    #: Of the containers that may come up at once.
    _gate: threading.BoundedSemaphore = field(init=False)
    #: Of the gateway; held while one starts.
    _starting: threading.Lock = field(default_factory=threading.Lock)
    #: Of the running set; held for moments only. Reentrant: a signal's handler may interrupt its holder.
    _lock: Any = field(default_factory=threading.RLock)
    #: Why no run may go on; None while the sweep runs.
    _closed: RunError | None = None

    def __post_init__(self) -> None:
        self._gate = threading.BoundedSemaphore(self.loaded.sweep.starts)

    def __enter__(self) -> Self:
        try:
            toolboxes = {name: self.pinned.images[name].id for name in self.loaded.toolboxes()}
            self._volumes = Volumes.create(self.client, self.name, self.pinned.images[GATEWAY_IMAGE].id, toolboxes)
            if self.live_upstreams is not None:
                self._upstream_access = UpstreamAccess.create(self.client, self.name, self.live_upstreams)
            self.gateway()
        except BaseException:
            self.clear()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.clear()

    @property
    def context(self) -> SweepContext:
        assert self._volumes is not None, "the resources is entered first"
        return SweepContext(
            client=self.client,
            sweep=self.name,
            loaded=self.loaded,
            images={folder: ref.id for folder, ref in self.pinned.images.items()},
            volumes=self._volumes,
            gate=self._gate,
            gateway=self.gateway,
            schemas=self.pinned.schemas,
            redactor=self.redactor,
        )

    @property
    def redactor(self) -> Redactor | None:
        """What strikes keys out; None: no key is near."""
        return Redactor(self.live_upstreams.keys.values()) if self.live_upstreams is not None else None

    @property
    def closed(self) -> bool:
        """True when no run may start any more."""
        return self._closed is not None

    def gateway(self) -> Gateway:
        """The living gateway, started anew where the last one died.

        :raises InfraError: it does not come up.
        """
        with self._starting:
            if self._gateway is not None and self._gateway.alive:
                return self._gateway
            if self._gateway is not None:
                self._gateway.stop()
            assert self._volumes is not None
            self._gateways += 1
            self._gateway = Gateway(
                self.client,
                image=self.pinned.images[GATEWAY_IMAGE].id,
                name=f"acpbench-{self.name}-gateway-{self._gateways}",
                model_volume=self._volumes.model,
                journal_volume=self._volumes.journal,
                labels=labels(self.name, "gateway"),
                on_death=self._gateway_died,
                on_budget=lambda reason: self.stop_all(Aborted(reason)),
                on_lost=self._model_lost,
                upstream_access=self._upstream_access,
                request_mb=max(
                    self.loaded.knobs(number).model_request_mb for number in range(len(self.loaded.sweep.arms))
                ),
            )
            self._gateway.start()
            return self._gateway

    def admit(self, run: Run) -> None:
        """Tell `run` from now on what happens to the sweep."""
        with self._lock:
            self._running.add(run)
            if self._closed is not None:
                run.inbox.put(Stop(self._closed))

    def dismiss(self, run: Run) -> None:
        with self._lock:
            self._running.discard(run)

    def stop_all(self, reason: RunError) -> None:
        """Stop every run that is under way, and every one that is still admitted."""
        with self._lock:
            self._closed = reason
            for run in self._running:
                run.inbox.put(Stop(reason))

    def _model_lost(self, token: str, reason: str) -> None:
        """A live model did not answer a run: it ends now, not when its agent has asked often enough."""
        with self._lock:
            for run in self._running:
                if run.token == token:
                    run.inbox.put(Stop(InfraError(f"model gateway: {reason}")))

    def _gateway_died(self, why: str) -> None:
        with self._lock:
            for run in self._running:
                run.inbox.put(Stop(InfraError(why)))

    def lock(self, jobs: int) -> dict[str, Any]:
        """lock.json of this sweep, run `jobs` runs at a time."""
        described = describe(self.client)
        described.pop("disk_free_mb", None)  # a reading, not a pin
        return build_lock(
            self.loaded,
            engine=described,
            kernel=str(described["kernel"]),
            guest_sha256=guest_digest(),
            images={folder: ImagePin(ref.id, ref.digest) for folder, ref in self.pinned.images.items()},
            adapters=self.pinned.adapters,
            gateway=self.gateway().versions,
            schemas={folder: sorted(versions) for folder, versions in self.pinned.schemas.items()},
            jobs=jobs,
        )

    def clear(self) -> None:
        """Remove everything of this sweep, whatever state it is in."""
        if self._gateway is not None:
            with contextlib.suppress(InfraError):  # the reaper below has the last word
                self._gateway.stop()
        reap(self.client, sweep=self.name)
