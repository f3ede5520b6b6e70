"""`acpbench doctor` and `acpbench clean`: the machine, and what dead processes of ours left on it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli.output import err, out, table
from runner.cli.state import catalog, engine
from runner.config.nearest import suggest
from runner.errors import InfraError, UsageError

if TYPE_CHECKING:
    from docker import DockerClient

    from runner.config.catalog import Catalog
    from runner.sandbox.images import ImageInfo

Row = tuple[str, object]


def doctor(
    context: typer.Context,
    image: Annotated[str | None, typer.Option(metavar="NAME", help="Measure the floor on this image.")] = None,
) -> int:
    """Report the engine, the disk, the images, and the engine's own floor in milliseconds."""
    from runner.sandbox.engine import describe
    from runner.sandbox.images import Images

    found = catalog(context)
    with engine() as client:
        about = describe(client)
        infos = Images(client, found.root).list()
        rows: list[Row] = [
            ("engine", f"{about['name']} {about['version']} (API {about['api']})"),
            ("storage driver", about["storage_driver"]),
            ("cgroup version", about["cgroup"]),
            ("kernel", about["kernel"]),
            ("system", f"{about['os']}, {about['arch']}, {about['cpus']} cpus, {about['memory_mb']} MB"),
            ("disk left, engine", _mb(about["disk_free_mb"])),
            ("disk left, here", _mb(shutil.disk_usage(found.root).free // 1_000_000)),
        ]
        rows += [(f"image {info.name}", f"{info.size_mb} MB" if info.id else "not built") for info in infos]
        rows += _floor(client, _measured_on(found, infos, image))
    out(table((), rows))
    return 0


def _mb(free: int | None) -> str | None:
    return None if free is None else f"{free} MB"


def _measured_on(found: Catalog, infos: list[ImageInfo], wanted: str | None) -> ImageInfo | None:
    """The image to measure on: the one asked for, else the first built one that an adapter runs in, else any."""
    built = {info.name: info for info in infos if info.id}
    if wanted is not None:
        if wanted not in built:
            raise UsageError(f"image '{wanted}' is not built{suggest(wanted, built)}")
        return built[wanted]
    ours = [loaded.value.image for loaded in found.adapters()]
    return next((built[name] for name in [*ours, *built] if name in built), None)


def _floor(client: DockerClient, image: ImageInfo | None) -> list[Row]:
    if image is None or image.id is None:
        return [("floor", "not measured: no image is built")]
    import requests
    from docker.errors import DockerException

    from runner.sandbox.floor import floor

    err(f"measuring the engine's floor on {image.name} ...")
    try:
        measured = floor(client, image.id)
    except (DockerException, requests.RequestException, OSError) as error:
        raise InfraError(f"the engine's floor cannot be measured on {image.name}: {error}") from error
    parts = " + ".join(
        f"{name} {value:.1f}"
        for name, value in (
            ("create", measured.create_ms),
            ("start", measured.start_ms),
            ("wait", measured.wait_ms),
            ("remove", measured.remove_ms),
        )
    )
    return [
        (f"floor on {image.name}", f"{measured.total_ms:.1f} ms ({parts}; medians, n={measured.n})"),
        ("attach echo", f"{measured.attach_echo_ms:.2f} ms"),
    ]


def clean() -> int:
    """Remove containers, volumes and networks that dead processes of acpbench left behind, and nothing else."""
    from runner.sandbox.reaper import reap

    with engine() as client:
        reaped = reap(client)
    for name in reaped.containers:
        out(f"container {name}")
    for name in reaped.volumes:
        out(f"volume {name}")
    for name in reaped.networks:
        out(f"network {name}")
    counts = f"{len(reaped.containers)} container(s), {len(reaped.volumes)} volume(s)"
    err(f"{counts} and {len(reaped.networks)} network(s) removed")
    if reaped.failed:
        raise InfraError("; ".join(reaped.failed))
    return 0
