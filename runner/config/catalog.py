"""What can be named in a sweep: adapters, surfaces, fixtures, models.

An id is looked up by file: `configs/adapters/<on_disk(id)>.yaml`, `configs/surfaces/...`, `configs/models/...`
(scripts, and live models where it says `kind: upstream`), `configs/cassettes/<on_disk(id)>/cassette.yaml`,
`fixtures/<on_disk(id)>/fixture.yaml` with the fixture's tree in `tree/` beside it. The id *in* the file decides.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import runner
from runner.config.adapter import PLACEHOLDERS, Adapter, Launch
from runner.config.base import on_disk
from runner.config.cassette import NORMALISER_VERSION, Cassette
from runner.config.fixture import CANARY, Fixture
from runner.config.gate import Gate
from runner.config.loader import LoadedFile, load, raise_all
from runner.config.nearest import quoted, suggest
from runner.config.normaliser import Normaliser
from runner.config.script import Script
from runner.config.source import read_source, shown
from runner.config.startable import server_faults, start_faults
from runner.config.surface import Surface
from runner.config.upstream import Upstream
from runner.errors import ConfigError, UsageError

#: File and 1-based line of what refers to an id; None: the command line does.
At = tuple[Path, int | None]

#: Kinds of model -> what stands behind the name.
MODEL_KINDS = {"scripted": "<script>", "replay": "<cassette>", "capture": "<upstream>", "live": "<upstream>"}

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@-]{0,119}")
#: Folders that make a directory the root of a checkout.
_ROOT_FOLDERS = ("configs", "fixtures", "images")

#: Values of placeholders as long as those of a run.
_TYPICAL = dict.fromkeys(PLACEHOLDERS, "x" * 200)

M = TypeVar("M", Adapter, Surface, Fixture, Script, Gate, Upstream, Cassette)


@dataclass(frozen=True)
class _Shelf(Generic[M]):
    """Where files of one kind stand below the root."""

    noun: str
    model: type[M]
    folder: str
    #: File of an id, below `folder`.
    pattern: str = "{name}.yaml"
    #: Value of the key `kind` of its files, where a folder holds several kinds.
    kind: str | None = None

    def file(self, root: Path, name: str) -> Path:
        return root / self.folder / self.pattern.format(name=on_disk(name))

    def files(self, root: Path) -> list[Path]:
        found = sorted((root / self.folder).glob(self.pattern.format(name="*")))
        return [path for path in found if self.kind is None or _kind(path) == self.kind]


_ADAPTERS = _Shelf("adapter", Adapter, "configs/adapters")
_SURFACES = _Shelf("surface", Surface, "configs/surfaces")
_SCRIPTS = _Shelf("script", Script, "configs/models", kind="scripted")
_GATES = _Shelf("gate", Gate, "configs/gates")
_UPSTREAMS = _Shelf("upstream", Upstream, "configs/models", kind="upstream")
_CASSETTES = _Shelf("cassette", Cassette, "configs/cassettes", "{name}/cassette.yaml")
_FIXTURES = _Shelf("fixture", Fixture, "fixtures", "{name}/fixture.yaml")


def _kind(path: Path) -> str:
    """What a file of configs/models is; one that cannot be read is a script, whose reader says what is wrong."""
    try:
        kind = read_source(path).data.get("kind")
    except ConfigError:
        return "scripted"
    return "upstream" if kind == "upstream" else "scripted"


def find_root(given: Path | None = None) -> Path:
    """The directory that holds configs/, fixtures/ and images/.

    `given` (option --root), else the environment's ACPBENCH_ROOT, else the current directory or the nearest parent
    that has them, else the checkout this package was started from. Raises UsageError where there is none.
    """
    named = given or (Path(os.environ["ACPBENCH_ROOT"]) if os.environ.get("ACPBENCH_ROOT") else None)
    if named is not None:
        missing = [name for name in _ROOT_FOLDERS if not (named / name).is_dir()]
        if missing:
            raise UsageError(f"{named}: not a root of acpbench: it has no folder {', '.join(missing)}")
        return named.absolute()
    here = Path.cwd()
    for folder in (here, *here.parents, Path(runner.__file__).resolve().parent.parent):
        if all((folder / name).is_dir() for name in _ROOT_FOLDERS):
            return folder
    raise UsageError(
        f"no folder with {', '.join(_ROOT_FOLDERS)} here or above; change into a checkout of acpbench or give --root"
    )


class Catalog:
    """Everything below a root that has an id. Files are read when asked for, once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._read: dict[Path, LoadedFile[Any]] = {}

    def adapter(self, name: str, at: At | None = None) -> Adapter:
        """The adapter of that id. Raises ConfigError at `at` with the nearest id, or at the fault in its own file."""
        return self._find(_ADAPTERS, name, at).value

    def surface(self, name: str, at: At | None = None) -> Surface:
        """The surface of that id. Raises as `adapter`."""
        return self._find(_SURFACES, name, at).value

    def script(self, name: str, at: At | None = None) -> Script:
        """The scripted model of that id (without `scripted/`). Raises as `adapter`."""
        return self._find(_SCRIPTS, name, at).value

    def gate(self, name: str, at: At | None = None) -> Gate:
        """The gate of that id. Raises as `adapter`."""
        return self._find(_GATES, name, at).value

    def loaded_gate(self, name: str) -> LoadedFile[Gate]:
        """The same with its lines."""
        return self._find(_GATES, name, None)

    def loaded_script(self, name: str) -> LoadedFile[Script]:
        """The same with its lines, for messages about its steps."""
        return self._find(_SCRIPTS, name, None)

    def script_file(self, path: Path) -> LoadedFile[Script]:
        """A script that may stand anywhere. Raises ConfigError (or ConfigErrors) for whatever is wrong with it."""
        loaded = load(path, Script)
        _check_script(loaded)
        return loaded

    def fixture(self, name: str, at: At | None = None) -> Fixture:
        """The fixture of that id, its tree's folder being there. Raises as `adapter`."""
        return self._find(_FIXTURES, name, at).value

    def loaded_fixture(self, name: str) -> LoadedFile[Fixture]:
        """The same with its lines, for messages about its prompt."""
        return self._find(_FIXTURES, name, None)

    def fixture_folder(self, name: str) -> Path:
        """The folder of a fixture's tree: what becomes the workspace."""
        return _FIXTURES.file(self.root, name).parent / "tree"

    def tests_folder(self, name: str) -> Path:
        """The folder of an isolated fixture's tests, which no agent sees."""
        return _FIXTURES.file(self.root, name).parent / "verify"

    def upstream(self, name: str, at: At | None = None) -> Upstream:
        """The live model of that id (without `live/` or `capture/`). Raises as `adapter`."""
        return self._find(_UPSTREAMS, name, at).value

    def loaded_upstream(self, name: str) -> LoadedFile[Upstream]:
        """The same with its lines, for messages about what it points to."""
        return self._find(_UPSTREAMS, name, None)

    def cassette(self, name: str, at: At | None = None) -> Cassette:
        """The cassette of that id (without `replay/`), its tapes being there. Raises as `adapter`."""
        return self._find(_CASSETTES, name, at).value

    def cassette_folder(self, name: str) -> Path:
        """The folder of a cassette and its tapes, there or not."""
        return _CASSETTES.file(self.root, name).parent

    def model(self, name: str, at: At | None = None) -> Script | Upstream | Cassette:
        """What stands behind a model's name (`scripted/<script>`, ...). Raises as `adapter`."""
        kind, slash, rest = name.partition("/")
        if not slash or not rest:
            raise _error(at, f"model {quoted(name)} must be written <kind>/<name>, for example scripted/fix-semver")
        if kind not in MODEL_KINDS:
            raise _error(at, f"unknown kind of model {quoted(kind)}{suggest(kind, MODEL_KINDS)}")
        if kind == "scripted":
            return self.script(rest, at)
        return self.cassette(rest, at) if kind == "replay" else self.upstream(rest, at)

    def adapters(self) -> list[LoadedFile[Adapter]]:
        """Every adapter, by file name. Raises ConfigErrors with the faults of all files."""
        return self._all(_ADAPTERS)

    def adapter_ids(self) -> list[str]:
        """The ids of all adapters that are there, readable or not; none of their files counts as read."""
        return list(Catalog(self.root)._ids(_ADAPTERS))

    def scripts(self) -> list[LoadedFile[Script]]:
        """Every scripted model, by file name. Raises as `adapters`."""
        return self._all(_SCRIPTS)

    def sources(self) -> dict[str, str]:
        """Path below the root -> sha256 (hex) of every file read so far."""
        return {
            path.relative_to(self.root).as_posix(): hashlib.sha256(loaded.source.raw).hexdigest()
            for path, loaded in sorted(self._read.items())
        }

    def _all(self, shelf: _Shelf[M]) -> list[LoadedFile[M]]:
        errors: list[ConfigError] = []
        found: list[LoadedFile[M]] = []
        for path in shelf.files(self.root):
            try:
                found.append(self._load(shelf, path))
            except ConfigError as error:
                errors.append(error)
        raise_all(errors)
        return found

    def _load(self, shelf: _Shelf[M], path: Path) -> LoadedFile[M]:
        if path not in self._read:
            loaded = load(path, shelf.model)
            self._check(shelf, path, loaded)
            self._read[path] = loaded
        return self._read[path]

    def _check(self, shelf: _Shelf[M], path: Path, loaded: LoadedFile[M]) -> None:
        """What one file must keep to beyond its model."""
        value = loaded.value
        expected = shelf.file(self.root, value.id)
        if expected != path:
            raise loaded.error(("id",), f"the id {quoted(value.id)} belongs in {shown(expected)}")
        if isinstance(value, Script):
            _check_script(loaded)
        if isinstance(value, Surface) and value.toolbox is not None:
            self._image(value.toolbox, loaded, "toolbox")
        if isinstance(value, Surface) and value.transport != "acp" and value.client_capabilities.as_json():
            raise loaded.error(("client_capabilities",), "client_capabilities are of transport acp only")
        if isinstance(value, Surface):
            _check_servers(loaded, value)
        if isinstance(value, Adapter):
            _check_launches(loaded, value)
            if value.acp is None and value.cli is None:
                raise loaded.error((), "the adapter has neither 'acp' nor 'cli'; nothing can start it")
            self._image(value.image, loaded, "image")
        if isinstance(value, Upstream | Cassette | Adapter):
            for index, rule in enumerate(value.normalisers):
                if isinstance(rule, Normaliser) and rule.fault is not None:
                    raise loaded.error(("normalisers", index, "pattern"), rule.fault)
        if isinstance(value, Upstream) and value.address not in value.allow:
            raise loaded.error(("allow",), f"the list lacks the model's own address, {quoted(value.address)}")
        if isinstance(value, Cassette):
            if value.normaliser_version != NORMALISER_VERSION:
                message = f"captured with normalisers of version {value.normaliser_version}"
                raise loaded.error(
                    ("normaliser_version",), f"{message}, these are {NORMALISER_VERSION}: capture it anew"
                )
            for index, tape in enumerate(value.tapes):
                if not (path.parent / tape.file).is_file():
                    raise loaded.error(("tapes", index, "file"), f"there is no file {shown(path.parent / tape.file)}")
        if isinstance(value, Fixture):
            self._fixture(path, loaded, value)

    def _image(self, name: str, loaded: LoadedFile[M], key: str) -> None:
        if not (self.root / "images" / name).is_dir():
            names = [folder.name for folder in sorted((self.root / "images").iterdir()) if folder.is_dir()]
            raise loaded.error((key,), f"unknown image {quoted(name)}{suggest(name, names)}")

    def _fixture(self, path: Path, loaded: LoadedFile[M], fixture: Fixture) -> None:
        if not self.fixture_folder(fixture.id).is_dir():
            raise loaded.error((), f"the fixture's tree is missing: there is no folder {shown(path.parent / 'tree')}")
        if fixture.verify.isolated and not self.tests_folder(fixture.id).is_dir():
            folder = shown(path.parent / "verify")
            raise loaded.error(("verify", "isolated"), f"the tests are missing: there is no folder {folder}")
        for index, outside in enumerate(fixture.outside):
            unknown = [name for name in CANARY.findall(outside.content or "") if name not in fixture.canaries]
            if unknown:
                message = f"unknown canary {quoted(unknown[0])}{suggest(unknown[0], fixture.canaries)}"
                raise loaded.error(("outside", index, "content"), message)

    def _find(self, shelf: _Shelf[M], name: str, at: At | None) -> LoadedFile[M]:
        path = shelf.file(self.root, name)
        if _ID.fullmatch(name) and path in shelf.files(self.root):
            loaded = self._load(shelf, path)
            if loaded.value.id == name:
                return loaded
        hint = suggest(name, self._ids(shelf))
        raise _error(at, f"unknown {shelf.noun} {quoted(name)}{hint} (in {shown(self.root / shelf.folder)})")

    def _ids(self, shelf: _Shelf[M]) -> Iterator[str]:
        """Ids that are there, for a message: those of files that are broken are taken from their names."""
        for path in shelf.files(self.root):
            try:
                yield self._load(shelf, path).value.id
            except ConfigError:
                yield path.parent.name if "/" in shelf.pattern else path.stem


