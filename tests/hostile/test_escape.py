"""The escape table: what an agent's container cannot do, each with a positive control that can."""

from __future__ import annotations

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
import pytest
from tabulate import tabulate

from runner.sandbox.images import Images
from runner.sandbox.labels import labels
from tests.engine.lab import REPOSITORY, Lab, repaired, stderr

pytestmark = pytest.mark.hostile

#: Where the host listens. No other address is ever asked, so that nothing leaves the machine.
ADDRESS = "127.0.0.1"
SOURCE = (REPOSITORY / "tests/agents/escapes.py").read_text(encoding="utf-8")


@contextmanager
def listener(address: str) -> Iterator[int]:
    """Answers TCP and UDP on one port of the host with `reached`."""
    with socket.socket() as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        tcp.bind((address, 0))
        port = tcp.getsockname()[1]
        udp.bind((address, port))
        tcp.listen()

        def serve_tcp() -> None:
            while True:
                try:
                    connection, _ = tcp.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(b"reached")

        def serve_udp() -> None:
            while True:
                try:
                    _, peer = udp.recvfrom(64)
                    udp.sendto(b"reached", peer)
                except OSError:
                    return

        for serve in (serve_tcp, serve_udp):
            threading.Thread(target=serve, daemon=True).start()
        try:
            yield port
        finally:
            tcp.shutdown(socket.SHUT_RDWR)
            udp.close()


class Open(http.server.BaseHTTPRequestHandler):
    """A gateway that serves its own control routes: what the positive control finds on the socket."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


def control(engine: docker.DockerClient, folder: Path, port: int) -> dict[str, str | None]:
    """The same attempts without a sandbox: root, with rights, on the host's network, all mounted writable."""
    for name in ("guest", "model", "journal"):
        (folder / name).mkdir()
    (folder / "guest/main.py").write_text("", encoding="utf-8")
    (folder / "journal/run").write_text("", encoding="utf-8")
    (folder / "escapes.py").write_text(SOURCE, encoding="utf-8")
    gateway = _UnixServer(folder / "model/model.sock")
    threading.Thread(target=gateway.serve_forever, daemon=True).start()
    command = (
        "cp /escapes.py /acpbench/guest/held.py; python3 /acpbench/guest/held.py --hold & sleep 1; "
        f"exec python3 /escapes.py {ADDRESS} {port}"
    )
    binds = {
        str(folder / "guest"): {"bind": "/acpbench/guest", "mode": "rw"},
        str(folder / "model"): {"bind": "/acpbench/model", "mode": "rw"},
        str(folder / "journal"): {"bind": "/journal", "mode": "rw"},
        str(folder / "escapes.py"): {"bind": "/escapes.py", "mode": "ro"},
        "/var/run/docker.sock": {"bind": "/var/run/docker.sock", "mode": "rw"},
    }
    container = engine.containers.create(
        Images(engine).ensure("node").id,
        ["/bin/sh", "-c", command],
        user="0:0",
        cap_add=["SYS_ADMIN", "SYS_PTRACE"],
        security_opt=["seccomp=unconfined", "apparmor=unconfined"],
        network_mode="host",
        volumes=binds,
        labels=labels("escape-control"),
    )
    try:
        container.start()
        container.wait(timeout=100)
        said = container.logs(stdout=True, stderr=False)
    finally:
        # Not `run(remove=True)`: where the engine refuses the start, that leaves the container behind.
        container.remove(force=True, v=True)
        gateway.shutdown()
        gateway.server_close()
    result: dict[str, str | None] = json.loads(said)
    return result


class _UnixServer(http.server.HTTPServer):
    """An HTTP server on a Unix socket."""

    address_family = socket.AF_UNIX

    def __init__(self, path: Path) -> None:
        self._path = path
        super().__init__(("", 0), Open)

    def server_bind(self) -> None:
        self.socket.bind(str(self._path))
        self._path.chmod(0o666)
        self.server_name, self.server_port = "gateway", 0

    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        connection, _ = self.socket.accept()
        return connection, ("unix", 0)


def test_nothing_gets_out(lab: Lab, engine: docker.DockerClient, tmp_path: Path) -> None:
    with listener(ADDRESS) as port:
        acts = [
            {"do": "model"},
            {"do": "write", "path": "src/semver.js", "text": repaired()},
            {"do": "write", "path": "/home/agent/escapes.py", "text": SOURCE},
            {"do": "shell", "command": f"python3 /home/agent/escapes.py {ADDRESS} {port}"},
        ]
        result, (record,) = lab.sweep(lab.puppet("escape", acts))
        assert record.outcome == "passed", (record.reason, stderr(result, record))
        inside = json.loads(stderr(result, record).splitlines()[-1])
        outside = control(engine, tmp_path, port)
    rows = [(name, inside[name] or "no", outside[name] or "NO") for name in outside]
    print(tabulate(rows, headers=["attempt", "in the sandbox", "positive control"], maxcolwidths=40))
    assert {name: how for name, how in inside.items() if how is not None} == {}
    assert [name for name, how in outside.items() if how is None] == []
    assert len(rows) >= 30
