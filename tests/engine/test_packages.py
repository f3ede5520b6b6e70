"""npm and pip in the build stage's image, against the registries that the machine is set to use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from runner.config.catalog import Catalog
from runner.errors import BuildError, UsageError
from runner.packages.check import check, pins
from runner.packages.clients import Clients
from runner.packages.pin import pin
from runner.sandbox.images import Images
from runner.sandbox.pins import packages
from tests.engine.lab import REPOSITORY

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(300)]

#: Two small packages that need no others, as if they were agents.
CONFIG = """\
# Speaks of {version} alone.
id: {name}@{version}
title: An adapter of {package} {version}
image: {name}-{version}
dialect: anthropic
packages:
  - registry: {registry}
    name: {package}
    version: "{version}"
# Left as it is.
programs:
  # That {version} is what it says.
  # (And more of this comment.)
  - {{ name: own, command: {command}, expect: "version {version}" }}
acp: {{ command: [own], binary: /own }}
tools: {{}}
"""
NPM_DOCKERFILE = (REPOSITORY / "images/zed-claude-code-acp-0.16.2/Dockerfile").read_text("utf-8")
PYPI_DOCKERFILE = (REPOSITORY / "images/mistral-vibe-3.0.2/Dockerfile").read_text("utf-8")
NPM_SAYS = ["/opt/node/bin/node", "-p", "'version ' + require('/opt/agent/node_modules/semver/package.json').version"]
PYPI_SAYS = ["/opt/agent/bin/python3", "-c", "import idna; print('version', idna.__version__)"]
#: The wheel of idna 3.7.
IDNA = "idna==3.7 \\\n    --hash=sha256:82fee1fc78add43492d3a1898bfa6d8a904cc97d8427f683ed8e798d07761aa0\n"


@pytest.fixture
def root(tmp_path: Path, engine: docker.DockerClient) -> Iterator[Path]:
    """A root with `tiny@7.6.0` (npm) and `small@3.7` (PyPI)."""
    for below in ("configs/adapters", "images", "fixtures"):
        (tmp_path / below).mkdir(parents=True)
    for name in ("base", "npm", "node"):
        (tmp_path / "images" / name).symlink_to(REPOSITORY / "images" / name)
    for name, version, registry, package, command, dockerfile in (
        ("tiny", "7.6.0", "npm", "semver", NPM_SAYS, NPM_DOCKERFILE),
        ("small", "3.7", "pypi", "idna", PYPI_SAYS, PYPI_DOCKERFILE),
    ):
        folder = tmp_path / "images" / f"{name}-{version}"
        folder.mkdir()
        (folder / "image.yaml").write_text(f"title: {package} {version}\n")
        (folder / "Dockerfile").write_text(dockerfile)
        said = json.dumps(command)
        text = CONFIG.format(name=name, version=version, registry=registry, package=package, command=said)
        (tmp_path / f"configs/adapters/{name}-{version}.yaml").write_text(text)
    manifest = {"name": "acpbench-tiny-7.6.0", "private": True, "dependencies": {"semver": "7.6.0"}}
    (tmp_path / "images/tiny-7.6.0/package.json").write_text(json.dumps(manifest))
    (tmp_path / "images/small-3.7/requirements.txt").write_text(IDNA)
    yield tmp_path
    for name, recipe in Images(engine, tmp_path).recipes.items():
        if name.startswith(("tiny", "small")) and engine.images.list(recipe.reference):
            engine.api.remove_image(recipe.reference)


@pytest.fixture
def clients(engine: docker.DockerClient, root: Path) -> Clients:
    return Clients(engine, Images(engine, root))


def say(_: str) -> None:
    """Nobody listens."""


def test_an_npm_version_is_made_built_and_verified(root: Path, engine: docker.DockerClient, clients: Clients) -> None:
    made = pin("tiny@7.6.3", Catalog(root), engine, clients, say)
    assert (made.base, made.adapter.id) == ("tiny@7.6.0", "tiny@7.6.3")
    assert "semver" in made.changed
    (locked,) = packages(root / "images/tiny-7.6.3")
    assert (locked.name, locked.version) == ("semver", "7.6.3")
    assert locked.integrity.startswith("sha512-")
    text = CONFIG.format(name="tiny", version="7.6.3", registry="npm", package="semver", command=json.dumps(NPM_SAYS))
    text = text.replace("# Speaks of 7.6.3 alone.", "# Made from tiny@7.6.0 by `acpbench adapters pin`.")
    # A comment that spoke of the old version is gone as a whole.
    text = text.replace("  # That 7.6.3 is what it says.\n  # (And more of this comment.)\n", "")
    assert made.config.read_text() == text
    with pytest.raises(UsageError, match=r"tiny@7.6.3 is there already"):
        pin("tiny@7.6.3", Catalog(root), engine, clients, say)


def test_a_pypi_version_is_made_built_and_verified(root: Path, engine: docker.DockerClient, clients: Clients) -> None:
    made = pin("small@3.10", Catalog(root), engine, clients, say)
    assert made.changed == {"idna": ("3.7", "3.10")}
    assert [(one.name, one.version) for one in packages(root / "images/small-3.10")] == [("idna", "3.10")]
    assert made.adapter.programs[0].expect == "version 3.10"


def test_a_version_that_is_not_there_leaves_nothing(root: Path, engine: docker.DockerClient, clients: Clients) -> None:
    before = sorted(root.rglob("*"))
    with pytest.raises(BuildError, match=r"semver@7\.999\.0: no lock could be made: npm error .*"):
        pin("tiny@7.999.0", Catalog(root), engine, clients, say)
    assert sorted(path for path in root.rglob("*") if ".cache" not in path.parts) == [
        path for path in before if ".cache" not in path.parts
    ]
    with pytest.raises(UsageError, match="no version of 'tinny' to make another from; did you mean 'tiny'"):
        pin("tinny@1.0.0", Catalog(root), engine, clients, say)
    with pytest.raises(UsageError, match="must be written <adapter>@<version>"):
        pin("tiny", Catalog(root), engine, clients, say)


def test_the_registries_are_asked_about_the_pins(root: Path, clients: Clients) -> None:
    small, tiny = check(pins([one.value for one in Catalog(root).adapters()])[::-1], clients)
    assert (tiny.pinned.name, small.pinned.name) == ("semver", "idna")
    for found in (tiny, small):
        assert (found.problem, found.yanked, found.ok) == (None, False, True)
        assert found.newest is not None
        assert (found.behind or 0) > 0


def test_registries_that_cannot_be_reached_are_said_to_be(
    root: Path, engine: docker.DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", "http://127.0.0.1:1/")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    cut_off = Clients(engine, Images(engine, root))
    for found in check(pins([one.value for one in Catalog(root).adapters()]), cut_off):
        assert found.problem is not None
        assert (found.newest, found.behind, found.deprecated, found.yanked, found.ok) == (None, None, None, None, False)
