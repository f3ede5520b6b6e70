"""Our images: found by tag, built where missing, checked against their pins, pruned."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import requests
from docker.errors import APIError, DockerException, ImageNotFound

from runner.config.adapter import Adapter, Program
from runner.errors import BuildError
from runner.sandbox import extract, host
from runner.sandbox.build import LABEL, Progress, build
from runner.sandbox.engine import retrying
from runner.sandbox.pins import InstalledPackage, packages
from runner.sandbox.recipe import REPOSITORY, Recipe, load_recipes, pick
from runner.sandbox.throwaway import output

#: The repository this module stands in: images/ is there, and .cache/.
ROOT = Path(__file__).resolve().parents[2]
#: Image that holds the newest stable ACP SDK's schemas.
NEWEST_SDK = "acp-sdk"
#: What every sweep needs, beside its adapters' images.
NEEDED = ("base", "gateway", NEWEST_SDK)


@dataclass(frozen=True)
class ImageRef:
    """An image that is there. `id`: the engine's `sha256:...`, what containers are created from; `digest`: a registry's
    digest where the image has one, else `id`; `packages`: what its lock and those of the images under it install."""

    name: str
    id: str
    digest: str
    tag: str
    packages: tuple[InstalledPackage, ...] = ()

    @property
    def reference(self) -> str:
        return f"{REPOSITORY}/{self.name}:{self.tag}"


@dataclass(frozen=True)
class ImageInfo:
    """One row of `acpbench images list`. Sizes in 10^6 bytes; `own_mb`: what it adds to the image it stands on;
    `shared_layers` of `layers` are that image's. All null or 0 where it is not built."""

    name: str
    title: str
    tag: str
    id: str | None = None
    size_mb: int | None = None
    own_mb: int | None = None
    layers: int = 0
    shared_layers: int = 0


@dataclass(frozen=True)
class Stated:
    """What a program printed when it was asked for its version."""

    image: str
    program: str
    expect: str
    printed: str


#: Inside the class below `list` is its method.
ImageInfos = list[ImageInfo]
Answers = list[Stated]
References = list[str]


