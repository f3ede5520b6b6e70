"""One container of ours: hardened, removed afterwards, without a network unless it is a live model's gateway.

Engine failures become `InfraError`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import docker.errors
import requests
from docker import DockerClient
from docker.types import LogConfig, Mount, Ulimit

from runner.errors import InfraError, LastingError
from runner.sandbox.engine import cpus_of, retrying
from runner.sandbox.stream import AttachedStream

#: What we do not trust runs as this one.
USER = "1000:1000"
#: The guest's own: no process of `USER` may signal, trace or look into it, nor the engine's init above it.
GUEST_USER = "0:0"
#: What the guest keeps is said in runner/guest/untrusted.py; SETPCAP is for leaving nothing to what it starts.
GUEST_CAPABILITIES = ("KILL", "SETGID", "SETPCAP", "SETUID", "SYS_NICE")
HOME = "/home/agent"
#: Memory of a container with a guest in it, beyond what the agent (or the test command) may use: what the guest takes
#: must not make them run out of theirs. It is enough for the guest itself (some 30 MB), the output of all terminals
#: (20), the largest text of fs/* on its way (40), an answer of a terminal's (30) and our other processes there.
GUEST_RESERVE_MB = 160
#: System V objects outlive the processes that made them, and their memory counts: the kernel, short of it, would find
#: nobody of the agent's to end, and end the guest. Shared memory goes with the last process that has it; of queues and
#: semaphores there are as many as Linux once had by default (250 KB and 2 MB).
_SYSCTLS = {"kernel.shm_rmid_forced": "1", "kernel.msgmni": "16", "kernel.sem": "250 32000 32 128"}
#: How a container ended.
OUT_OF_MEMORY = "out of memory"
ENDED_WELL = "exit code 0"
#: Environment of every process we start; nothing else is inherited, so the host's never leaks in.
BASE_ENV: Mapping[str, str] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": HOME,
    "TMPDIR": f"{HOME}/tmp",
    "USER": "agent",
    "LOGNAME": "agent",
    "SHELL": "/bin/bash",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "TERM": "dumb",
}


@dataclass(frozen=True, slots=True)
class Spec:
    """What a container is made of. `mounts`: volume name -> target, all read-only unless in `writable`."""

    name: str
    image: str
    command: Sequence[str]
    labels: Mapping[str, str]
    mounts: Mapping[str, str]
    writable: frozenset[str] = frozenset()
    user: str = USER
    #: Capabilities that its processes keep; all others are dropped.
    capabilities: tuple[str, ...] = ()
    #: Ids of further groups of its user.
    groups: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=lambda: dict(BASE_ENV))
    memory_bytes: int = 2 * 10**9
    cpus: float = 2.0
    pids: int = 512
    #: Bytes of a single file (RLIMIT_FSIZE), for all that runs in it; None: no limit.
    file_bytes: int | None = None
    #: The engine's name of a network; "none" but for a gateway whose model is live.
    network: str = "none"
    #: Folder of the host -> target, read-only: where a live model's socket is.
    folders: Mapping[str, str] = field(default_factory=dict)


def _ulimits(spec: Spec) -> list[Ulimit]:
    limits = [Ulimit(name="core", soft=0, hard=0)]
    if spec.file_bytes is not None:
        limits.append(Ulimit(name="fsize", soft=spec.file_bytes, hard=spec.file_bytes))
    return limits


@contextlib.contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Turn what docker-py raises into one `InfraError` that says what we were doing."""
    try:
        yield
    except docker.errors.APIError as problem:
        # 404 and 409 come of races; any other 4xx says that the request itself is wrong.
        lasting = problem.is_client_error() and problem.status_code not in (404, 409)
        kind = LastingError if lasting else InfraError
        raise kind(f"{doing}: {problem.explanation or problem}") from problem
    except (docker.errors.DockerException, requests.RequestException, OSError) as problem:
        raise InfraError(f"{doing}: {problem}") from problem


#: Held while the engine creates or starts a container, so that not too many come up at once.
Gate = contextlib.AbstractContextManager[Any]


