"""The container engine: which one answers, what it is, and what it costs by itself.

Everything goes through docker-py; no command line tool is asked. Podman answers on its Docker-compatible socket.
"""

from __future__ import annotations

import functools
import math
import os
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import docker
import requests
from docker.constants import DEFAULT_DOCKER_API_VERSION
from docker.errors import APIError, DockerException
from docker.utils import kwargs_from_env
from tenacity import retry, retry_if_exception, stop_after_attempt, wait_random_exponential

from runner.errors import EngineUnavailable
from runner.sandbox import contexts

#: Seconds an engine has to say that it is there.
PROBE_S = 5
#: Seconds without a byte after which a call to the engine is given up.
CALL_S = 60
#: Connections kept open: parallel runs each hold a few (attach, exec, wait).
POOL = 64

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Endpoint:
    """One place where an engine may listen. `chosen`: the user named it, so no other one is tried."""

    url: str
    source: str
    chosen: bool = False
    tls: Mapping[str, Any] | None = None


def transient(error: BaseException) -> bool:
    """True for errors that may be gone at the next try: a broken connection or the engine's own 5xx, never a 4xx.

    A read timeout is not among them: the engine may still be doing what it was asked.
    """
    if isinstance(error, APIError):
        return error.is_server_error()
    return isinstance(error, requests.exceptions.ConnectionError)


def retrying(function: Callable[P, T]) -> Callable[P, T]:
    """Try an engine call up to three times, with jittered waits of at most 2 s, while its error is `transient`."""
    bounded = retry(
        retry=retry_if_exception(transient),
        stop=stop_after_attempt(3),
        wait=wait_random_exponential(multiplier=0.1, max=2),
        reraise=True,
    )
    return bounded(function)


def endpoints(environ: Mapping[str, str], home: Path) -> Iterator[Endpoint]:
    """The places to look, in order: DOCKER_HOST, the docker command's context, Docker's sockets, Podman's sockets.

    Raises EngineUnavailable for a context that was chosen and cannot be used.
    """
    if environ.get("DOCKER_HOST"):
        settings = kwargs_from_env(environment=dict(environ))
        yield Endpoint(settings["base_url"], "DOCKER_HOST", chosen=True, tls={"tls": settings.get("tls", False)})
        return
    context = contexts.chosen(environ, home)
    if context is not None:
        tls = None if context.tls is None else {"tls": context.tls}
        yield Endpoint(context.url, "the docker context", chosen=True, tls=tls)
        return
    runtime = environ.get("XDG_RUNTIME_DIR")
    yield Endpoint("unix:///var/run/docker.sock", "Docker's socket")
    yield Endpoint(f"unix://{home}/.docker/run/docker.sock", "Docker Desktop's socket")
    if runtime:
        yield Endpoint(f"unix://{runtime}/docker.sock", "rootless Docker's socket")
        yield Endpoint(f"unix://{runtime}/podman/podman.sock", "Podman's user socket")
    yield Endpoint("unix:///run/podman/podman.sock", "Podman's socket")


