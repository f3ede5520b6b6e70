"""`acpbench adapters list|check|pin`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from runner.cli.output import err, out, table
from runner.cli.state import catalog, engine
from runner.config.catalog import Catalog
from runner.errors import EngineUnavailable

if TYPE_CHECKING:
    from runner.config.adapter import Adapter
    from runner.packages.check import CheckedPackage
    from runner.sandbox.images import ImageInfo

app = typer.Typer(no_args_is_help=True, help="The agents that can be named in a sweep, and their pins.")

#: Adapters that the table names where several pin one package.
_NAMED = 2


@app.callback()
def _group() -> None:
    """The agents that can be named in a sweep, and their pins."""


@app.command("list")
def list_(context: typer.Context) -> int:
    """Every adapter with its pins, and its image's size (10^6 bytes; `own`: beyond the layers that others share)."""
    found = catalog(context)
    adapters = [loaded.value for loaded in found.adapters()]
    images = _images(found)
    rows = []
    for adapter in adapters:
        info = images.get(adapter.image)
        shared = f"{info.shared_layers}/{info.layers}" if info else None
        transports = ", ".join(name for name in ("acp", "cli") if getattr(adapter, name) is not None)
        pins = ", ".join(f"{package.name}@{package.version}" for package in adapter.packages)
        size = (info.size_mb, info.own_mb) if info else (None, None)
        rows.append((adapter.id, transports, adapter.dialect, adapter.image, *size, shared, pins))
    headers = ["adapter", "transports", "dialect", "image", "MB", "own", "shared layers", "packages"]
    out(table(headers, rows))
    built = [images[name] for name in dict.fromkeys(adapter.image for adapter in adapters) if name in images]
    if built:
        under = max((info.size_mb or 0) - (info.own_mb or 0) for info in built)
        own = sum(info.own_mb or 0 for info in built)
        out(f"{len(built)} images: {under} MB that they share and {own} MB of their own")
    for name, sizes in _versions(adapters, images).items():
        out(f"one more version of {name}: {min(sizes)} to {max(sizes)} MB, as the {len(sizes)} that are built")
    return 0


def _versions(adapters: list[Adapter], images: dict[str, ImageInfo]) -> dict[str, list[int]]:
    """Agent -> what each version of it that is built has of its own, in MB; those with several versions alone."""
    found: dict[str, list[int]] = {}
    for adapter in adapters:
        info = images.get(adapter.image)
        if info is not None and info.own_mb is not None:
            found.setdefault(adapter.id.partition("@")[0], []).append(info.own_mb)
    return {name: sizes for name, sizes in found.items() if len(sizes) > 1}


def _images(found: Catalog) -> dict[str, ImageInfo]:
    """The images that are built, by name; none where no engine answers, which is said."""
    from runner.sandbox.images import Images

    try:
        with engine() as client:
            return {info.name: info for info in Images(client, found.root).list() if info.id}
    except EngineUnavailable as error:
        err(f"sizes are unknown: {error}")
        return {}


@app.command()
def check(
    context: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(metavar="[ADAPTER]...", help="Default all.")] = None,
    form: Annotated[Literal["table", "json"], typer.Option("--format")] = "table",
) -> int:
    """Ask the registries whether the pinned packages are deprecated, renamed, withdrawn or left behind.

    Exit codes: 0 none is deprecated (or its adapter says accept_deprecated), 1 one is, or could not be asked about.
    """
    from runner.packages.check import check as judge
    from runner.packages.check import everything, merged, pins
    from runner.packages.clients import Clients
    from runner.sandbox.images import Images

    found = catalog(context)
    with engine() as client:
        images = Images(client, found.root)
        if names:
            pinned = merged(pins(map(found.adapter, names)))
        else:
            pinned = everything([adapter.value for adapter in found.adapters()], images.recipes)
        checked = judge(pinned, Clients(client, images))
    if form == "json":
        out(json.dumps({"packages": [package.as_json() for package in checked]}, indent=2))
    else:
        _print_checked(checked)
    return 0 if all(package.ok for package in checked) else 1


@app.command()
def pin(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="ADAPTER@VERSION")],
) -> int:
    """Make another version of an adapter from the nearest one: configuration, lock and image, verified."""
    from runner.packages.clients import Clients
    from runner.packages.pin import pin as make
    from runner.sandbox.images import Images

    found = catalog(context)
    with engine() as client:
        made = make(name, found, client, Clients(client, Images(client, found.root)), err)
    rows = [(package, before, after) for package, (before, after) in made.changed.items()]
    out(table(["package", made.base, made.adapter.id], rows))
    out(f"{made.config}: built and verified; {made.image.size_mb} MB, of which {made.image.own_mb} MB are its own")
    return 0


def _print_checked(checked: list[CheckedPackage]) -> None:
    rows = [
        (
            f"{package.pinned.name}@{package.pinned.version}",
            _deprecated(package),
            package.newest or "?",
            _known(package.behind),
            _known(package.behind_days),
            "yes" if package.yanked else "?" if package.yanked is None else "no",
            _users(package.pinned.by),
        )
        for package in checked
    ]
    out(table(["package", "deprecated", "newest", "versions behind", "days", "withdrawn", "pinned by"], rows))
    for package in checked:
        name = f"{package.pinned.name}@{package.pinned.version}"
        if package.deprecated:
            out(f"- {name}: {package.deprecated}" + (f" Renamed to {package.renamed}." if package.renamed else ""))
            if package.pinned.accepted is not None:
                out(f"  accepted: {package.pinned.accepted}")
    for problem in sorted({package.problem for package in checked if package.problem is not None}):
        err(f"{sum(package.problem == problem for package in checked)} not checked: {problem}")
    for registry in ("npm", "pypi"):
        silent = [package for package in checked if package.pinned.registry == registry and package.problem is None]
        if silent and all(package.deprecated is None for package in silent):
            err(f"{registry}: the registry that was asked carries no deprecation notices: nothing is known of them")
        if any(package.copies_dated for package in silent):
            err(f"{registry}: the registry that was asked dates its copies, not the releases: so are the days")


def _deprecated(package: CheckedPackage) -> str:
    if package.deprecated:
        return "accepted" if package.pinned.accepted is not None else "YES"
    return "?" if package.deprecated is None else "no"


def _known(count: int | None) -> object:
    return "?" if count is None else count


def _users(names: tuple[str, ...]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:_NAMED])} and {more} more"
