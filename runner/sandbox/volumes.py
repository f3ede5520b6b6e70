"""The volumes of a sweep: the guest's code, the model's socket, the gateway's journal, and its toolboxes."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources

from docker import DockerClient

from runner.errors import InfraError
from runner.sandbox.container import Container, Spec, engine_errors
from runner.sandbox.labels import labels

GUEST_TARGET = "/acpbench/guest"
MODEL_TARGET = "/acpbench/model"
#: Where a toolbox image has its programs, and where they are mounted.
TOOLBOX_TARGET = "/opt/toolbox"
#: Unchecked: nobody can write the volume afterwards, so no start need look at the sources.
_COMPILE = ["python3", "-I", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", GUEST_TARGET]


def guest_files() -> dict[str, bytes]:
    """The guest's modules, file name -> source."""
    folder = resources.files("runner.guest")
    return {
        item.name: item.read_bytes()
        for item in sorted(folder.iterdir(), key=lambda item: item.name)
        if item.name.endswith(".py")
    }


def guest_digest() -> str:
    """sha256 over the guest's files; part of the lock, since the guest shapes what is measured."""
    digest = hashlib.sha256()
    for name, source in guest_files().items():
        digest.update(f"{name}\0{len(source)}\0".encode())
        digest.update(source)
    return digest.hexdigest()


def tar_of(files: dict[str, bytes], *, mode: int = 0o644) -> bytes:
    """A tar of plain files, the same bytes every time."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            member.mode = mode
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


@dataclass(frozen=True, slots=True)
class Volumes:
    """Names of one sweep's volumes."""

    guest: str
    model: str
    journal: str
    #: Image folder -> volume with what that image has at `TOOLBOX_TARGET`.
    toolboxes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def create(
        cls, client: DockerClient, sweep: str, image: str, toolboxes: Mapping[str, str] | None = None
    ) -> Volumes:
        """Create them and fill `guest`; it is compiled once here, not at each start of a container.

        toolboxes: image folder -> image id.
        :raises InfraError: the engine refuses.
        """
        mine = cls(
            guest=f"acpbench-{sweep}-guest",
            model=f"acpbench-{sweep}-model",
            journal=f"acpbench-{sweep}-journal",
            toolboxes={name: f"acpbench-{sweep}-toolbox-{name}" for name in toolboxes or {}},
        )
        with engine_errors("create the sweep's volumes"):
            for name in mine.names:
                client.api.create_volume(name=name, labels=labels(sweep))
        spec = Spec(
            name=f"acpbench-{sweep}-fill",
            image=image,
            command=_COMPILE,
            labels=labels(sweep),
            user="0:0",  # the volume is root's, so that no agent can write it
            mounts={mine.guest: GUEST_TARGET},
            writable=frozenset({mine.guest}),
        )
        filler = Container(client, spec)
        try:
            filler.create()
            filler.put(GUEST_TARGET, tar_of(guest_files()))
            filler.start()
            if filler.wait(60) != 0:
                raise InfraError("the guest cannot be compiled by the image's own Python")
        finally:
            filler.remove()
        for name, toolbox in (toolboxes or {}).items():
            mine._fill_toolbox(client, sweep, name, toolbox)
        return mine

    @property
    def names(self) -> list[str]:
        return [self.guest, self.model, self.journal, *self.toolboxes.values()]

    def _fill_toolbox(self, client: DockerClient, sweep: str, name: str, image: str) -> None:
        """An empty volume takes over what the image has at its target as soon as a container is created with it."""
        volume = self.toolboxes[name]
        spec = Spec(
            name=f"acpbench-{sweep}-fill-{name}",
            image=image,
            command=["never-started"],
            labels=labels(sweep),
            user="0:0",
            mounts={volume: TOOLBOX_TARGET},
            writable=frozenset({volume}),
        )
        filler = Container(client, spec)
        try:
            filler.create()
        finally:
            filler.remove()

    def remove(self, client: DockerClient) -> list[str]:
        """Remove all; returns what could not be removed, with the engine's words."""
        failed = []
        for name in self.names:
            try:
                with engine_errors(f"remove volume {name}"):
                    client.api.remove_volume(name, force=True)
            except InfraError as problem:
                failed.append(str(problem))
        return failed