class Container:
    """create -> attach -> start -> ... -> remove; each a bounded engine call, the first and third through a gate."""

    def __init__(self, client: DockerClient, spec: Spec, gate: Gate | None = None) -> None:
        self._client = client
        self._gate: Gate = contextlib.nullcontext() if gate is None else gate
        self._removed = False
        self.spec = spec
        self.id = ""

    @retrying
    def _create(self) -> str:
        spec = self.spec
        host = self._client.api.create_host_config(
            network_mode=spec.network,
            init=True,
            cap_drop=["ALL"],
            cap_add=list(spec.capabilities),
            security_opt=["no-new-privileges"],
            log_config=LogConfig(type="none"),
            mem_limit=spec.memory_bytes,
            memswap_limit=spec.memory_bytes,
            # The engine refuses more than there are; all there are is no limit, as it was meant.
            nano_cpus=int(min(spec.cpus, cpus_of(self._client)) * 10**9),
            pids_limit=spec.pids,
            ulimits=_ulimits(spec),
            sysctls=_SYSCTLS,
            group_add=list(spec.groups),
            mounts=[
                # With labels: the engine makes a volume that went meanwhile anew: the reaper must find that one too.
                Mount(
                    target=target,
                    source=volume,
                    type="volume",
                    read_only=volume not in spec.writable,
                    labels=dict(spec.labels),
                )
                for volume, target in spec.mounts.items()
            ]
            + [
                Mount(target=target, source=folder, type="bind", read_only=True)
                for folder, target in spec.folders.items()
            ],
            # A fixed resolver setting: with no network nothing answers, and the host's own search domains stay outside.
            dns=["127.0.0.1"] if spec.network == "none" else None,
        )
        created = self._client.api.create_container(
            spec.image,
            list(spec.command),
            name=spec.name,
            hostname="acpbench",
            user=spec.user,
            environment=dict(spec.env),
            labels=dict(spec.labels),
            host_config=host,
            stdin_open=True,  # with detach unset this is StdinOnce: a half-close on our side reaches the agent
            network_disabled=spec.network == "none",
            use_config_proxy=False,  # docker-py would add the proxies of the client's config file
        )
        return str(created["Id"])

    def create(self) -> None:
        with self._gate, engine_errors("create a container"):
            try:
                self.id = self._create()
            except docker.errors.APIError as problem:
                # A retried create whose first answer was lost: the name is taken by our own container.
                if problem.status_code != 409:
                    raise
                self.id = str(self._client.api.inspect_container(self.spec.name)["Id"])

    def attach(self) -> AttachedStream:
        with engine_errors("attach to a container"):
            return AttachedStream.attach(self._client, self.id)

    def start(self) -> None:
        with self._gate, engine_errors("start a container"):
            self._client.api.start(self.id)

    def execute(self, argv: Sequence[str], user: str) -> AttachedStream:
        with engine_errors("open a channel into a container"):
            return AttachedStream.execute(self._client, self.id, argv, user)

    def wait(self, timeout_s: int) -> int:
        """Wait for the end of its main process; its exit code."""
        with engine_errors("wait for a container"):
            return int(self._client.api.wait(self.id, timeout=timeout_s)["StatusCode"])

    def state(self) -> dict[str, Any]:
        """The engine's `State` object: Running, ExitCode, OOMKilled, ..."""
        with engine_errors("inspect a container"):
            return dict(self._client.api.inspect_container(self.id)["State"])

    def ending(self, within_s: float) -> str | None:
        """How it ended; None where it has not within `within_s`. Its channel ends a moment before it does."""
        deadline = time.monotonic() + within_s
        while (state := self.state()).get("Running"):
            if time.monotonic() > deadline:
                return None
            time.sleep(0.05)
        return OUT_OF_MEMORY if state.get("OOMKilled") else f"exit code {state.get('ExitCode')}"

    @contextlib.contextmanager
    def archive(self, path: str) -> Iterator[Iterator[bytes]]:
        """A tar of `path` as the engine sees it, in pieces, for a container whose guest is gone; none where there is no
        such path."""
        with engine_errors(f"fetch {path} from a container"):
            try:
                parts, _ = self._client.api.get_archive(self.id, path)
            except docker.errors.NotFound:
                parts = iter(())
            yield parts

    def put(self, path: str, tar: bytes) -> None:
        with engine_errors(f"copy into {path} of a container"):
            self._client.api.put_archive(self.id, path, tar)

    def kill(self) -> None:
        """SIGKILL to all of it; harmless where it has already ended."""
        with contextlib.suppress(InfraError), engine_errors("kill a container"):
            self._client.api.kill(self.id)

    def remove(self, timeout_s: float = 30.0) -> None:
        """Kill and remove it with its anonymous volumes; twice is harmless, and so is a container that is gone."""
        if self._removed or not self.id:
            return
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self._client.api.remove_container(self.id, force=True, v=True)
            except docker.errors.NotFound:
                break
            except docker.errors.APIError as problem:
                # 409: the engine is already removing it, or it is still being killed.
                if problem.status_code != 409 or time.monotonic() > deadline:
                    raise InfraError(f"remove a container: {problem.explanation or problem}") from problem
                time.sleep(0.05)
            except (requests.RequestException, OSError) as problem:
                raise InfraError(f"remove a container: {problem}") from problem
            else:
                break
        self._removed = True
