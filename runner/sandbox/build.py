"""Recipe -> image: one import for a debootstrap base, one engine build for everything else."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import docker
import requests
from docker.errors import APIError, DockerException

from runner import __version__
from runner.errors import BuildError
from runner.sandbox.host import HostSettings
from runner.sandbox.recipe import Debootstrap, Recipe, dockerfile
from runner.text.visible import one_line

#: Said once per step of a build.
Progress = Callable[[str], None]

#: Label of every image of ours; its value is the version that built it.
LABEL = "acpbench"
#: Label of build stages: they hold the machine's settings, so they are removed once the image stands.
STAGE_LABEL = "acpbench.stage"
#: Lines of a broken build that its error shows.
TAIL = 20
#: Seconds without a byte after which a build is given up: one step may be silent for minutes.
SILENCE_S = 1800

_ID = re.compile(r"^(?: ---> |--> )([0-9a-f]{12,64})$")
#: The engine colours what a step writes to its standard error.
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_STEP = re.compile(r"^(?:Step|STEP) (\d+/\d+) ?: (.*)$")


def build(
    client: docker.DockerClient,
    recipe: Recipe,
    recipes: Mapping[str, Recipe],
    host: HostSettings,
    progress: Progress,
) -> None:
    """Build one image whose parents are there, under its tag. Raises BuildError with the build's last lines."""
    if recipe.spec.debootstrap is not None:
        _debootstrap(client, recipe, recipe.spec.debootstrap, progress)
    else:
        _dockerfile(client, recipe, recipes, host, progress)


def context(recipe: Recipe, recipes: Mapping[str, Recipe], host: HostSettings) -> io.BytesIO:
    """The build context: the folder's files, the Dockerfile with exact tags, the machine's settings; times are 0."""
    files = recipe.files() | host.files() | {"Dockerfile": dockerfile(recipe, recipes).encode()}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = 0o644
            tar.addfile(entry, io.BytesIO(content))
    packed.seek(0)
    return packed


def _dockerfile(
    client: docker.DockerClient,
    recipe: Recipe,
    recipes: Mapping[str, Recipe],
    host: HostSettings,
    progress: Progress,
) -> None:
    stages: list[str] = []
    try:
        events = client.api.build(
            fileobj=context(recipe, recipes, host),
            custom_context=True,
            tag=recipe.reference,
            labels={LABEL: __version__, f"{LABEL}.image": recipe.name},
            # Registries are reached as the machine itself reaches them.
            network_mode="host",
            rm=True,
            forcerm=True,
            timeout=SILENCE_S,
            decode=True,
            # docker-py would hand the client's proxies to every step; build stages read them from .host/env.
            use_config_proxy=False,
        )
        _follow(recipe, events, stages, progress)
    except (APIError, DockerException, requests.exceptions.RequestException) as error:
        raise BuildError(f"image {recipe.name}: {_said(error)}") from error
    finally:
        _remove_stages(client, stages)


def _follow(recipe: Recipe, events: Iterable[Any], ids: list[str], progress: Progress) -> None:
    """Read a build's events to its end; collects the ids of intermediate images. Raises BuildError where it breaks."""
    tail: deque[str] = deque(maxlen=TAIL)
    reason = ""
    for event in events:
        for line in _COLOUR.sub("", str(event.get("stream") or "")).splitlines():
            if not line.strip():
                continue
            tail.append(line.rstrip())
            step = _STEP.match(line)
            if step is not None:
                progress(f"{recipe.name}: {step[1]} {step[2][:80]}")
            made = _ID.match(line.rstrip())
            if made is not None:
                ids.append(made[1])
        # Read on to the end: an answer that is left half read keeps its connection open.
        reason = reason or str(event.get("error") or "").strip()
    if reason:
        raise BuildError(_broken(recipe, reason, tail))


def _broken(recipe: Recipe, reason: str, tail: Iterable[str]) -> str:
    lines = "".join(f"\n  | {line}" for line in tail)
    return f"image {recipe.name} could not be built: {one_line(reason)}{lines}"