class Images:
    """The images under `root`/images on one engine; `root`/.cache keeps what is taken out. Default: the repository."""

    def __init__(self, client: docker.DockerClient, root: Path | None = None) -> None:
        self._client = client
        self._root = root or ROOT
        self.cache = self._root / ".cache"
        self.recipes = load_recipes(self._root / "images")

    def find(self, name: str) -> ImageRef | None:
        """The image as its recipe says now, or None where it is not built. Raises UsageError for an unknown name."""
        recipe = pick(self.recipes, name)
        found = self._inspect(recipe)
        if found is None:
            return None
        image_id = str(found["Id"])
        digest = next(iter(found.get("RepoDigests") or []), image_id).rpartition("@")[2]
        return ImageRef(name, image_id, digest, recipe.tag, self._packages(recipe))

    def _packages(self, recipe: Recipe) -> tuple[InstalledPackage, ...]:
        """What is installed in an image's final stage: its own lock's packages and those of the images it stands on."""
        installed_packages: set[InstalledPackage] = set()
        standing: Recipe | None = recipe
        while standing is not None:
            installed_packages.update(packages(standing.folder))
            standing = self.recipes[standing.base] if standing.base else None
        return tuple(sorted(installed_packages))

    def ensure(self, name: str, progress: Progress | None = None) -> ImageRef:
        """The image, built first where it is missing. Raises BuildError, UsageError."""
        return self.build([name], progress)[0]

    def build(self, names: Iterable[str] | None = None, progress: Progress | None = None) -> list[ImageRef]:
        """The images of `names` (default: all), built where missing; a parent is built only where a child needs it.

        One builder at a time per checkout. `progress` is told each step as one line. Raises BuildError with the last
        lines of the build that broke, UsageError for an unknown name.
        """
        wanted = list(dict.fromkeys(self.recipes if names is None else names))
        refs = {name: self.find(name) for name in wanted}
        if None in refs.values():
            with self._lock():
                settings = host.detect_here()
                for name in wanted:
                    self._build(name, settings, progress or _silent)
            refs = {name: self.find(name) for name in wanted}
        lost = [name for name, ref in refs.items() if ref is None]
        if lost:
            raise BuildError(f"image {lost[0]} was built and is gone again; is another process pruning?")
        return [ref for ref in refs.values() if ref is not None]

    def list(self) -> ImageInfos:
        """Every image of ours, by name, built or not."""
        found = {name: self._inspect(recipe) for name, recipe in self.recipes.items()}
        return [self._info(recipe, found) for _, recipe in sorted(self.recipes.items())]

    def verify(self, names: Iterable[str], adapters: Sequence[Adapter] = ()) -> Answers:
        """Ask every program of the images for its version: those of image.yaml and those of the adapters they hold.

        Each is asked in a container of its own, without a network. Raises BuildError that names pin and answer at the
        first that differs, or where an image is not built.
        """
        asked: list[tuple[ImageRef, Program]] = []
        for name in dict.fromkeys(names):
            ref = self.find(name)
            if ref is None:
                raise BuildError(f"image {name} is not built; run `acpbench images build {name}`")
            own = list(self.recipes[name].spec.programs)
            for adapter in adapters:
                own += adapter.programs if adapter.image == name else []
            asked += [(ref, program) for program in own]
        with ThreadPoolExecutor(max_workers=4) as pool:
            return list(pool.map(lambda pair: self._ask(*pair), asked))

    def schemas(self, name: str, acp_sdk: str | None = None) -> dict[str, Path]:
        """ACP JSON Schemas of protocol version 1 by SDK version: the adapter's own and the newest stable one's.

        `acp_sdk`: the SDK's folder in the image `name` (an adapter's `acp_sdk`); None where it ships none. Taken out of
        the images once and kept under .cache/schemas/. Raises BuildError.
        """
        found: dict[str, Path] = {}
        places = [(NEWEST_SDK, "/sdk"), *([(name, acp_sdk)] if acp_sdk else [])]
        for image, folder in places:
            ref = self.ensure(image)
            with _named(ref):
                version, path = extract.schema(self._client, self.cache, ref.id, folder)
            # The adapter's own comes last and wins: it is what the adapter was built with.
            found[version] = path
        return found

    def digests(self, name: str, paths: Sequence[str]) -> dict[str, str]:
        """sha256 (hex) of files in an image, by path; kept under .cache/. Raises BuildError for a missing one."""
        ref = self.ensure(name)
        with _named(ref):
            return extract.digests(self._client, self.cache, ref.id, paths)

    def prune(self, keep: Iterable[str] | None = None) -> References:
        """Remove images of ours that are not current: other tags, and recipes not in `keep` (default: all are kept).

        Returns the removed references. Only images with our label and our repository name are looked at; one that a
        container uses is left alone. Raises BuildError where the engine fails.
        """
        kept = {pick(self.recipes, name).reference for name in (self.recipes if keep is None else keep)}
        removed = []
        try:
            for image in self._client.api.images(filters={"label": LABEL}):
                for reference in image.get("RepoTags") or []:
                    plain = reference.removeprefix("localhost/")
                    if plain.startswith(f"{REPOSITORY}/") and plain not in kept and self._remove(reference):
                        removed.append(plain)
        except (DockerException, requests.exceptions.RequestException) as error:
            raise BuildError(f"images cannot be pruned: {error}") from error
        return removed

    def _remove(self, reference: str) -> bool:
        try:
            self._client.api.remove_image(reference)
        except APIError as error:
            if error.status_code in (404, 409):
                return False
            raise
        return True

    @retrying
    def _inspect(self, recipe: Recipe) -> dict[str, Any] | None:
        try:
            return dict(self._client.images.get(recipe.reference).attrs)
        except ImageNotFound:
            return None

    def _build(self, name: str, settings: host.HostSettings, progress: Progress) -> None:
        """Build one image and, first, what it stands on, where they are missing."""
        recipe = self.recipes[name]
        if self._inspect(recipe) is not None:
            return
        for parent in recipe.parents:
            self._build(parent, settings, progress)
        began = time.monotonic()
        build(self._client, recipe, self.recipes, settings, progress)
        progress(f"{name}: built {recipe.reference} in {time.monotonic() - began:.1f} s")

    def _info(self, recipe: Recipe, found: dict[str, dict[str, Any] | None]) -> ImageInfo:
        image = found[recipe.name]
        if image is None:
            return ImageInfo(recipe.name, recipe.spec.title, recipe.tag)
        layers = image["RootFS"].get("Layers") or []
        under = found.get(recipe.base) if recipe.base else None
        below = (under["RootFS"].get("Layers") or []) if under else []
        size = int(image["Size"])
        return ImageInfo(
            recipe.name,
            recipe.spec.title,
            recipe.tag,
            str(image["Id"]),
            round(size / 1e6),
            round((size - (int(under["Size"]) if under else 0)) / 1e6),
            len(layers),
            sum(1 for mine, theirs in zip(layers, below, strict=False) if mine == theirs),
        )

    def _ask(self, ref: ImageRef, program: Program) -> Stated:
        try:
            code, printed = output(self._client, ref.id, program.command)
        except (DockerException, requests.exceptions.RequestException, TimeoutError) as error:
            raise BuildError(f"image {ref.name}: {program.name} cannot be asked for its version ({error})") from error
        said = printed.strip()
        if code != 0 or program.expect not in said:
            shown = said[:200] or "nothing"
            raise BuildError(
                f"image {ref.name}: {program.name} is pinned to {program.expect!r} but printed {shown!r} (exit {code})"
            )
        line = next((line for line in said.splitlines() if program.expect in line), said)
        return Stated(ref.name, program.name, program.expect, line.strip())

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """One builder at a time: two would build the same image twice."""
        self.cache.mkdir(parents=True, exist_ok=True)
        with (self.cache / "images.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


@contextmanager
def _named(ref: ImageRef) -> Iterator[None]:
    """Errors say an image's name: its id is what is cached by, and tells a user nothing."""
    try:
        yield
    except BuildError as error:
        raise BuildError(str(error).replace(ref.id, ref.name)) from error


def _silent(line: str) -> None:
    """Progress for nobody."""
