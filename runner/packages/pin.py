"""A new version of an adapter, made from the nearest one that is there: configuration, lock, image, verified.

The configuration is the old file with the versions changed line by line, so that its comments stay; a comment that
speaks of an old version goes. The lock is npm's or pip's own, written in the build stage's image.
"""

from __future__ import annotations

import fcntl
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import docker
import requests
from docker.errors import DockerException

from runner.config.adapter import Adapter, Program
from runner.config.base import on_disk
from runner.config.catalog import Catalog
from runner.config.loader import LoadedFile, load
from runner.config.nearest import suggest
from runner.errors import BuildError, UsageError
from runner.packages.clients import ClientRun, Clients
from runner.packages.versions import inside, nearest
from runner.sandbox.images import ImageInfo, Images
from runner.sandbox.pins import canonical, packages
from runner.sandbox.throwaway import output

_NPM_LOCK = (
    "npm install --package-lock-only --ignore-scripts --omit=dev --no-audit --no-fund"
    " --omit-lockfile-registry-resolved --loglevel=error"
)
#: Resolved for the Python of our images, wheels alone; the report holds every hash.
_PIP_REPORT = (
    "python3 -m venv /tmp/venv && /tmp/venv/bin/pip install --quiet --dry-run --ignore-installed --only-binary :all:"
    " --report report.json {requirement} >&2"
)


@dataclass(frozen=True)
class Made:
    """A new version. `changed`: package -> (old, new version) of all that the locks differ in, None: not there."""

    adapter: Adapter
    config: Path
    image: ImageInfo
    base: str
    changed: Mapping[str, tuple[str | None, str | None]]


def pin(
    name: str, catalog: Catalog, client: docker.DockerClient, clients: Clients, progress: Callable[[str], None]
) -> Made:
    """Make adapter `name` (`<adapter>@<version>`) in the catalog's root, build and verify it.

    Whatever fails, nothing of it is left; what one that was killed left goes first. Raises UsageError (it is there
    already, nothing to make it from), BuildError.
    """
    wanted, image = _parted(name), on_disk(name)
    config = catalog.root / "configs" / "adapters" / f"{image}.yaml"
    folder = catalog.root / "images" / image
    mark = catalog.root / ".cache" / "pins" / image
    with writing(name), _unfinished(mark, name, config, folder):
        loaded = _nearest(name, catalog)
        check_source(catalog.root / "images", loaded.value)
        progress(f"from {loaded.value.id}: {loaded.value.packages[0].name} {wanted}")
        return _made(name, wanted, loaded, config, folder, client, clients, progress)


@contextmanager
def writing(what: str) -> Iterator[None]:
    """A disk that is full or may not be written is no version's fault, and none of ours: UsageError."""
    try:
        yield
    except requests.exceptions.RequestException:
        raise  # an OSError too, but the engine's
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise UsageError(f"{what}: cannot be written: {error.strerror or error}{where}") from error


@contextmanager
def _unfinished(mark: Path, name: str, config: Path, folder: Path) -> Iterator[None]:
    """While words stand in `mark`, the configuration and the folder are unfinished; a lock on it says that we live."""
    mark.parent.mkdir(parents=True, exist_ok=True)
    with mark.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{name}: another acpbench is making it") from None
        file.seek(0)
        try:
            if file.read():
                _remove(config, folder)
            for path in (config, folder):
                if path.exists():
                    raise UsageError(f"{path}: {name} is there already")
            file.write(f"{name}\n")
            file.flush()
            try:
                yield
            except BaseException:  # Ctrl-C too: what is left would stand in the way of the next attempt
                _remove(config, folder)
                raise
        finally:
            # Whoever waits at the door has this file open: it must find nothing in it.
            file.truncate(0)
            mark.unlink(missing_ok=True)


