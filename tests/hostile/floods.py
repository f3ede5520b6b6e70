"""Floods in full: what an agent prints by the gigabyte, under the knobs as they are shipped, and our own peak memory.

python -m tests.hostile.floods      (make floods)
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabulate import tabulate

from runner.records.store import SweepDir
from tests.engine.lab import REPOSITORY, Lab, repaired
from tests.hostile.measured import PEAK_MB, measured

_MB = 1_000_000
_LINE = "0123456789" * 99 + "012345678\n"
_TICK = {"jsonrpc": "2.0", "method": "_tick"}
_SAID = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}
_UPDATE = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "puppet-session", "update": _SAID}}

Act = dict[str, Any]
_KIND = {"sessionUpdate": "kind-#", "content": {"type": "text", "text": "x"}}
_CALL = {"sessionUpdate": "tool_call", "toolCallId": "call-#", "title": "t-#", "kind": "kind-#", "status": "completed"}


def _huge(head: str, piece: str, times: int, tail: str) -> list[Act]:
    """One line that stands in no configuration as a whole."""
    return [
        {"do": "raw", "text": head},
        {"do": "raw", "text": piece * 1000, "times": times // 1000},
        {"do": "raw", "text": f"{tail}\n"},
    ]


def _line(update: Mapping[str, Any]) -> str:
    params = {"sessionId": "puppet-session", "update": update}
    return json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params})


#: What is printed within the turn, between the repair and the prompt's response; or asked of the model.
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
    "a million junk lines": [{"do": "raw", "text": "junk\n", "times": _MB}],
    "a line of ten million values": _huge("[", "{},", 10 * _MB, "{}]"),
    "ten wide lines of 30 MB": [
        {
            "do": "repeat",
            "times": 10,
            "acts": _huge('{"jsonrpc":"2.0","method":"_x","params":"', "x", 30 * _MB, '\U0001f600"}'),
        }
    ],
    "a million kinds of updates": [{"do": "lines", "text": _line(_KIND), "times": _MB}],
    "a million tool calls": [{"do": "lines", "text": _line(_CALL), "times": _MB}],
    "100,000 permission requests": [{"do": "asks", "times": 100_000}],
    "200,000 files in HOME": [{"do": "files", "path": "~/many", "times": 200_000}],
    "20,000 files in the workspace": [{"do": "files", "path": "many", "times": 20_000}],
    "336 MB of model requests": [{"do": "ask-model", "bytes": 9_900_000, "times": 34}],
    "20,000 model requests": [{"do": "ask-model", "times": 20_000}],
    "196 unending model requests": [{"do": "unending", "connections": 196, "seconds": 60}],
    "model requests of ten million values": [{"do": "ask-model", "raw": "{},", "repeat": 3_300_000, "times": 30}],
}
#: The same on the command line surface: printed before the CLI ends.
CLI: Mapping[str, list[Act]] = {
    "cli: 100 MB of {}, lines": [{"do": "raw", "text": "{},\n", "times": 25 * _MB}],
    "cli: 300,000 junk lines": [{"do": "raw", "text": "junk\n", "times": 300_000}],
    "cli: one array of 30 MB": _huge("[", "{},", 10 * _MB, "{}]"),
    "cli: one object of 60 MB": _huge('{"a":[', "{},", 20 * _MB, "{}]}"),
    "cli: ten lines of 60 MB of text": [
        {"do": "repeat", "times": 10, "acts": _huge('{"a":"', "x", 60 * _MB, '"}')},
    ],
    "cli: a million tool calls": [
        {"do": "lines", "text": '{"type":"tool_use","tool_id":"call-#","tool_name":"tool-#"}', "times": _MB}
    ],
}
#: Files beside a run's log may be so large at most, MB: whoever reads a sweep reads its records.
RECORD_MB = 3


@dataclass(frozen=True)
class Flooded:
    """How one flood ended. `kept_mb`: what lies on disk of it; `cut`: what the caps left out; `report_code`: of the
    command that reports it."""

    name: str
    outcome: str
    exit_code: int
    peak_mb: float
    seconds: float
    kept_mb: float
    cut: dict[str, int]
    gateway_mb: float
    record_mb: float
    report_code: int

    @property
    def held(self) -> bool:
        memory = max(self.peak_mb, self.gateway_mb) < PEAK_MB
        return (
            self.outcome == "passed"
            and self.exit_code == self.report_code == 0
            and memory
            and self.record_mb < RECORD_MB
        )


def flood(name: str, folder: Path) -> Flooded:
    """One run of an agent that repairs the fixture, then does `FLOODS[name]` or `CLI[name]`, then ends its turn."""
    lab = Lab(folder / "lab")
    repair: list[Act] = [{"do": "model"}, {"do": "write", "path": "src/semver.js", "text": repaired()}]
    limits = {"memory_mb": 1024, "pids": 512, "disk_mb": 512}
    if name in CLI:
        adapter = lab.puppet("flood", [*repair, *CLI[name]], limits=limits, parser="gemini-stream-json")
    else:
        acts = [{"do": "handshake"}, {"do": "prompt"}, *repair, *FLOODS[name], {"do": "end"}]
        adapter = lab.puppet("flood", acts, mode=["wire"], limits=limits)
    matrix = {
        "adapters": [adapter],
        "surfaces": ["cli" if name in CLI else "acp"],
        "fixtures": ["semver"],
        "models": ["scripted/one-word"],
    }
    # What an agent does without a word takes its time on a busy machine.
    knobs = {"deadlines": {"silence": 900, "turn": 1800, "collect": 300}}
    body = {"id": "flood", "arms": [matrix], "repeat": 1, "warmup": 0, "infra_attempts": 1, "knobs": knobs}
    lab.write("sweeps", body)
    started = time.monotonic()
    seen = measured(lab, "flood", folder / "out")
    seconds = time.monotonic() - started
    (record,) = SweepDir.read(folder / "out").records()
    files = [path for path in (folder / "out").rglob("*") if path.is_file()]
    kept = sum(path.stat().st_size for path in files) / _MB
    cut = {what: number for what, number in record.cut.items() if number}
    size = max(path.stat().st_size for path in files if path.name == "record.json") / _MB
    argv = [sys.executable, "-m", "runner.cli", "report", str(folder / "out"), "--format", "json"]
    report = subprocess.run(argv, cwd=REPOSITORY, stdout=subprocess.DEVNULL, check=False)
    return Flooded(
        name, record.outcome, seen.exit_code, seen.peak_mb, seconds, kept, cut, seen.gateway_mb, size, report.returncode
    )


HEADERS = ["flood", "ended", "our peak MB", "gateway's", "record MB", "s", "MB kept", "cut"]


def table(floods: list[Flooded]) -> str:
    rows = [
        (
            one.name,
            one.outcome,
            f"{one.peak_mb:.0f}",
            f"{one.gateway_mb:.0f}",
            f"{one.record_mb:.2f}",
            f"{one.seconds:.0f}",
            f"{one.kept_mb:.0f}",
            ", ".join(f"{number:,} {what}" for what, number in one.cut.items()) or "nothing",
        )
        for one in floods
    ]
    return tabulate(rows, headers=HEADERS, maxcolwidths=36)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=[*FLOODS, *CLI], help="one of them")
    only = parser.parse_args().only
    floods = []
    for name in [only] if only else [*FLOODS, *CLI]:
        with tempfile.TemporaryDirectory() as folder:
            floods.append(flood(name, Path(folder)))
    print(table(floods))
    held = sum(one.held for one in floods)
    print(f"\n{held} of {len(floods)} held: passed, own peak and gateway's below {PEAK_MB} MB")
    return 0 if held == len(floods) else 1


if __name__ == "__main__":
    sys.exit(main())
