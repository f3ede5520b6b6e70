"""A sweep of the command in a process of its own, and the most memory that this process took."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.engine.lab import REPOSITORY, Lab

#: The most resident memory of the whole command, in MB (10^6 bytes).
PEAK_MB = 200


def measured(lab: Lab, sweep: str, out: Path) -> tuple[int, float, str]:
    """Run the command; its exit code, its own peak memory in MB and its standard error."""
    argv = [
        sys.executable,
        "-m",
        "runner.cli",
        "--root",
        str(lab.root),
        "sweep",
        f"{lab.root}/configs/sweeps/{sweep}.yaml",
    ]
    with (out.parent / f"{sweep}.err").open("w+", encoding="utf-8") as err:
        process = subprocess.Popen([*argv, "--out", str(out)], cwd=REPOSITORY, stdout=subprocess.DEVNULL, stderr=err)
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, high_water_mb(process.pid))
            time.sleep(0.1)
        err.seek(0)
        return process.returncode, peak, err.read()


def high_water_mb(pid: int) -> float:
    """The most resident memory since the program's start (VmHWM of proc(5)); 0 once it has ended.

    Not ru_maxrss of wait4: that keeps what the process was before its exec, a copy of this one.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return max((int(line.split()[1]) / 1000 for line in lines if line.startswith("VmHWM")), default=0.0)
