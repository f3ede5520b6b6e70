"""lock.json: every pin of a sweep as it was resolved, in a fixed order of keys, so that two locks compare as text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from runner import __version__
from runner.config.loaded_sweep import LoadedSweep
from runner.config.nearest import quoted
from runner.errors import UsageError

LOCK_VERSION = 1


@dataclass(frozen=True)
class ImagePin:
    """An image: `id` is the engine's digest of its configuration (`sha256:...`), `digest` a registry's, if any."""

    id: str
    digest: str | None = None


@dataclass(frozen=True)
class PackagePin:
    """A package inside an image; `integrity` as its lock states it (`sha512-...`)."""

    registry: str
    name: str
    version: str
    integrity: str | None = None


@dataclass(frozen=True)
class Binary:
    """The program behind a transport: its path in the image and its sha256 (hex)."""

    path: str
    sha256: str


@dataclass(frozen=True)
class AdapterPins:
    """What one adapter is made of. `programs`: name -> version as the program itself prints it in its image."""

    image: str
    packages: list[PackagePin] = field(default_factory=list)
    programs: Mapping[str, str] = field(default_factory=dict)
    #: Transport (`acp`, `cli`) -> its binary.
    binaries: Mapping[str, Binary] = field(default_factory=dict)

    @property
    def same_build(self) -> bool | None:
        """Whether all transports run the same binary; None where there are fewer than two."""
        hashes = [binary.sha256 for binary in self.binaries.values()]
        return len(set(hashes)) == 1 if len(hashes) > 1 else None


def build_lock(
    loaded: LoadedSweep,
    *,
    engine: Mapping[str, Any],
    kernel: str,
    guest_sha256: str,
    images: Mapping[str, ImagePin],
    adapters: Mapping[str, AdapterPins],
    gateway: Mapping[str, str],
    schemas: Mapping[str, Any],
    jobs: int,
) -> dict[str, Any]:
    """The lock of a sweep.

    engine: as `runner.sandbox.engine.describe` gives it. images: by folder under images/. adapters: by id, all of the
    sweep's. gateway: versions of what runs in it. schemas: versions of the protocol schemas frames are held against.
    jobs: runs at a time; more than one shares the machine, so it is pinned as a knob is.
    Raises KeyError for an adapter without pins.
    """
    sweep = loaded.sweep
    return {
        "lock_version": LOCK_VERSION,
        "acpbench": __version__,
        "sweep": sweep.id,
        "sweep_sha256": hashlib.sha256(loaded.source).hexdigest(),
        "seed": sweep.seed,
        "images": {name: asdict(images[name]) for name in sorted(images)},
        "adapters": {name: _adapter(adapters[name]) for name in sorted(loaded.adapters)},
        "fixtures": {name: _fixture(loaded, name) for name in sorted(loaded.fixtures)},
        # What decides a verdict beside the files.
        "verify": {
            name: {"timeout_s": fixture.verify.timeout_s, "limits": fixture.verify.limits.model_dump()}
            for name, fixture in sorted(loaded.fixtures.items())
        },
        "configs": dict(sorted(loaded.digests.items())),
        "policies": {name: policy.model_dump() for name, policy in sorted(loaded.policies.items())},
        "gateway": _sorted(gateway),
        "guest_sha256": guest_sha256,
        "schemas": _sorted(schemas),
        "streaming": {
            model: {**script.streaming.model_dump(), **script.latency.model_dump()}
            for model, script in sorted(loaded.scripts.items())
        },
        "models": _models(loaded),
        "limits": {name: adapter.limits.model_dump() for name, adapter in sorted(loaded.adapters.items())},
        "knobs": sweep.knobs.model_dump(),
        # What single entries of `arms` (from 0) set otherwise.
        "knobs_of_arms": {
            str(index): matrix.knobs.model_dump(exclude_unset=True)
            for index, matrix in enumerate(sweep.arms)
            if matrix.knobs is not None
        },
        # Said only where there is some: an older lock has no such key.
        **({"left_out": left_out} if (left_out := loaded.left_out()) else {}),
        "jobs": jobs,
        "starts": sweep.starts,
        "engine": _sorted(engine),
        "kernel": kernel,
    }


def _fixture(loaded: LoadedSweep, name: str) -> dict[str, Any]:
    """A fixture's pins; `tests_sha256` where its tests stand apart from its tree."""
    fixture = loaded.fixtures[name]
    pins = {"tree": fixture.tree, "commit": fixture.commit}
    return pins | ({"tests_sha256": _folder_sha256(loaded.tests[name])} if name in loaded.tests else {})


