"""What a client callback costs: p50 and p95 per method, from the request's arrival to the answer's leaving.

    python -m tests.bench.bench_callbacks

A reference agent uses every callback a hundred times in one run; the engine's own floor (one round trip through the
streams of a container that runs `cat`) is measured beside it, so that the figures can be read as a ratio.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from tabulate import tabulate

from runner.evidence.callbacks import callbacks
from runner.evidence.conversation import Conversation
from runner.sandbox.engine import connect
from runner.sandbox.floor import echoes
from runner.sandbox.images import Images
from tests.engine.lab import Lab, frames

TIMES = 100
ROOT = "/workspace/semver"


def main() -> None:
    terminal = {"terminalId": "{terminalId}"}
    round_of_calls = [
        {"do": "call", "method": "fs/read_text_file", "params": {"path": f"{ROOT}/src/semver.js"}},
        {"do": "call", "method": "fs/write_text_file", "params": {"path": f"{ROOT}/x.txt", "content": "x\n"}},
        {"do": "call", "method": "terminal/create", "params": {"command": "true"}, "save": "terminalId"},
        {"do": "call", "method": "terminal/wait_for_exit", "params": terminal},
        {"do": "call", "method": "terminal/output", "params": terminal},
        {"do": "call", "method": "terminal/release", "params": terminal},
        {"do": "ask", "tool_call": {"toolCallId": "c", "kind": "edit", "title": "e"}},
    ]
    acts: list[dict[str, Any]] = [{"do": "model"}, {"do": "repeat", "times": TIMES, "acts": round_of_calls}]
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder) / "lab")
        result, (record,) = lab.sweep(lab.puppet("callbacks", acts), expect="task-failed")
        spans = defaultdict(list)
        for call in callbacks(Conversation.of(frames(result, record))):
            if call.end_ns is not None:
                spans[call.method].append((call.end_ns - call.start_ns) / 1e6)
    client = connect()
    echo = median(echoes(client, Images(client).ensure("node").id))
    rows = [
        (
            method,
            len(values),
            f"{median(values):.2f}",
            f"{quantiles(values, n=20)[-1]:.2f}",
            f"{median(values) / echo:.1f}",
        )
        for method, values in sorted(spans.items())
    ]
    print(tabulate(rows, headers=["method", "n", "p50 ms", "p95 ms", "p50 / echo"]))
    every = [value for values in spans.values() for value in values]
    print(f"\nall callbacks: p50 {median(every):.2f} ms; attach echo: p50 {echo:.2f} ms")


if __name__ == "__main__":
    main()
