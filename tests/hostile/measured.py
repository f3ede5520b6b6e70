"""A sweep of the command in a process of its own, and the most memory that this process and its gateway took."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import docker
import docker.errors
import requests

from runner.sandbox.engine import connect
from runner.sandbox.labels import LABEL, Owner
from tests.engine.lab import REPOSITORY, Lab

#: The most resident memory of the whole command, in MB (10^6 bytes); and of the gateway's process.
PEAK_MB = 200
_GATEWAY = "/opt/gateway/gateway.mjs"


class Measured(NamedTuple):
    """Exit code, own peak memory in MB, standard error, and the peak memory of its gateway (the largest of several)."""

    exit_code: int
    peak_mb: float
    said: str
    gateway_mb: float


def measured(lab: Lab, sweep: str, out: Path) -> Measured:
    """Run the command and watch it."""
    argv = [
        sys.executable,
        "-m",
        "runner.cli",
        "--root",
        str(lab.root),
        "sweep",
        f"{lab.root}/configs/sweeps/{sweep}.yaml",
    ]
    with (
        (out.parent / f"{sweep}.err").open("w+", encoding="utf-8") as err,
        contextlib.closing(connect()) as client,
    ):
        process = subprocess.Popen([*argv, "--out", str(out)], cwd=REPOSITORY, stdout=subprocess.DEVNULL, stderr=err)
        peak = gateway = 0.0
        pids: set[int] = set()
        while process.poll() is None:
            peak = max(peak, high_water_mb(process.pid))
            pids = {pid for pid in pids if high_water_mb(pid)} or gateways(client, process.pid)
            gateway = max([gateway, *map(high_water_mb, pids)])
            time.sleep(0.1)
        err.seek(0)
        return Measured(process.returncode, peak, err.read(), gateway)


def gateways(client: docker.DockerClient, owner: int) -> set[int]:
    """The host's pids of the model gateways that the process `owner` started."""
    found = set()
    with contextlib.suppress(docker.errors.APIError, requests.RequestException):
        for container in client.api.containers(filters={"label": f"{LABEL}.owner"}):
            parsed = Owner.parse(container["Labels"][f"{LABEL}.owner"])
            if parsed is None or parsed.pid != owner or not any("-gateway-" in name for name in container["Names"]):
                continue
            top = client.api.top(container["Id"], ps_args="-eo pid,args")
            found |= {int(row[0]) for row in top["Processes"] or [] if _GATEWAY in row[1] and "node" in row[1][:20]}
    return found


def high_water_mb(pid: int) -> float:
    """The most resident memory since the program's start (VmHWM of proc(5)); 0 once it has ended.

    Not ru_maxrss of wait4: that keeps what the process was before its exec, a copy of this one.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return max((int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmHWM")), default=0.0)