def connect(environ: Mapping[str, str] | None = None, home: Path | None = None) -> docker.DockerClient:
    """A client of the first engine that answers.

    Raises EngineUnavailable with one line that says what to do.
    """
    environ = os.environ if environ is None else environ
    home = _home() if home is None else home
    problems: list[str] = []
    try:
        places = list(endpoints(environ, home))
    except DockerException as error:  # settings of TLS that do not fit together
        raise EngineUnavailable(f"no container engine: DOCKER_HOST's settings are wrong: {error}") from None
    for endpoint in places:
        if endpoint.url.startswith("ssh://"):
            # docker-py needs another package for it, and our streams need sockets that can be half-closed.
            raise EngineUnavailable(
                f"no container engine: {endpoint.source} names {endpoint.url}, and ssh:// is not supported; forward "
                "its socket, for example with ssh -nNT -L /tmp/engine.sock:/var/run/docker.sock HOST, and set "
                "DOCKER_HOST=unix:///tmp/engine.sock"
            )
        path = endpoint.url.removeprefix("unix://")
        if endpoint.url.startswith("unix://") and not _is_there(path):
            if endpoint.chosen:
                problems.append(f"{endpoint.source} names {path}, which is not there")
            continue
        try:
            return _client(endpoint)
        except PermissionError:
            problems.append(_no_right(path))
        except (DockerException, requests.exceptions.RequestException, OSError, ValueError, KeyError) as error:
            problems.append(f"{endpoint.source} ({endpoint.url}) does not answer ({type(error).__name__})")
    what = "; ".join(problems) if problems else "none of the usual sockets is there"
    raise EngineUnavailable(
        f"no container engine: {what}; start Docker or Podman's socket, or run `make setup` as root on Debian"
    )


def _is_there(path: str) -> bool:
    """A place that we may not even look into (another user's home) is none of ours."""
    try:
        return Path(path).exists()
    except OSError:
        return False


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # no HOME, and a user that the system does not know
        return Path("/nonexistent")


def _no_right(path: str) -> str:
    return f"{path} may not be used by this user (add the user to its group)"


def _client(endpoint: Endpoint) -> docker.DockerClient:
    """A client that speaks the engine's own API version. Raises what docker-py raises where no engine answers."""
    settings: dict[str, Any] = dict(endpoint.tls or {})
    if endpoint.url.startswith("unix://"):
        # Where nobody listens, docker-py would leave an open socket behind.
        with socket.socket(socket.AF_UNIX) as knock:
            knock.settimeout(PROBE_S)
            knock.connect(endpoint.url.removeprefix("unix://"))
    # Not version="auto": where the engine does not answer, that leaves an open socket behind.
    probe = docker.APIClient(base_url=endpoint.url, version=DEFAULT_DOCKER_API_VERSION, timeout=PROBE_S, **settings)
    try:
        version = str(probe.version(api_version=False)["ApiVersion"])
    finally:
        probe.close()
    client = docker.DockerClient(base_url=endpoint.url, version=version, timeout=CALL_S, max_pool_size=POOL, **settings)
    # docker-py's attach_socket alone goes past its own time limit (7.1, api/container.py): it would wait for ever.
    client.api.post = functools.partial(client.api.post, timeout=CALL_S)  # type: ignore[method-assign]
    return client


@functools.lru_cache(maxsize=16)
def cpus_of(client: docker.DockerClient) -> float:
    """How many CPUs the engine's machine has; infinity where it does not say. Asked once a client."""
    return float(client.info().get("NCPU") or math.inf)


def describe(client: docker.DockerClient) -> dict[str, Any]:
    """What the engine says of itself and its machine.

    Keys: name, version, api, storage_driver, cgroup (its version, "1" or "2"), kernel, os, arch, cpus, memory_mb, root,
    disk_free_mb (null where the engine's root is not on this machine). Megabytes are 10^6 bytes.
    """
    version = client.version()
    info = client.info()
    parts = [part.get("Name", "") for part in version.get("Components") or []]
    root = info.get("DockerRootDir")
    try:
        free = shutil.disk_usage(root).free // 1_000_000 if root else None
    except OSError:
        free = None
    return {
        "name": "podman" if any("Podman" in part for part in parts) else "docker",
        "version": version.get("Version"),
        "api": version.get("ApiVersion"),
        "storage_driver": info.get("Driver"),
        "cgroup": info.get("CgroupVersion"),
        "kernel": info.get("KernelVersion"),
        "os": info.get("OperatingSystem"),
        "arch": info.get("Architecture"),
        "cpus": info.get("NCPU"),
        "memory_mb": (info.get("MemTotal") or 0) // 1_000_000,
        "root": root,
        "disk_free_mb": free,
    }
