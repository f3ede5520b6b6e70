"""What the registries say of every pin of ours, as it is kept with a sweep: the findings' row on dead package names."""

from __future__ import annotations

from typing import Any

import docker

from runner.config.catalog import Catalog
from runner.errors import BuildError
from runner.packages.check import check, everything
from runner.packages.clients import Clients, without_addresses
from runner.sandbox.images import Images

#: Seconds that a sweep waits for the registries.
LIMIT_S = 180.0


def answers(client: docker.DockerClient, images: Images, catalog: Catalog) -> dict[str, Any]:
    """What `acpbench adapters check --format json` prints: {"packages": [...], "problem": null}.

    `problem`: why nobody could be asked at all; a sweep goes on without. Raises ConfigErrors for adapters that cannot
    be read.
    """
    pinned = everything([loaded.value for loaded in catalog.adapters()], images.recipes)
    try:
        checked = check(pinned, Clients(client, images, limit_s=LIMIT_S))
    except BuildError as error:
        return {"packages": [], "problem": without_addresses(str(error))}
    return {"packages": [package.as_json() for package in checked], "problem": None}


def problem_of(said: dict[str, Any]) -> str | None:
    """Why no registry answered; None where one did."""
    if said["problem"] is not None:
        return str(said["problem"])
    problems = [package["problem"] for package in said["packages"]]
    return str(problems[0]) if problems and None not in problems else None
