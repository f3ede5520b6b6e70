"""Starts a container with the guest in it, exactly as a run does, and speaks its channel.

For tests of the guest alone: the runner's own way to containers is under runner/sandbox.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import queue
import secrets
import socket
import tarfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import docker
from docker.types import LogConfig

from runner.sandbox.container import GUEST_CAPABILITIES, GUEST_USER

GUEST = Path(__file__).resolve().parents[3] / "runner" / "guest"
BRIDGE = ["socat", "-t", "3600", "-", "ABSTRACT-CONNECT:acpbench-guest,retry=100,interval=0.02"]
#: Its own: neither the agent nor a helper can trace or kill the bridge.
BRIDGE_USER = "65532:65532"
WAIT_S = 20.0


class GuestFailure(Exception):
    """An error reply."""

    def __init__(self, error: dict[str, str]) -> None:
        self.code = error["code"]
        super().__init__(f"{error['code']}: {error['message']}")


def guest_archive() -> bytes:
    """The folder as it is mounted at /acpbench/guest."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted(GUEST.glob("*.py")):
            archive.add(path, arcname=path.name)
    return buffer.getvalue()


@contextlib.contextmanager
def guest_volume(client: docker.DockerClient, image: str) -> Iterator[str]:
    """A volume with the guest, compiled by the image's own Python: a container must not do it at each start."""
    api = client.api
    name = f"acpbench-test-guest-{secrets.token_hex(6)}"
    api.create_volume(name, labels={"acpbench.test": "guest"})
    try:
        filler = api.create_container(
            image,
            ["python3", "-I", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "/acpbench/guest"],
            user="0:0",
            use_config_proxy=False,
            labels={"acpbench.test": "guest"},
            host_config=api.create_host_config(
                binds={name: {"bind": "/acpbench/guest", "mode": "rw"}},
                network_mode="none",
                log_config=LogConfig(type="none"),
            ),
        )["Id"]
        try:
            api.put_archive(filler, "/acpbench/guest", guest_archive())
            api.start(filler)
            assert api.wait(filler)["StatusCode"] == 0
        finally:
            api.remove_container(filler, force=True, v=True)
        yield name
    finally:
        api.remove_volume(name)


