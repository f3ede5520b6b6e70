"""What an adapter says it is made of is held against its image's locks."""

from __future__ import annotations

import pytest

from runner.config.adapter import Package
from runner.errors import BuildError
from runner.sandbox.images import ImageRef
from runner.sandbox.pins import InstalledPackage
from runner.sweep.resources import check_packages
from tests.unit.surfaces.stage import ADAPTER

HELD = (
    InstalledPackage("npm", "agent", "1.0.0", "sha512-a"),
    InstalledPackage("npm", "agent", "1.0.0-linux-x64", "sha512-b"),
    InstalledPackage("pypi", "some_agent", "2.0", "sha256:c"),
)


def demand(registry: str, name: str, version: str) -> None:
    package = Package.model_validate({"registry": registry, "name": name, "version": version})
    ref = ImageRef("agent-1", "sha256:1", "sha256:1", "tag", HELD)
    check_packages(ref, ADAPTER.model_copy(update={"packages": [package]}))


def test_pins_that_the_image_holds() -> None:
    demand("npm", "agent", "1.0.0")
    demand("npm", "agent", "1.0.0-linux-x64")  # an alias installs a platform's build under the same name
    demand("pypi", "Some.Agent", "2.0")


@pytest.mark.parametrize(
    ("registry", "name", "version", "words"),
    [
        ("npm", "agent", "1.0.1", "holds 1.0.0"),
        ("npm", "other", "1.0.0", "does not hold it"),
        ("pypi", "agent", "1.0.0", "not hold"),
    ],
)
def test_pins_that_it_does_not(registry: str, name: str, version: str, words: str) -> None:
    with pytest.raises(BuildError, match=words):
        demand(registry, name, version)
