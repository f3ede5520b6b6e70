"""What the gateway adds to a model request, against a bare aimock asked in turn in the same run.

    python -m tests.bench.bench_gateway

Both are reached over a Unix socket from a third container by one client with kept connections; a request is as large
as a coding agent's (90 kB), the answer 320 characters of text. Then a hundred paced streams at once: all must come
whole.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from tabulate import tabulate

from runner.gateway.container import Gateway, socket_name
from runner.sandbox.container import USER, Container, Spec
from runner.sandbox.engine import connect
from runner.sandbox.images import Images
from runner.sandbox.labels import labels

TIMES = 500
AT_ONCE = 100
FOLDER = "/acpbench/model"
#: The crowd's streams last about 1.6 s each: 15 events, and 80 tokens at 80 a second.
PACE = {"ttft_ms": 200.0, "tokens_per_s": 80.0}


def program(latency: dict[str, Any]) -> dict[str, Any]:
    usage = {"input": 1, "output": 1}
    step = {"index": 0, "say": "x" * 320, "think": None, "calls": [], "usage": usage, "finish": "end_turn"}
    return {
        "dialect": "anthropic",
        "steps": [step],
        "side_requests": [],
        "streaming": {"chunk_size": 32},
        "latency": latency,
    }


def measure(latency: dict[str, Any], times: int, at_once: int) -> dict[str, Any]:
    """What the client printed. `times`: requests of each kind, after a warm-up; 0: none, when answers are paced."""
    name = f"bench-{secrets.token_hex(4)}"
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(contextlib.closing(connect()))
        image = Images(client).ensure("gateway").id
        volumes = [f"acpbench-{name}-{role}" for role in ("model", "journal")]
        for volume in volumes:
            client.api.create_volume(name=volume, labels=labels(name))
            stack.callback(client.api.remove_volume, volume, force=True)
        gateway = stack.enter_context(
            Gateway(
                client,
                image=image,
                name=f"acpbench-{name}-gateway",
                model_volume=volumes[0],
                journal_volume=volumes[1],
                labels=labels(name),
            )
        )
        token = secrets.token_hex(16)
        gateway.register(token, program(latency))
        caller = Container(
            client,
            Spec(
                name=f"acpbench-{name}-caller",
                image=image,
                command=["sleep", "600"],
                labels=labels(name),
                mounts={volumes[0]: FOLDER},
            ),
        )
        caller.create()
        stack.callback(caller.remove)
        caller.start()
        source = (Path(__file__).parent / "gateway_client.mjs").read_text(encoding="utf-8")
        node = "/opt/node/bin/node"
        argv = [
            node,
            "--input-type=module",
            "-e",
            source,
            f"{FOLDER}/{socket_name(token)}",
            token,
            str(times),
            str(at_once),
        ]
        stream = caller.execute(argv, USER)
        try:
            said = {"stdout": b"", "stderr": b""}
            for chunk in stream.chunks():
                said[chunk.channel] += chunk.data
        finally:
            stream.close()
        if not said["stdout"]:
            raise SystemExit(said["stderr"].decode())
        found: dict[str, Any] = json.loads(said["stdout"])
        return found


def main() -> None:
    straight = measure({"ttft_ms": 0.0, "tokens_per_s": None}, TIMES, 1)
    rows = []
    for kind in ("stream", "whole"):
        bare, ours = straight[kind]["aimock"], straight[kind]["gateway"]
        added = median(ours) - median(bare)
        rows.append(
            (
                kind,
                len(ours),
                *(f"{value:.2f}" for value in (median(bare), _p95(bare), median(ours), _p95(ours), added)),
                f"{median(ours) / median(bare):.2f}",
            )
        )
    heads = ["answer", "n", "aimock p50 ms", "p95", "gateway p50 ms", "p95", "added p50 ms", "ratio"]
    print(tabulate(rows, heads, disable_numparse=True))
    crowd = measure(PACE, 0, AT_ONCE)["crowd"]
    (alone,) = measure(PACE, 0, 1)["crowd"]["ms"]
    print(
        f"{AT_ONCE} streams at once, paced (one alone: {alone:.0f} ms): {crowd['whole']} came whole, each in "
        f"{min(crowd['ms']):.0f}-{max(crowd['ms']):.0f} ms (median {median(crowd['ms']):.0f}), "
        f"all in {crowd['total_ms']:.0f} ms"
    )


def _p95(values: list[float]) -> float:
    return quantiles(values, n=20)[-1]


if __name__ == "__main__":
    main()
