"""`acpbench images build|list|verify|prune`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runner.cli.output import err, out, table
from runner.cli.state import catalog, engine
from runner.config.loaded_sweep import load_sweep
from runner.errors import BuildError

app = typer.Typer(no_args_is_help=True, help="Build, list, verify and prune the images that runs start from.")

Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Folders under images/; default all.")]


@app.command()
def build(
    context: typer.Context,
    names: Names = None,
    sweep: Annotated[
        Path | None, typer.Option(metavar="CONFIG", help="Also whatever this sweep needs, in place of all.")
    ] = None,
) -> int:
    """Build images where they are missing, and what they stand on."""
    from runner.sandbox.images import NEEDED, Images

    found = catalog(context)
    wanted = list(names or [])
    if sweep is not None:
        wanted += [*NEEDED, *(adapter.image for adapter in load_sweep(sweep, found).adapters.values())]
    with engine() as client:
        refs = Images(client, found.root).build(wanted or None, err)
    out(table(["image", "reference", "id"], [(ref.name, ref.reference, ref.id) for ref in refs]))
    return 0


@app.command("list")
def list_(context: typer.Context) -> int:
    """Every image, built or not, with its size and what it adds to the image it stands on (10^6 bytes)."""
    from runner.sandbox.images import Images

    root = catalog(context).root
    with engine() as client:
        infos = Images(client, root).list()
    rows = [
        (info.name, info.tag, info.id[7:19] if info.id else "not built", info.size_mb, info.own_mb,
         f"{info.shared_layers}/{info.layers}", info.title)
        for info in infos
    ]  # fmt: skip
    out(table(["image", "tag", "id", "MB", "own MB", "shared layers", "title"], rows))
    return 0


@app.command()
def verify(context: typer.Context, names: Names = None) -> int:
    """Ask every program of the built images for its version and compare it with the pin."""
    from runner.sandbox.images import Images

    found = catalog(context)
    adapters = [loaded.value for loaded in found.adapters()]
    with engine() as client:
        images = Images(client, found.root)
        wanted = names or [info.name for info in images.list() if info.id]
        if not wanted:
            raise BuildError("no image is built; run `acpbench images build`")
        stated = images.verify(wanted, adapters)
    rows = [
        (program.image, program.program, program.expect, program.printed.splitlines()[0] if program.printed else "")
        for program in stated
    ]
    out(table(["image", "program", "pinned", "says"], rows))
    return 0


@app.command()
def prune(context: typer.Context) -> int:
    """Remove images of ours that no recipe makes any more; what a container uses is left."""
    from runner.sandbox.images import Images

    root = catalog(context).root
    with engine() as client:
        removed = Images(client, root).prune()
    for reference in removed:
        out(reference)
    err(f"{len(removed)} removed")
    return 0