def _folder_sha256(folder: Path) -> str:
    """Over the names and contents of all files below a folder."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _models(loaded: LoadedSweep) -> dict[str, Any]:
    """What stands behind models that are no script: a cassette's tapes by digest, or an upstream without its key."""
    found: dict[str, Any] = {}
    for name, cassette in sorted(loaded.cassettes.items()):
        folder = loaded.cassette_folder(cassette.id)
        found[name] = {
            "timing": loaded.sweep.knobs.replay_timing,
            "captured": cassette.captured,
            "tapes": {
                tape.file: hashlib.sha256((folder / tape.file).read_bytes()).hexdigest() for tape in cassette.tapes
            },
        }
    for name, upstream in sorted(loaded.upstreams.items()):
        found[name] = upstream.model_dump(mode="json", by_alias=True, exclude={"kind", "title", "key"})
    return found


def _adapter(pins: AdapterPins) -> dict[str, Any]:
    return {
        "image": pins.image,
        "packages": [asdict(pin) for pin in sorted(pins.packages, key=lambda p: (p.registry, p.name, p.version))],
        "programs": _sorted(pins.programs),
        "binaries": {name: asdict(binary) for name, binary in sorted(pins.binaries.items())},
        "same_build": pins.same_build,
    }


def _sorted(value: Any) -> Any:
    """Mappings in key order, all the way down."""
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, (list, tuple)) else value


class _Read(BaseModel):
    """What readers of a lock rely on; the rest is compared as values, whatever it is."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)


class _Package(_Read):
    name: str
    version: str
    integrity: str | None


class _Program(_Read):
    sha256: str


class _Adapter(_Read):
    image: str | None = None
    packages: list[_Package] = []
    programs: dict[str, str] = {}
    binaries: dict[str, _Program] = {}


class _Image(_Read):
    id: str | None = None


class _Engine(_Read):
    name: str | None = None
    version: str | None = None
    arch: str | None = None
    cpus: int | None = None


class _Lock(_Read):
    sweep: str = ""
    acpbench: str | None = None
    jobs: int = 1
    kernel: str | None = None
    engine: _Engine = _Engine()
    images: dict[str, _Image] = {}
    adapters: dict[str, _Adapter] = {}
    configs: dict[str, str] = {}
    fixtures: dict[str, dict[str, Any]] = {}
    policies: dict[str, dict[str, Any]] = {}
    streaming: dict[str, dict[str, Any]] = {}
    models: dict[str, dict[str, Any]] = {}
    limits: dict[str, dict[str, Any]] = {}
    schemas: dict[str, Any] = {}


def check_lock(lock: dict[str, Any], path: Path) -> dict[str, Any]:
    """The lock that was read from `path`. Raises UsageError, naming it, for one of another version, or whose parts are
    not what they should be."""
    version = lock.get("lock_version", LOCK_VERSION)
    if type(version) is not int or version != LOCK_VERSION:
        message = f"has lock version {quoted(version)}; this acpbench reads {LOCK_VERSION}"
        raise UsageError(f"{path}: {message}: use the acpbench that wrote it ({quoted(lock.get('acpbench'))})")
    try:
        _Lock.model_validate(lock)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise UsageError(f"{path}: not a lock: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    return lock


def differences(old: Any, new: Any, at: str = "") -> Iterator[str]:
    """Every place where two JSON values differ, as `path: old -> new`."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            yield from differences(old.get(key), new.get(key), f"{at}.{key}" if at else str(key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (mine, theirs) in enumerate(zip(old, new, strict=True)):
            yield from differences(mine, theirs, f"{at}[{index}]")
    elif old != new:
        yield f"{at}: {_short(old)} -> {_short(new)}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
