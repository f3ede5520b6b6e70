"""A folder under images/ as a recipe: what it stands on, what goes in, and the tag that follows from both."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from runner.config.adapter import Program
from runner.config.base import Config
from runner.config.loader import load
from runner.config.nearest import suggest
from runner.errors import ConfigError, UsageError

#: Every image of ours is `acpbench/<folder>`.
REPOSITORY = "acpbench"
#: Goes into every tag: raised when the way of building changes what comes out.
FORMAT = b"acpbench-recipe-1"
#: Folders that are no input.
_IGNORED = frozenset({"node_modules", "__pycache__", "test", "tests"})

_FROM = re.compile(rf"^(FROM\s+|COPY\s+--from=){REPOSITORY}/([a-z0-9][a-z0-9._-]*)", re.MULTILINE)


class Debootstrap(Config):
    """A base image out of Debian packages (mmdebstrap)."""

    suite: str
    variant: str
    include: list[str] = Field(min_length=1)
    #: Folders emptied but for licence texts.
    strip: list[str] = []
    #: Files removed at the end.
    remove: list[str] = []
    #: SOURCE_DATE_EPOCH, seconds.
    epoch: int


class ImageSpec(Config):
    """images/<name>/image.yaml. An image is a Dockerfile unless it has a `debootstrap` section."""

    title: str
    debootstrap: Debootstrap | None = None
    #: What its programs must say of their own version (an adapter's image: see the adapter's own file).
    programs: list[Program] = []


@dataclass(frozen=True)
class Recipe:
    """One image to be. `parents`: our own images its Dockerfile names; `base`: the one its last stage stands on."""

    name: str
    folder: Path
    spec: ImageSpec
    parents: tuple[str, ...]
    base: str | None
    #: First 12 hex digits of the sha256 over the folder's files and the parents' tags.
    tag: str

    @property
    def reference(self) -> str:
        """`acpbench/<name>:<tag>`."""
        return f"{REPOSITORY}/{self.name}:{self.tag}"

    def files(self) -> dict[str, bytes]:
        """The folder's files, relative path -> content."""
        return {name: (self.folder / name).read_bytes() for name in _inputs(self.folder)}


def load_recipes(root: Path) -> dict[str, Recipe]:
    """Every folder of `root` that holds an image.yaml, by name.

    Raises ConfigError for a broken image.yaml, an unknown parent or a circle.
    """
    folders = {path.parent.name: path.parent for path in sorted(root.glob("*/image.yaml"))}
    recipes: dict[str, Recipe] = {}
    for name in folders:
        _load(name, folders, recipes, ())
    return recipes


def pick(recipes: Mapping[str, Recipe], name: str) -> Recipe:
    """The recipe of that name. Raises UsageError with the nearest valid name."""
    if name not in recipes:
        raise UsageError(f"unknown image '{name}'{suggest(name, recipes)}")
    return recipes[name]


def dockerfile(recipe: Recipe, recipes: Mapping[str, Recipe]) -> str:
    """The recipe's Dockerfile with every `acpbench/<name>` replaced by the exact tag that stands for it now."""
    text = _text(recipe.folder / "Dockerfile")
    return _FROM.sub(lambda match: match[1] + recipes[match[2]].reference, text)


def _load(name: str, folders: Mapping[str, Path], recipes: dict[str, Recipe], path: tuple[str, ...]) -> Recipe:
    if name in recipes:
        return recipes[name]
    folder = folders[name]
    spec = load(folder / "image.yaml", ImageSpec).value
    source = folder / "Dockerfile"
    found: list[tuple[int, str]] = []
    if spec.debootstrap is None:
        if not source.exists():
            raise ConfigError(folder / "image.yaml", 1, f"neither a debootstrap section nor {source.name} beside it")
        text = _text(source)
        found = [(text.count("\n", 0, match.start()) + 1, match[2]) for match in _FROM.finditer(text)]
    for line, parent in found:
        if parent not in folders:
            raise ConfigError(source, line, f"unknown image '{parent}'{suggest(parent, folders)}")
        if parent == name or parent in path:
            raise ConfigError(source, line, f"{name} stands on itself through {parent}")
    parents = tuple(dict.fromkeys(parent for _, parent in found))
    loaded = {parent: _load(parent, folders, recipes, (*path, name)) for parent in parents}
    base = _last_from(source) if spec.debootstrap is None else None
    digest = hashlib.sha256(FORMAT)
    for file in _inputs(folder):
        digest.update(f"\0{file}\0".encode() + hashlib.sha256((folder / file).read_bytes()).digest())
    for parent in sorted(loaded):
        digest.update(f"\0{loaded[parent].reference}".encode())
    recipes[name] = Recipe(name, folder, spec, parents, base, digest.hexdigest()[:12])
    return recipes[name]


def _text(source: Path) -> str:
    try:
        return source.read_text("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(source, None, "is not UTF-8") from None


def _last_from(source: Path) -> str | None:
    """Our image under the last stage; None where that is another one or `scratch`."""
    last = [line for line in _text(source).splitlines() if line.startswith("FROM")][-1:]
    match = _FROM.match(last[0]) if last else None
    return match[2] if match else None


def _inputs(folder: Path) -> list[str]:
    """The relative paths of a folder's files, sorted; hidden ones and those of tests are no input."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(
        path.as_posix()
        for path in paths
        if not any(part in _IGNORED or part.startswith(".") for part in path.parts) and ".test." not in path.name
    )