def _said(error: Exception) -> str:
    """The engine's own words where there are some, without the request around them."""
    return " ".join(str(getattr(error, "explanation", None) or error).split())


def _remove_stages(client: docker.DockerClient, ids: Iterable[str]) -> None:
    """Remove the build stages among a build's intermediate images, newest first. What is in use or gone is left.

    So is what a busy engine takes its time over: the image that was built stands, and that is what was asked for.
    """
    for image in reversed(list(dict.fromkeys(ids))):
        try:
            found = client.images.get(image)
            if STAGE_LABEL in found.labels and not found.tags:
                client.api.remove_image(image)
        except (APIError, DockerException, requests.exceptions.RequestException):
            continue


def _debootstrap(client: docker.DockerClient, recipe: Recipe, spec: Debootstrap, progress: Progress) -> None:
    tool = shutil.which("mmdebstrap")
    if tool is None:
        raise BuildError(
            f"image {recipe.name} needs mmdebstrap: run `make setup` as root on Debian, or `apt-get install mmdebstrap`"
        )
    progress(f"{recipe.name}: mmdebstrap {spec.suite}")
    with tempfile.TemporaryDirectory(prefix="acpbench-") as folder:
        target = Path(folder) / "base.tar"
        done = subprocess.run(
            debootstrap_command(tool, spec, target),
            env=_debootstrap_env(spec),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=SILENCE_S,
        )
        if done.returncode != 0:
            reason = f"mmdebstrap ended with {done.returncode}"
            raise BuildError(_broken(recipe, reason, done.stdout.splitlines()[-TAIL:]))
        progress(f"{recipe.name}: import")
        _import(client, recipe, target)


def debootstrap_command(tool: str, spec: Debootstrap, target: Path) -> list[str]:
    """mmdebstrap's command line; the mirror is its own default for the suite."""
    strip = " ".join(f'"$1/{folder}"' for folder in spec.strip)
    remove = " ".join(f'"$1/{file}"' for file in spec.remove)
    hooks = []
    if strip:
        hooks.append(f"find {strip} ! -type d ! -name 'copyright*' -delete")
        hooks.append(f"find {strip} -mindepth 1 -type d -empty -delete")
    if remove:
        hooks.append(f"rm -f {remove}")
    return [
        tool,
        f"--variant={spec.variant}",
        f"--include={','.join(spec.include)}",
        *(f"--customize-hook={hook}" for hook in hooks),
        spec.suite,
        str(target),
    ]


def _debootstrap_env(spec: Debootstrap) -> dict[str, str]:
    """PATH and what reaches the mirror. apt's own proxy goes by environment: as an apt option it would be baked in."""
    proxies = ("http_proxy", "https_proxy", "no_proxy")
    env = {name: value for name, value in os.environ.items() if name.lower() in proxies}
    env |= {"PATH": f"{os.defpath}:/usr/sbin:/sbin", "LANG": "C.UTF-8", "SOURCE_DATE_EPOCH": str(spec.epoch)}
    env.setdefault("TMPDIR", tempfile.gettempdir())
    config = shutil.which("apt-config")
    if config is not None and "http_proxy" not in env:
        asked = subprocess.run(
            [config, "shell", "proxy", "Acquire::http::Proxy"], capture_output=True, text=True, check=False, timeout=30
        )
        value = asked.stdout.strip().removeprefix("proxy=").strip("'")
        if value and value.upper() != "DIRECT":
            env["http_proxy"] = value
    return env


def _import(client: docker.DockerClient, recipe: Recipe, target: Path) -> None:
    try:
        said = client.api.import_image(
            src=str(target),
            repository=recipe.reference.rpartition(":")[0],
            tag=recipe.tag,
            changes=[f"LABEL {LABEL}={__version__}", f"LABEL {LABEL}.image={recipe.name}"],
        )
    except (APIError, DockerException, requests.exceptions.RequestException) as error:
        raise BuildError(f"image {recipe.name} could not be imported: {_said(error)}") from error
    for line in str(said).splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        if "error" in event:
            raise BuildError(f"image {recipe.name} could not be imported: {event['error']}")
