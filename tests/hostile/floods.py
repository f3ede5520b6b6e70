"""Floods in full: what an agent prints by the gigabyte, under the knobs as they are shipped, and our own peak memory.

python -m tests.hostile.floods      (make floods)
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabulate import tabulate

from runner.records.store import SweepDir
from tests.engine.lab import Lab, repaired
from tests.hostile.measured import PEAK_MB, measured

_MB = 1_000_000
_LINE = "0123456789" * 99 + "012345678\n"
_TICK = {"jsonrpc": "2.0", "method": "_tick"}
_SAID = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}
_UPDATE = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "puppet-session", "update": _SAID}}

Act = dict[str, Any]
#: What is printed within the turn, between the repair and the prompt's response.
FLOODS: Mapping[str, list[Act]] = {
    "1 GB on stdout": [{"do": "raw", "text": _LINE, "times": 1000 * _MB // len(_LINE)}],
    "1 GB on stderr": [{"do": "raw", "to": "stderr", "text": _LINE, "times": 1000 * _MB // len(_LINE)}],
    "a hundred lines of 31 MB": [{"do": "repeat", "times": 100, "acts": [{"do": "big", "bytes": 31 * _MB}]}],
    "one 64 MiB line": [{"do": "big", "bytes": 64 * 1024 * 1024}],
    "a million tiny frames": [{"do": "send", "message": _TICK, "times": _MB}],
    "a million updates": [{"do": "send", "message": _UPDATE, "times": _MB}],
    "a thousand lines of 1 MB": [{"do": "repeat", "times": 1000, "acts": [{"do": "big", "bytes": _MB}]}],
    "one 1 GB line": [
        {"do": "raw", "text": _LINE[:-1], "times": 1000 * _MB // len(_LINE)},
        {"do": "raw", "text": "\n"},
    ],
}


@dataclass(frozen=True)
class Flooded:
    """How one flood ended. `kept_mb`: what lies on disk of it; `cut`: what the caps left out."""

    name: str
    outcome: str
    exit_code: int
    peak_mb: float
    seconds: float
    kept_mb: float
    cut: dict[str, int]

    @property
    def held(self) -> bool:
        return self.outcome == "passed" and self.exit_code == 0 and self.peak_mb < PEAK_MB


def flood(name: str, folder: Path) -> Flooded:
    """One run of an agent that repairs the fixture, then prints `FLOODS[name]`, then ends its turn."""
    lab = Lab(folder / "lab")
    acts: list[Act] = [
        {"do": "handshake"},
        {"do": "prompt"},
        {"do": "model"},
        {"do": "write", "path": "src/semver.js", "text": repaired()},
        *FLOODS[name],
        {"do": "end"},
    ]
    matrix = {
        "adapters": [lab.puppet("flood", acts, mode=["wire"], limits={"memory_mb": 1024, "pids": 64, "disk_mb": 64})],
        "surfaces": ["acp"],
        "fixtures": ["semver"],
        "models": ["scripted/one-word"],
    }
    lab.write("sweeps", {"id": "flood", "arms": [matrix], "repeat": 1, "warmup": 0, "infra_attempts": 1})
    started = time.monotonic()
    code, peak, _ = measured(lab, "flood", folder / "out")
    seconds = time.monotonic() - started
    (record,) = SweepDir.read(folder / "out").records()
    kept = sum(path.stat().st_size for path in (folder / "out").rglob("*") if path.is_file()) / _MB
    cut = {what: number for what, number in record.cut.items() if number}
    return Flooded(name, record.outcome, code, peak, seconds, kept, cut)


def table(floods: list[Flooded]) -> str:
    rows = [
        (
            one.name,
            one.outcome,
            f"{one.peak_mb:.0f}",
            f"{one.seconds:.0f}",
            f"{one.kept_mb:.0f}",
            ", ".join(f"{number:,} {what}" for what, number in one.cut.items()) or "nothing",
        )
        for one in floods
    ]
    return tabulate(rows, headers=["flood", "ended", "our peak MB", "s", "MB kept", "cut"], maxcolwidths=40)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=FLOODS, help="one of them")
    only = parser.parse_args().only
    floods = []
    for name in [only] if only else FLOODS:
        with tempfile.TemporaryDirectory() as folder:
            floods.append(flood(name, Path(folder)))
    print(table(floods))
    held = sum(one.held for one in floods)
    print(f"\n{held} of {len(floods)} held: passed, and our own peak memory below {PEAK_MB} MB")
    return 0 if held == len(floods) else 1


if __name__ == "__main__":
    sys.exit(main())