def _remove(config: Path, folder: Path) -> None:
    config.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _made(
    name: str,
    wanted: str,
    loaded: LoadedFile[Adapter],
    config: Path,
    folder: Path,
    client: docker.DockerClient,
    clients: Clients,
    progress: Callable[[str], None],
) -> Made:
    old, root = loaded.value, config.parents[2]
    source = root / "images" / old.image
    _make_image(source, folder, old, wanted, clients)
    images = Images(client, root)
    reference = images.ensure(folder.name, progress)
    versions = _versions(folder)
    said = {program.name: _said(client, reference.id, program) for program in old.programs}
    config.write_text(_rewritten(loaded, name, wanted, folder.name, versions, said), encoding="utf-8")
    adapter = load(config, Adapter).value
    images.verify([folder.name], [adapter])
    info = next(info for info in images.list() if info.name == folder.name)
    return Made(adapter, config, info, old.id, _changed(_versions(source), versions))


def _said(client: docker.DockerClient, image: str, program: Program) -> str:
    try:
        return output(client, image, program.command)[1]
    except (DockerException, requests.exceptions.RequestException, TimeoutError) as error:
        raise BuildError(f"{program.name} cannot be asked for its version ({error})") from error


def _parted(name: str) -> str:
    version = name.partition("@")[2]
    if not version or inside(version) != version:
        raise UsageError(f"'{name}' must be written <adapter>@<version>, for example claude@1.2.3")
    return version


def _nearest(name: str, catalog: Catalog) -> LoadedFile[Adapter]:
    """The adapter of the same name whose version is nearest: the newest that is not newer, else the oldest."""
    base, _, version = name.partition("@")
    family = {loaded.value.id.partition("@")[2]: loaded for loaded in catalog.adapters() if _base(loaded) == base}
    if not family:
        names = sorted({_base(loaded) for loaded in catalog.adapters()})
        raise UsageError(f"no version of '{base}' to make another from{suggest(base, names)}")
    return family[nearest(version, family) or next(iter(family))]


def _base(loaded: LoadedFile[Adapter]) -> str:
    return loaded.value.id.partition("@")[0]


def check_source(images: Path, adapter: Adapter) -> None:
    """Raise UsageError where an adapter's image is not made from its first package: then no other version can be."""
    own, folder = adapter.packages[0], images / adapter.image
    manifest, lock = folder / "package.json", folder / "requirements.txt"
    if own.registry == "npm":
        read = json.loads(manifest.read_text("utf-8")) if manifest.exists() else {}
        named, file = own.name in read.get("dependencies", {}), manifest
    else:
        locked = {canonical(package.name) for package in packages(folder) if package.registry == "pypi"}
        named = canonical(own.name) in locked
        file = lock
    if not named:
        raise UsageError(
            f"{adapter.id}: its first package, {own.name}, is not in {file}: it comes from no registry, and no other "
            "version of it can be made"
        )


def _make_image(source: Path, folder: Path, old: Adapter, version: str, clients: Clients) -> None:
    """The image's folder with a new lock."""
    own, before = old.packages[0], old.packages[0].version
    shutil.copytree(source, folder)
    spec = folder / "image.yaml"
    spec.write_text(_swapped(spec.read_text("utf-8"), before, version), encoding="utf-8")
    if own.registry == "pypi":
        (folder / "requirements.txt").write_text(_requirements(own.name, version, clients), encoding="utf-8")
        return
    manifest = json.loads((folder / "package.json").read_text("utf-8"))
    manifest["name"] = f"acpbench-{folder.name}"
    manifest["dependencies"][own.name] = version
    text = (json.dumps(manifest, indent=2) + "\n").encode()
    ran = clients.run(_NPM_LOCK, {"package.json": text}, ["package-lock.json"])
    _must(ran, f"{own.name}@{version}", "package-lock.json")
    (folder / "package.json").write_bytes(text)
    (folder / "package-lock.json").write_bytes(ran.files["package-lock.json"])