class Stream:
    """One hijacked connection to the engine: bytes out, demultiplexed bytes in."""

    def __init__(self, raw: Any) -> None:
        self._keep = raw
        self._socket: socket.socket = getattr(raw, "_sock", raw)
        self.out: dict[int, bytearray] = {1: bytearray(), 2: bytearray()}
        self.changed = threading.Condition()
        self.ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def close_write(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._reader.join(5)
        self._keep.close()
        self._socket.close()

    def _read(self) -> None:
        try:
            while (head := self._exactly(8)) is not None:
                body = self._exactly(int.from_bytes(head[4:], "big")) or b""
                with self.changed:
                    self.out[head[0]] += body
                    self.changed.notify_all()
        except OSError:
            pass
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def _exactly(self, count: int) -> bytes | None:
        data = bytearray()
        while len(data) < count:
            chunk = self._socket.recv(count - len(data))
            if not chunk:
                return None
            data += chunk
        return bytes(data)

    def settled(self, channel: int = 1, quiet_s: float = 0.25) -> bytes:
        """What has come, once something has and nothing more does: an agent's exit is told on another connection."""
        with self.changed:
            self.changed.wait_for(lambda: bool(self.out[channel]), WAIT_S)
            while self.changed.wait(quiet_s):
                continue
            return bytes(self.out[channel])

    def line(self, start: int) -> bytes | None:
        """The line that begins at `start`, once it has come; None when the stream ends before."""
        with self.changed:
            self.changed.wait_for(lambda: self.out[1].find(b"\n", start) >= 0 or self.ended)
            end = self.out[1].find(b"\n", start)
            return bytes(self.out[1][start:end]) if end >= 0 else None

    def wait_for(self, wanted: bytes, channel: int = 1, timeout_s: float = WAIT_S) -> bytes:
        """What has come so far, once `wanted` is in it."""
        with self.changed:
            assert self.changed.wait_for(lambda: wanted in self.out[channel], timeout_s), bytes(self.out[channel])
            return bytes(self.out[channel])


class Guest:
    """A running guest. `call` waits for one reply; `start_call` and `reply` do it in two steps."""

    def __init__(self, client: docker.DockerClient, container: str, channel: Stream, stdio: Stream | None) -> None:
        self.client = client
        self.container = container
        self.channel = channel
        self.stdio = stdio
        self._ids = iter(range(1, 1 << 30))
        self._replies: dict[int, dict[str, Any]] = {}
        self._arrived = threading.Condition()
        self.events: queue.Queue[dict[str, Any]] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def call(self, op: str, /, **args: Any) -> dict[str, Any]:
        return self.reply(self.start_call(op, **args))

    def start_call(self, op: str, /, **args: Any) -> int:
        ident = next(self._ids)
        self.channel.write(json.dumps({"id": ident, "op": op, **args}).encode() + b"\n")
        return ident

    def reply(self, ident: int, timeout_s: float = WAIT_S) -> dict[str, Any]:
        with self._arrived:
            assert self._arrived.wait_for(lambda: ident in self._replies, timeout_s), f"no reply to {ident}"
            reply = self._replies.pop(ident)
        if not reply["ok"]:
            raise GuestFailure(reply["error"])
        return reply

    def event(self, name: str, timeout_s: float = WAIT_S) -> dict[str, Any]:
        """The next event of that name; others before it are dropped."""
        deadline = time.monotonic() + timeout_s
        while True:
            event = self.events.get(timeout=max(0.01, deadline - time.monotonic()))
            if event["event"] == name:
                return event

    def shell(self, line: str, user: str = "1000:1000") -> str:
        """Runs a shell line beside the guest, by an exec of the engine's. Returns its output."""
        api = self.client.api
        ident = api.exec_create(self.container, ["bash", "-c", line], user=user)["Id"]
        output: bytes = api.exec_start(ident)
        return output.decode("utf-8", "surrogateescape")

    def go(self, *argv: str, **options: Any) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "env": {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/home/agent", "TMPDIR": "/home/agent/tmp"},
            "cwd": "/workspace",
            "disk_bytes": 10**9,
            "sample_ms": 20,
        }
        return self.call("go", argv=list(argv), **{**settings, **options})

    def _read(self) -> None:
        done = 0
        while (line := self.channel.line(done)) is not None:
            done += len(line) + 1
            message = json.loads(line)
            if "id" in message:
                with self._arrived:
                    self._replies[message["id"]] = message
                    self._arrived.notify_all()
            else:
                self.events.put(message)


@contextlib.contextmanager
def running_guest(
    client: docker.DockerClient,
    image: str,
    volume: str,
    mode: str = "unix",
    *,
    capabilities: tuple[str, ...] = GUEST_CAPABILITIES,
    network: str = "none",
    binds: dict[str, dict[str, str]] | None = None,
    security: tuple[str, ...] = ("no-new-privileges",),
    **limits: Any,
) -> Iterator[Guest]:
    """A container whose command is the guest, its channel open; removed afterwards. `limits` are host settings."""
    api = client.api
    container = api.create_container(
        image,
        ["python3", "-I", "-u", "/acpbench/guest/main.py", "--channel", mode],
        user=GUEST_USER,
        stdin_open=True,
        detach=False,
        use_config_proxy=False,
        environment={"HOME": "/home/agent", "TMPDIR": "/home/agent/tmp", "LANG": "C.UTF-8", "TZ": "UTC"},
        labels={"acpbench.test": "guest"},
        host_config=api.create_host_config(
            binds={volume: {"bind": "/acpbench/guest", "mode": "ro"}, **(binds or {})},
            network_mode=network,
            init=True,
            cap_drop=["ALL"],
            cap_add=list(capabilities),
            security_opt=list(security),
            log_config=LogConfig(type="none"),
            **{"mem_limit": "1g", "pids_limit": 256, **limits},
        ),
    )["Id"]
    streams: list[Stream] = []
    try:
        stdio = Stream(api.attach_socket(container, {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}))
        streams.append(stdio)
        api.start(container)
        if mode == "stdio":
            yield Guest(client, container, stdio, None)
            return
        ident = api.exec_create(container, BRIDGE, stdin=True, user=BRIDGE_USER)["Id"]
        channel = Stream(api.exec_start(ident, socket=True))
        streams.append(channel)
        yield Guest(client, container, channel, stdio)
    finally:
        for stream in streams:
            stream.close()
        api.remove_container(container, force=True, v=True)


def tree_archive(files: Mapping[str, str | bytes], links: Mapping[str, str] | None = None) -> str:
    """A base64 tar of `path -> content`; a path that ends in `*` is executable."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", encoding="utf-8", errors="surrogateescape") as archive:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name.rstrip("*"))
            member.mode = 0o755 if name.endswith("*") else 0o640
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def untar(text: str) -> dict[str, tarfile.TarInfo]:
    data = base64.b64decode(text)
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz", encoding="utf-8", errors="surrogateescape") as archive:
        return {member.name: member for member in archive}
