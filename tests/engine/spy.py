"""Looks for a secret wherever a running sweep could have left it: containers, their files, environments, volumes.

The secret is handed to `grep` on its standard input, so that the search itself shows it nowhere.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from pathlib import Path
from typing import Any

from docker import DockerClient
from docker.errors import APIError, NotFound

from runner.errors import InfraError
from runner.sandbox.container import USER, Container, Spec
from runner.sandbox.labels import LABEL, Owner, labels
from runner.sandbox.stream import AttachedStream

#: Everything an agent can write or is given, and what is running in its container.
_PLACES = "/home /workspace /tmp /var/tmp /dev/shm /run /etc /acpbench /proc/[0-9]*/environ /proc/[0-9]*/cmdline"


class Spy(threading.Thread):
    """Searches for each of `words` until told to stop; `found[word]` names the places."""

    def __init__(self, client: DockerClient, words: dict[str, str]) -> None:
        super().__init__(name="spy")
        self._client = client
        self._words = words
        self._enough = threading.Event()
        self._mounted: set[str] = set()
        self.found: dict[str, set[str]] = {word: set() for word in words}
        #: What was searched, by role.
        self.searched: dict[str, int] = {}
        #: Network modes, by role.
        self.networks: dict[str, set[str]] = {}
        #: Volumes, by role of the container that mounts them; and the names of the sweeps.
        self.mounted: dict[str, set[str]] = {}
        self.sweeps: set[str] = set()

    def run(self) -> None:
        while not self._enough.wait(0.5):
            self._machine()
            for container in self._client.api.containers(filters={"label": f"{LABEL}.owner={Owner.me()}"}):
                with contextlib.suppress(NotFound, APIError, InfraError):  # it ended meanwhile
                    self._container(container)
            self._volumes()

    def stop(self) -> None:
        """Call it once the sweep has ended: volumes that it could not remove while we looked into them are removed."""
        self._enough.set()
        self.join(60)
        for name in self._mounted:
            with contextlib.suppress(NotFound):
                self._client.api.remove_volume(name)

    def _note(self, where: str, data: str | bytes) -> None:
        role = where.partition(":")[0]
        self.searched[role] = self.searched.get(role, 0) + 1
        raw = data.encode() if isinstance(data, str) else data
        for name, word in self._words.items():
            if word.encode() in raw:
                self.found[name].add(where)

    def _machine(self) -> None:
        """The process list of the whole machine, and the environments that we may read."""
        for process in Path("/proc").glob("[0-9]*"):
            for what in ("cmdline", "environ"):
                with contextlib.suppress(OSError):
                    self._note(f"process:{process.name}/{what}", (process / what).read_bytes())

    def _container(self, container: dict[str, Any]) -> None:
        name = container["Names"][0]
        if "upstream" in name:
            return
        role = name.rpartition("-")[2] if not name.rpartition("-")[2].isdigit() else "gateway"
        inspected = self._client.api.inspect_container(container["Id"])
        self.networks.setdefault(role, set()).add(inspected["HostConfig"]["NetworkMode"])
        self.mounted.setdefault(role, set()).update(mount.get("Name", "") for mount in inspected["Mounts"])
        if role in ("agent", "gateway"):
            self.sweeps.add(inspected["Config"]["Labels"][f"{LABEL}.sweep"])
        self._note(f"inspect:{name}", json.dumps(inspected))
        self._note(f"logs:{name}", json.dumps(self._client.api.top(container["Id"])))
        if role == "agent":
            self._grep(container["Id"], f"agent:{name}", _PLACES)

    def _grep(self, container: str, where: str, places: str) -> None:
        for word, secret in self._words.items():
            argv = ["sh", "-c", f"grep -rlsaF -f - {places}; echo searched"]
            stream = AttachedStream.execute(self._client, container, argv, USER)
            try:
                stream.write(secret.encode() + b"\n", 5)
                stream.half_close()
                out = b"".join(chunk.data for chunk in stream.chunks() if chunk.channel == "stdout").decode()
            finally:
                stream.close()
            if not out.endswith("searched\n"):
                continue
            role = where.partition(":")[0]
            self.searched[role] = self.searched.get(role, 0) + 1
            hits = out.splitlines()[:-1]
            # The shell that searches has no secret in its own arguments; its input is no file.
            self.found[word] |= {f"{where}{hit}" for hit in hits}

    def _volumes(self) -> None:
        """Every volume of the sweep, as the user whom the files belong to."""
        found = self._client.api.volumes(filters={"label": f"{LABEL}.owner={Owner.me()}"})["Volumes"] or []
        mine = [one["Name"] for one in found if "upstream" not in one["Name"]]
        if not mine:
            return
        image = self._client.api.containers(filters={"label": f"{LABEL}.run=gateway"})
        if not image:
            return
        spec = Spec(
            name=f"acpbench-spy-{os.getpid()}",
            image=image[0]["ImageID"],
            command=["sleep", "60"],
            labels=labels("spy"),
            mounts={name: f"/v/{name}" for name in mine},
        )
        container = Container(self._client, spec)
        self._mounted.update(mine)
        try:
            container.create()
            container.start()
            self._grep(container.id, "volume:", "/v")
        except InfraError:
            return  # a volume went away meanwhile
        finally:
            container.remove()


def files_with(folder: Path, word: str) -> list[Path]:
    """Files below `folder` that hold `word`."""
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path for path in paths if word.encode() in path.read_bytes()]