def _requirements(name: str, version: str, clients: Clients) -> str:
    ran = clients.run(_PIP_REPORT.format(requirement=f"{name}=={version}"), {}, ["report.json"])
    _must(ran, f"{name}=={version}", "report.json")
    lines = []
    for entry in json.loads(ran.files["report.json"])["install"]:
        digest = entry["download_info"]["archive_info"]["hashes"]["sha256"]
        lines.append(
            f"{entry['metadata']['name'].lower()}=={entry['metadata']['version']} \\\n    --hash=sha256:{digest}\n"
        )
    return "".join(sorted(lines))


def _must(ran: ClientRun, what: str, file: str) -> None:
    if ran.code != 0 or file not in ran.files:
        raise BuildError(f"{what}: no lock could be made: {ran.words}")


def _versions(folder: Path) -> dict[str, str]:
    """Package -> version of what a folder's locks install; of several versions in npm's tree, the outermost one."""
    found = {package.name: package.version for package in packages(folder)}
    lock = folder / "package-lock.json"
    if lock.exists():
        entries: dict[str, dict[str, Any]] = json.loads(lock.read_text("utf-8"))["packages"]
        for name in found:
            place = entries.get(f"node_modules/{name}")
            found[name] = place["version"] if place else found[name]
    return found


def _rewritten(
    loaded: LoadedFile[Adapter],
    name: str,
    wanted: str,
    image: str,
    versions: Mapping[str, str],
    said: Mapping[str, str],
) -> str:
    """The old file's text with the new versions."""
    old = loaded.value
    lines = loaded.source.raw.decode("utf-8").splitlines()
    swaps = [(old.packages[0].version, wanted)]

    def change(place: tuple[str | int, ...], before: str, after: str) -> None:
        index = loaded.source.line(place) - 1
        lines[index] = _swapped(lines[index], before, after)

    for index, package in enumerate(old.packages):
        after = wanted if index == 0 else versions.get(package.name, package.version)
        change(("packages", index, "version"), package.version, after)
        at = loaded.source.line(("packages", index, "version")) - 1
        # YAML would read 3.10 as a number.
        lines[at] = re.sub(r"(version: )(\d+(?:\.\d+)?)(?=\s|,|\}|$)", r'\1"\2"', lines[at])
        swaps.append((package.version, after))
    for index, program in enumerate(old.programs):
        pinned, printed = inside(program.expect), inside(said[program.name])
        if pinned is None or printed is None:
            raise BuildError(f"{program.name} of {name} printed no version: {said[program.name].strip()[:200]!r}")
        change(("programs", index, "expect"), pinned, printed)
        swaps.append((pinned, printed))
    lines[loaded.source.line(("id",)) - 1] = f"id: {name}"
    lines[loaded.source.line(("image",)) - 1] = f"image: {image}"
    for before, after in dict.fromkeys(swaps):
        change(("title",), before, after)
    gone = {before for before, after in swaps if before != after}
    kept = _without_comments_on(gone, lines)
    first = next(index for index, line in enumerate(kept) if line and not line.startswith("#"))
    return "\n".join([f"# Made from {old.id} by `acpbench adapters pin`.", *kept[first:]]) + "\n"


def _without_comments_on(words: set[str], lines: list[str]) -> list[str]:
    """The lines without the comments, each a run of whole comment lines, that hold one of `words`."""
    kept: list[str] = []
    for is_comment, run in groupby(lines, lambda line: line.lstrip().startswith("#")):
        block = list(run)
        if not (is_comment and any(word in line for line in block for word in words)):
            kept += block
    return kept


def _swapped(text: str, before: str, after: str) -> str:
    """`before`, where it stands as a version of its own, becomes `after`."""
    return re.sub(rf"(?<![\w.]){re.escape(before)}(?![\w]|\.\d)", after, text)


def _changed(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, tuple[str | None, str | None]]:
    names = sorted(old.keys() | new.keys())
    return {name: (old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)}
