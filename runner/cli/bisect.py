"""`acpbench bisect`."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import typer

from runner.cli.output import err, out
from runner.cli.state import catalog, engine


def bisect(
    context: typer.Context,
    adapter: Annotated[str, typer.Argument(metavar="ADAPTER", help="Without a version: claude-agent-acp.")],
    good: Annotated[str, typer.Option(metavar="VERSION", help="The older version.")],
    bad: Annotated[str, typer.Option(metavar="VERSION", help="The newer version, with another value.")],
    metric: Annotated[str, typer.Option(metavar="METRIC", help="An exact metric: default_mode, commands_announced.")],
    surface: Annotated[str, typer.Option(metavar="SURFACE")] = "acp",
    form: Annotated[Literal["table", "json"], typer.Option("--format")] = "table",
) -> int:
    """Find the first version of an adapter in which an exact metric changed; versions are pinned and built on the way.

    Exit codes: 0 found and confirmed, 1 found, but a second run said otherwise, 64 nothing changed.
    """
    from runner.sweep import bisect as search

    found = catalog(context)
    with engine() as client:
        bench = search.bench(adapter, metric, surface, found, client, err)
        versions = search.candidates(adapter, found, bench.clients, good, bad)
        err(f"{len(versions)} versions from {good} to {bad}: at most {max(len(versions) - 2, 0).bit_length()} steps")
        answer = search.bisect(versions, bench, err)
    err(f"records of the runs: {bench.root / 'results'}")
    if form == "json":
        out(json.dumps(answer.as_json(adapter, metric), indent=2))
        return 0 if answer.confirmed else 1
    first, last = answer.first, answer.last_good
    out(f"{metric} of {adapter} changed in {first.version}: {json.dumps(last.value)} -> {json.dumps(first.value)}")
    if answer.skipped:
        out(f"or in one of {', '.join(answer.skipped)}, which could not be run")
    again = "say the same" if answer.confirmed else "DIFFER: the metric is not deterministic"
    out(f"second runs of {last.version} and {first.version} {again}; {len(answer.steps)} runs in all")
    return 0 if answer.confirmed else 1
