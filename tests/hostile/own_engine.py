"""A second engine of our own, so that a test may kill it: its own socket, data and process; images are copied."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import docker

from runner.sandbox.images import Images

_WAIT_S = 60.0


class OwnEngine:
    """dockerd under `folder`; `start` and `kill` may alternate."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.socket = folder / "engine.sock"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        # What a killed one left: dockerd would wait for the containerd of that pid, which died with it.
        for stale in (self.socket, self._folder / "engine.pid", self._folder / "exec/containerd/containerd.pid"):
            stale.unlink(missing_ok=True)
        log = (self._folder / "engine.log").open("ab")
        self._process = subprocess.Popen(
            [
                "dockerd",
                f"--data-root={self._folder}/data",
                f"--exec-root={self._folder}/exec",
                f"--pidfile={self._folder}/engine.pid",
                f"--host={self.url}",
                "--bridge=none",
                "--iptables=false",
                "--ip6tables=false",
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        log.close()
        deadline = time.monotonic() + _WAIT_S
        while not self._answers():
            assert time.monotonic() < deadline, "the engine does not answer"
            time.sleep(0.2)

    def kill(self) -> None:
        """SIGKILL to the daemon alone; its containers and its containerd are on their own."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it in order, and whatever a killed predecessor left running below its folder."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=30)
        for pid in self._ours():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for mounted in reversed(self._mounts()):
            subprocess.run(["umount", "-l", mounted], check=False, capture_output=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    def client(self) -> contextlib.closing[docker.DockerClient]:
        """A client, for a `with`."""
        return contextlib.closing(docker.DockerClient(base_url=self.url, timeout=60))

    def copy(self, images: Images, client: docker.DockerClient, names: Iterable[str]) -> None:
        """Bring images of another engine over, with their tags."""
        references = [images.ensure(name).reference for name in names]
        with self.client() as mine:
            for reference in references:
                mine.images.load(b"".join(client.images.get(reference).save(named=reference)))

    def _answers(self) -> bool:
        """Asked without docker-py: a client that cannot be made leaves its sockets to the garbage collector."""
        with socket.socket(socket.AF_UNIX) as asked:
            asked.settimeout(2)
            try:
                asked.connect(str(self.socket))
                asked.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
                return b" 200 " in asked.recv(64)
            except OSError:
                return False

    def _ours(self) -> list[int]:
        """Processes whose command line names our folder (containerd, its shims)."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                    if any(bytes(self._folder) in word for word in words[1:]) and words[0].rpartition(b"/")[
                        2
                    ].startswith((b"containerd", b"dockerd", b"docker-init")):
                        found.append(int(entry.name))
        return found

    def _mounts(self) -> list[str]:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
        return [words[1] for words in map(str.split, lines) if words[1].startswith(f"{self._folder}/")]


@contextlib.contextmanager
def own_engine(folder: Path, client: docker.DockerClient, names: Iterable[str]) -> Iterator[OwnEngine]:
    """A running engine with the images `names`; gone afterwards with all it held."""
    folder.mkdir(parents=True)
    engine = OwnEngine(folder)
    try:
        engine.start()
        engine.copy(Images(client), client, names)
        yield engine
    finally:
        engine.stop()
