"""The engine's own floor: what a container costs before anything of ours runs in it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import docker

from runner.errors import InfraError
from runner.sandbox.stream import AttachedStream, Chunk
from runner.sandbox.throwaway import created, remove

#: Echoes per measurement.
ECHOES = 50
_LINE = b"echo\n"


@dataclass(frozen=True)
class Floor:
    """Medians in milliseconds over `n` trivial containers; `total_ms` is the median of their sums."""

    n: int
    create_ms: float
    start_ms: float
    wait_ms: float
    remove_ms: float
    total_ms: float
    attach_echo_ms: float


def floor(client: docker.DockerClient, image: str, n: int = 5) -> Floor:
    """Measure create + start + wait + remove of `true` (no network, init, no log, no capabilities) and the attach echo.

    Raises what docker-py raises; every container is removed.
    """
    rows = [_trivial(client, image) for _ in range(n)]
    create, start, wait, gone = (median(column) for column in zip(*rows, strict=True))
    return Floor(n, create, start, wait, gone, median(map(sum, rows)), median(echoes(client, image)))


def _trivial(client: docker.DockerClient, image: str) -> tuple[float, float, float, float]:
    """Milliseconds of create, start, wait and remove of one container that runs `true`."""
    marks = [time.perf_counter_ns()]
    with created(client, image, ["true"]) as container:
        marks.append(time.perf_counter_ns())
        client.api.start(container)
        marks.append(time.perf_counter_ns())
        client.api.wait(container)
        marks.append(time.perf_counter_ns())
        remove(client, container)
        marks.append(time.perf_counter_ns())
    create, start, wait, gone = ((b - a) / 1e6 for a, b in pairwise(marks))
    return create, start, wait, gone


def echoes(client: docker.DockerClient, image: str, n: int = ECHOES) -> list[float]:
    """Milliseconds of `n` round trips through the streams of a container that runs `cat`, attached before its start."""
    with created(client, image, ["cat"], stdin=True) as container:
        stream = AttachedStream.attach(client, container)
        try:
            client.api.start(container)
            chunks = stream.chunks()
            times = [_echo(stream, chunks) for _ in range(n + 1)]
        finally:
            stream.close()
    # The first one waits for the program's own start.
    return times[1:]


def _echo(stream: AttachedStream, chunks: Iterator[Chunk]) -> float:
    """One round trip of one line, in milliseconds."""
    began = time.perf_counter_ns()
    stream.write(_LINE)
    back = b""
    while len(back) < len(_LINE):
        chunk = next(chunks, None)
        if chunk is None:
            raise InfraError("the engine closed the stream of a container that still runs")
        back += chunk.data
    return (time.perf_counter_ns() - began) / 1e6
