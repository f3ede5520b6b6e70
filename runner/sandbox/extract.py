"""What is taken out of an image: ACP JSON Schemas, without starting it, and digests of files. Cached by image id."""

from __future__ import annotations

import io
import json
import os
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import docker
import requests
from docker.errors import DockerException

from runner.errors import BuildError
from runner.sandbox.throwaway import created, output

#: Where the ACP SDK keeps the schema of protocol version 1: since SDK 2 a folder per version, before that one file.
_SCHEMA_V1 = ("schema/v1/schema.json", "schema/schema.json")
#: More than any schema folder holds, bytes.
_CAP = 64 << 20


def schema(client: docker.DockerClient, cache: Path, image_id: str, sdk: str) -> tuple[str, Path]:
    """The ACP SDK's own version and the path of its JSON Schema of protocol version 1.

    `sdk`: the SDK's folder in the image. Cached by image id; `schema.unstable.json` may be beside the path. Raises
    BuildError where the image has no such folder.
    """
    folder = cache / "schemas" / image_id.rpartition(":")[2][:24] / PurePosixPath(sdk).relative_to("/")
    if not folder.exists():
        _fetch(client, image_id, sdk, folder)
    try:
        version = str(json.loads((folder / "package.json").read_text("utf-8"))["version"])
    except (OSError, ValueError, KeyError) as error:
        raise BuildError(f"image {image_id}: {sdk} is no npm package ({error})") from error
    for name in _SCHEMA_V1:
        if (folder / name).exists():
            return version, folder / name
    raise BuildError(f"image {image_id}: the ACP SDK {version} in {sdk} ships no schema of protocol version 1")


@contextmanager
def _engine(image_id: str, what: str) -> Iterator[None]:
    """Turn what the engine raises into a BuildError."""
    try:
        yield
    except (DockerException, requests.exceptions.RequestException, TimeoutError) as error:
        raise BuildError(f"image {image_id}: cannot read {what} ({error})") from error


def _fetch(client: docker.DockerClient, image_id: str, sdk: str, folder: Path) -> None:
    """Copy package.json and schema/*.json of an SDK into `folder`, which appears only when it is complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".new-") as work:
        new = Path(work) / "sdk"
        # A command is required, though it never runs: the image of the newest SDK holds no program at all.
        with _engine(image_id, sdk), created(client, image_id, ["none"]) as container:
            for part in ("package.json", "schema"):
                chunks, _ = client.api.get_archive(container, f"{sdk}/{part}")
                packed = bytearray()
                for chunk in chunks:
                    packed += chunk
                    if len(packed) > _CAP:
                        raise BuildError(f"image {image_id}: {sdk}/{part} is larger than {_CAP} bytes")
                _unpack(bytes(packed), new)
        try:
            new.rename(folder)
        except OSError:
            # Another process was first.
            if not folder.exists():
                raise


def _unpack(packed: bytes, folder: Path) -> None:
    """Write the plain JSON files of a tar; nothing else in it, and nothing that leads out."""
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        for member in tar:
            place = PurePosixPath(member.name)
            if not member.isfile() or place.suffix != ".json" or place.is_absolute() or ".." in place.parts:
                continue
            content = tar.extractfile(member)
            if content is not None:
                target = folder / place
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content.read())


def digests(client: docker.DockerClient, cache: Path, image_id: str, paths: Sequence[str]) -> dict[str, str]:
    """sha256 (hex) of files in an image, by path, links followed. Cached by image id.

    Raises BuildError for a missing file.
    """
    store = cache / "sha256" / f"{image_id.rpartition(':')[2]}.json"
    try:
        read = json.loads(store.read_text("utf-8"))
    except (OSError, ValueError):
        read = None
    known: dict[str, str] = read if isinstance(read, dict) else {}
    missing = [path for path in dict.fromkeys(paths) if path not in known]
    if missing:
        with _engine(image_id, ", ".join(missing)):
            code, printed = output(client, image_id, ["sha256sum", "--zero", "--", *missing])
        if code != 0:
            raise BuildError(f"image {image_id}: {printed.replace(chr(0), ' ').strip()}")
        for entry in printed.split("\0"):
            digest, _, path = entry.partition("  ")
            if path:
                known[path] = digest
        store.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=store.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(known, file, indent=1, sort_keys=True)
        Path(name).replace(store)
    return {path: known[path] for path in paths}
