"""`acpbench adapters list`."""

from __future__ import annotations

import typer

from runner.cli.output import out, table
from runner.cli.state import catalog

app = typer.Typer(no_args_is_help=True, help="The agents that can be named in a sweep.")


@app.callback()
def _group() -> None:
    """The agents that can be named in a sweep."""


@app.command("list")
def list_(context: typer.Context) -> int:
    """Every adapter with its pins."""
    rows = []
    for loaded in catalog(context).adapters():
        adapter = loaded.value
        transports = ", ".join(name for name in ("acp", "cli") if getattr(adapter, name) is not None)
        pins = ", ".join(f"{package.name}@{package.version}" for package in adapter.packages)
        rows.append((adapter.id, transports, adapter.dialect, adapter.image, pins))
    out(table(["adapter", "transports", "dialect", "image", "packages"], rows))
    return 0
