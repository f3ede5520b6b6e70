"""npm and pip as build stages have them: in a container of the image `npm`, with the machine's network and settings.

So the machine itself needs neither, and what is asked is what a build would install from.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import docker
import requests
from docker.errors import DockerException

from runner.errors import BuildError
from runner.packages import ask
from runner.sandbox import host
from runner.sandbox.images import Images
from runner.sandbox.stream import AttachedStream
from runner.sandbox.throwaway import EXIT_S, created

#: The image that has both.
IMAGE = "npm"
#: Where files are put, and what they may make.
WORK = "tmp/work"
#: Seconds that a command may take, where nobody says otherwise.
LIMIT_S = 600.0
#: Bytes of a file that is fetched.
_CAP = 64 << 20
_ADDRESS = re.compile(r"https?://\S+")
#: Lines of npm's that are for programs, or tell where to read on.
_MERE = re.compile(r"(?i)npm error\s*((code|errno|syscall|path|type|host)\b.*|a complete log.*)?")


class Registries(Protocol):
    """Whoever can ask: `ask.py`'s answers, by `name@version` for npm and by name for PyPI."""

    def ask(self, npm: Iterable[str], pypi: Iterable[str]) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
        """Ask both registries at once."""
        ...


@dataclass(frozen=True)
class ClientRun:
    """What a command ended with, printed and made (`files`: those that were asked for and are there)."""

    code: int
    stdout: bytes
    stderr: bytes
    files: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """What it complained of, in one line: npm's first that is no mere code, pip's conclusion, why it had no way."""
        lines = [" ".join(line.split()) for line in self.stderr.decode("utf-8", "replace").splitlines()]
        npm = [line for line in lines if line.lower().startswith("npm error") and not _MERE.fullmatch(line)]
        cut_off = [line for line in lines if "connection broken by" in line]
        pip = [line for line in lines if line.startswith("ERROR:")][::-1]
        telling = npm or cut_off or pip or [line for line in lines if line]
        return without_addresses(telling[0]) if telling else f"exit code {self.code}"


def without_addresses(text: str) -> str:
    """A registry may be a private one, and may have a key in its address."""
    return _ADDRESS.sub("<registry>", text)


class Clients:
    """Builds the image `npm` where it is missing. `limit_s`: seconds that a command may take."""

    def __init__(self, client: docker.DockerClient, images: Images, limit_s: float = LIMIT_S) -> None:
        self._client = client
        self._limit_s = limit_s
        self._image = images.ensure(IMAGE).id
        self._settings = host.detect_here()

    def ask(self, npm: Iterable[str], pypi: Iterable[str]) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
        """See `Registries`. Raises BuildError where the container itself fails."""
        files = {
            "ask.py": Path(ask.__file__).read_bytes(),
            "asked.json": json.dumps({"npm": sorted(set(npm)), "pypi": sorted(set(pypi))}).encode(),
        }
        ran = self.run("python3 ask.py < asked.json", files)
        if ran.code != 0:
            raise BuildError(f"the registries could not be asked: {ran.words}")
        answers: dict[str, dict[str, dict[str, Any]]] = json.loads(ran.stdout)
        return answers

    def run(self, script: str, files: Mapping[str, bytes], fetch: Sequence[str] = ()) -> ClientRun:
        """Run a shell script in a folder that holds `files`; then `fetch` files from it. Raises BuildError."""
        command = ["sh", "-c", f"mkdir -p /{WORK} && cd /{WORK} && . {host.MOUNT}/env && {script}"]
        try:
            with created(self._client, self._image, command, network="host") as container:
                self._client.api.put_archive(container, "/", self._packed(files))
                code, streams = self._follow(container)
                made = {name: self._fetched(container, name) for name in fetch}
        except (DockerException, requests.exceptions.RequestException, TimeoutError) as error:
            raise BuildError(f"image {IMAGE}: a command could not be run in it ({error})") from error
        found = {name: content for name, content in made.items() if content is not None}
        return ClientRun(code, streams["stdout"], streams["stderr"], found)

    def _packed(self, files: Mapping[str, bytes]) -> bytes:
        place = host.MOUNT.removeprefix("/")
        settings = {name.replace(host.CONTEXT, place, 1): data for name, data in self._settings.files().items()}
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for name, content in {**settings, **{f"{WORK}/{name}": data for name, data in files.items()}}.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                entry.mode = 0o644
                tar.addfile(entry, io.BytesIO(content))
        return packed.getvalue()

    def _follow(self, container: str) -> tuple[int, dict[str, bytes]]:
        stream = AttachedStream.attach(self._client, container, stdin=False)
        late = threading.Event()

        def give_up() -> None:
            late.set()
            stream.close()

        timer = threading.Timer(self._limit_s, give_up)
        timer.start()
        gathered = {"stdout": bytearray(), "stderr": bytearray()}
        try:
            self._client.api.start(container)
            for chunk in stream.chunks():
                gathered[chunk.channel] += chunk.data
        finally:
            timer.cancel()
            stream.close()
        if late.is_set():
            raise TimeoutError(f"no end after {self._limit_s:g} s")
        code = int(self._client.api.wait(container, timeout=EXIT_S)["StatusCode"])
        return code, {channel: bytes(data) for channel, data in gathered.items()}

    def _fetched(self, container: str, name: str) -> bytes | None:
        try:
            parts, _ = self._client.api.get_archive(container, f"/{WORK}/{name}")
        except docker.errors.NotFound:
            return None
        data = b"".join(parts)
        if len(data) > _CAP:
            raise BuildError(f"{name} is larger than {_CAP} bytes")
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            file = tar.extractfile(tar.getmembers()[0])
            return file.read() if file is not None else None
