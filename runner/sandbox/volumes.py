"""The three volumes of a sweep: the guest's code, the model's socket, the gateway's journal."""

from __future__ import annotations

import hashlib
import io
import tarfile
from dataclasses import dataclass
from importlib import resources

from docker import DockerClient

from runner.errors import InfraError
from runner.sandbox.container import Container, Spec, engine_errors
from runner.sandbox.labels import labels

GUEST_TARGET = "/acpbench/guest"
MODEL_TARGET = "/acpbench/model"
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

    @classmethod
    def create(cls, client: DockerClient, sweep: str, image: str) -> Volumes:
        """Create them and fill `guest`; it is compiled once here, not at each start of a container.

        :raises InfraError: the engine refuses.
        """
        mine = cls(
            guest=f"acpbench-{sweep}-guest", model=f"acpbench-{sweep}-model", journal=f"acpbench-{sweep}-journal"
        )
        with engine_errors("create the sweep's volumes"):
            for name in (mine.guest, mine.model, mine.journal):
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
        return mine

    def remove(self, client: DockerClient) -> list[str]:
        """Remove all three; returns what could not be removed, with the engine's words."""
        failed = []
        for name in (self.guest, self.model, self.journal):
            try:
                with engine_errors(f"remove volume {name}"):
                    client.api.remove_volume(name, force=True)
            except InfraError as problem:
                failed.append(str(problem))
        return failed