def _check_servers(loaded: LoadedFile[Any], surface: Surface) -> None:
    for place, fault in server_faults(surface.mcp_servers):
        raise loaded.error(("mcp_servers", *place), f"no agent can start this server: {fault}")


def _check_launches(loaded: LoadedFile[Any], adapter: Adapter) -> None:
    for transport in ("acp", "cli"):
        for what, fault in _start_faults(adapter, transport, ""):
            raise loaded.error((transport,), f"{what}: {fault}")


def prompt_fault(adapter: Adapter, transport: str, prompt: str) -> str | None:
    """Why an adapter cannot be started with a prompt, and what to do; None: it can."""
    fault = next(iter(_start_faults(adapter, transport, prompt)), None)
    if fault is None:
        return None
    message = (
        f"adapter {quoted(adapter.id)} cannot be started with this prompt over {transport}: {fault[0]}: {fault[1]}"
    )
    return f"{message}; shorten it, or give it by 'prompt: stdin' or 'prompt: file' in the adapter's '{transport}'"


def _start_faults(adapter: Adapter, transport: str, prompt: str) -> list[tuple[str, str]]:
    launch: Launch | None = getattr(adapter, transport)
    if launch is None:
        return []
    started = launch.filled({**_TYPICAL, "prompt": prompt}, adapter)
    return list(start_faults(started.argv, started.env))


def _check_script(loaded: LoadedFile[Any]) -> None:
    raise_all([loaded.error(place, problem) for place, problem in loaded.value.problems()])


def _error(at: At | None, problem: str) -> UsageError:
    return ConfigError(at[0], at[1], problem) if at is not None else UsageError(problem)
