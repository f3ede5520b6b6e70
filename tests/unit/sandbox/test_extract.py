"""Schemas out of tars and caches."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import docker
import pytest
from docker.errors import NotFound

from runner.errors import BuildError
from runner.sandbox import extract

IMAGE = "sha256:" + "ab" * 32


def tar_of(files: dict[str, bytes], *links: tuple[str, str]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        for name, target in links:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return packed.getvalue()


class Engine:
    """An image whose folder /sdk holds package.json and schema/."""

    def __init__(self, version: str, schemas: dict[str, bytes]) -> None:
        self.fetched: list[str] = []
        self._parts = {
            "/sdk/package.json": tar_of({"package.json": json.dumps({"version": version}).encode()}),
            "/sdk/schema": tar_of(schemas),
        }
        self.api = SimpleNamespace(get_archive=self._archive)

    def _archive(self, _container: str, path: str) -> tuple[Iterator[bytes], dict[str, object]]:
        self.fetched.append(path)
        if path not in self._parts:
            raise NotFound(path)
        return iter([self._parts[path]]), {}


def take(engine: Engine, cache: Path, sdk: str = "/sdk") -> tuple[str, Path]:
    client: docker.DockerClient = engine  # type: ignore[assignment]
    return extract.schema(client, cache, IMAGE, sdk)


@pytest.fixture(autouse=True)
def _no_container(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def created(*_: object, **__: object) -> Iterator[str]:
        yield "container"

    monkeypatch.setattr(extract, "created", created)


def test_the_folder_of_protocol_version_1_wins(tmp_path: Path) -> None:
    engine = Engine("2.4.0", {"schema/v1/schema.json": b"1", "schema/v2/schema.json": b"2", "schema/schema.json": b"0"})
    version, path = take(engine, tmp_path)
    assert (version, path.read_bytes()) == ("2.4.0", b"1")


def test_an_older_sdk_has_one_file(tmp_path: Path) -> None:
    version, path = take(
        Engine("1.3.0", {"schema/schema.json": b"1", "schema/v2/schema.unstable.json": b"2"}), tmp_path
    )
    assert (version, path.read_bytes()) == ("1.3.0", b"1")


def test_the_second_time_nothing_is_fetched(tmp_path: Path) -> None:
    engine = Engine("1.3.0", {"schema/schema.json": b"1"})
    first = take(engine, tmp_path)
    engine.fetched.clear()
    assert take(engine, tmp_path) == first
    assert engine.fetched == []


def test_no_schema_of_version_1_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="ships no schema of protocol version 1"):
        take(Engine("9.0.0", {"schema/v9/schema.json": b"9"}), tmp_path)


def test_an_absent_folder_is_an_error_and_leaves_no_cache(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="cannot read /none"):
        take(Engine("1.3.0", {}), tmp_path, "/none")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_only_plain_json_files_inside_are_unpacked(tmp_path: Path) -> None:
    out = tmp_path / "out"
    packed = tar_of(
        {"schema/a.json": b"a", "../up.json": b"x", "/abs.json": b"x", "schema/run.js": b"x"},
        ("schema/link.json", "/etc/passwd"),
    )
    extract._unpack(packed, out)
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()] == ["out/schema/a.json"]


def test_digests_are_kept_by_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def output(_client: object, _image: str, command: list[str]) -> tuple[int, str]:
        asked.append(command)
        return 0, "".join(f"{len(path):064x}  {path}\0" for path in command[3:])

    monkeypatch.setattr(extract, "output", output)
    client = docker.DockerClient.__new__(docker.DockerClient)
    first = extract.digests(client, tmp_path, IMAGE, ["/a", "/b c"])
    assert first == {"/a": f"{2:064x}", "/b c": f"{4:064x}"}
    assert extract.digests(client, tmp_path, IMAGE, ["/b c", "/new"])["/b c"] == first["/b c"]
    assert [command[3:] for command in asked] == [["/a", "/b c"], ["/new"]]


def test_a_missing_file_has_no_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extract, "output", lambda *_: (1, "sha256sum: /none: No such file or directory\n"))
    client = docker.DockerClient.__new__(docker.DockerClient)
    with pytest.raises(BuildError, match="/none: No such file"):
        extract.digests(client, tmp_path, IMAGE, ["/none"])
    assert not list(tmp_path.rglob("*.json"))
