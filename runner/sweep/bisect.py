"""The first version of an adapter with another value of an exact metric, found in log2 steps.

Versions come from the registry; each that is looked at is pinned in a root of its own (below .cache/), built and run.
The answer is confirmed: the version found and its predecessor are each run a second time.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

import docker

from runner.config.adapter import Adapter
from runner.config.base import on_disk
from runner.config.catalog import Catalog
from runner.config.loaded_sweep import load_sweep
from runner.config.loader import LoadedFile
from runner.config.nearest import quoted, suggest
from runner.config.plan import plan
from runner.errors import BuildError, UsageError
from runner.packages.clients import Clients
from runner.packages.pin import check_source, pin, writing
from runner.packages.versions import releases
from runner.sandbox.images import Images
from runner.sweep.progress import PlainProgress
from runner.sweep.sweep import Options, run_sweep

Say = Callable[[str], None]


@dataclass(frozen=True)
class MeasuredVersion:
    """One version: the metric's value (null: not applicable) and how its run ended. `problem`: it could not be run."""

    version: str
    value: Any = None
    outcome: str = ""
    problem: str | None = None


class MeasureVersion(Protocol):
    """Measures one version; `again` asks for a second run of one that was measured."""

    def __call__(self, version: str, *, again: bool = False) -> MeasuredVersion:
        """Raises nothing that is the version's fault."""
        ...


@dataclass(frozen=True)
class FirstDifference:
    """`first` has another value than `last_good`, the version before it. Both were run twice with the same value, which
    is what `confirmed` says. `skipped`: versions between them that could not be run; the change may be in one of those.
    """

    first: MeasuredVersion
    last_good: MeasuredVersion
    steps: tuple[MeasuredVersion, ...]
    confirmed: bool
    skipped: tuple[str, ...] = ()

    def as_json(self, adapter: str, metric: str) -> dict[str, Any]:
        return {
            "adapter": adapter,
            "metric": metric,
            "first": asdict(self.first),
            "last_good": asdict(self.last_good),
            "confirmed": self.confirmed,
            "skipped": list(self.skipped),
            "steps": [asdict(step) for step in self.steps],
        }


def bisect(versions: Sequence[str], probe: MeasureVersion, say: Say) -> FirstDifference:
    """Search `versions` (oldest first; the first is good, the last is bad).

    What counts is whether a version has the good one's value; it is taken to change once. Raises UsageError where both
    ends have the same value, BuildError where an end cannot be run.
    """
    steps: list[MeasuredVersion] = []

    def measure(version: str, *, again: bool = False) -> MeasuredVersion:
        measured = probe(version, again=again)
        steps.append(measured)
        say(f"{version}: {_shown(measured)}")
        return measured

    good, bad = measure(versions[0]), measure(versions[-1])
    for end in (good, bad):
        if end.problem is not None:
            raise BuildError(f"{end.version} cannot be run, so nothing can be compared with it: {end.problem}")
    if good.value == bad.value:
        raise UsageError(f"{good.version} and {bad.version} have the same value, {_shown(good)}: nothing changed")
    left, skipped = list(versions[1:-1]), []
    while left:
        middle = measure(left[len(left) // 2])
        at = left.index(middle.version)
        if middle.problem is not None:
            skipped.append(left.pop(at))
        elif middle.value == good.value:
            good, left = middle, left[at + 1 :]
        else:
            bad, left = middle, left[:at]
    again = measure(bad.version, again=True), measure(good.version, again=True)
    confirmed = (again[0].value, again[1].value) == (bad.value, good.value)
    order = {version: index for index, version in enumerate(versions)}
    between_ends = [version for version in skipped if order[good.version] < order[version] < order[bad.version]]
    return FirstDifference(bad, good, tuple(steps), confirmed, tuple(sorted(between_ends, key=order.__getitem__)))


def _shown(measured: MeasuredVersion) -> str:
    if measured.problem is not None:
        return f"skipped: {measured.problem}"
    value = json.dumps(measured.value)
    return value if measured.outcome == "passed" else f"{value} (its run ended {measured.outcome})"


def candidates(base: str, catalog: Catalog, clients: Clients, good: str, bad: str) -> list[str]:
    """The releases of an adapter's own package from `good` to `bad`. Raises UsageError, BuildError."""
    family = _family(base, catalog)
    check_source(catalog.root / "images", family[0].value)
    own = family[0].value.packages[0]
    if own.registry == "npm":
        answer = clients.ask([f"{own.name}@{own.version}"], []).get("npm", {}).get(f"{own.name}@{own.version}", {})
    else:
        answer = clients.ask([], [own.name]).get("pypi", {}).get(own.name, {})
    if "ok" not in answer:
        raise BuildError(f"the versions of {own.name} cannot be listed: {answer.get('error') or 'it is not there'}")
    return stretch(own.name, releases(map(str, answer["ok"].get("versions", []))), good, bad)


def _family(base: str, catalog: Catalog) -> list[LoadedFile[Adapter]]:
    """The versions of an adapter that are there. Raises UsageError where there is none."""
    adapters = catalog.adapters()
    family = [adapter for adapter in adapters if adapter.value.id.partition("@")[0] == base]
    if not family:
        names = sorted({adapter.value.id.partition("@")[0] for adapter in adapters})
        raise UsageError(f"there is no adapter {quoted(base)} in any version{suggest(base, names)}")
    return family


def stretch(name: str, known: Sequence[str], good: str, bad: str) -> list[str]:
    """What is searched of the releases of package `name`, oldest first. Raises UsageError for ends that are none."""
    for version in (good, bad):
        if version not in known:
            raise UsageError(f"{name} has no release {quoted(version)}{suggest(version, known[::-1])}")
    first, last = known.index(good), known.index(bad)
    if first == last:
        raise UsageError(f"--good and --bad are both {good}: there is nothing between them")
    if first > last:
        raise UsageError(f"--good {good} is newer than --bad {bad}: swap them; --good is the older version")
    return list(known[first : last + 1])


@dataclass
class Bench:
    """Runs one version after another in a root of its own: the checkout's, plus the versions that a search needs."""

    base: str
    metric: str
    surface: str
    client: docker.DockerClient
    clients: Clients
    root: Path
    #: Open as long as the root is this search's own.
    held: IO[str]
    say: Say
    _values: dict[str, MeasuredVersion] = field(default_factory=dict)

    def __call__(self, version: str, *, again: bool = False) -> MeasuredVersion:
        if version not in self._values or again:
            try:
                self._values[version] = self._measure(version)
            except BuildError as problem:
                # A version that cannot be pinned or built is passed over. An engine that is gone, a full disk and a
                # user who wants to stop are no version's fault.
                self._values[version] = MeasuredVersion(version, problem=str(problem).splitlines()[0])
        return self._values[version]

    def _measure(self, version: str) -> MeasuredVersion:
        name = f"{self.base}@{version}"
        if not (self.root / "configs" / "adapters" / f"{on_disk(name)}.yaml").exists():
            pin(name, Catalog(self.root), self.client, self.clients, _silent)
        sweep = self.root / "configs" / "sweeps" / "bisect.yaml"
        with writing(name):
            sweep.write_text(json.dumps(_sweep(name, self.surface)), encoding="utf-8")
        loaded = load_sweep(sweep, Catalog(self.root))
        out = self.root / "results" / on_disk(name)
        shutil.rmtree(out, ignore_errors=True)
        report = run_sweep(loaded, plan(loaded), Options(out=out, jobs=1), PlainProgress(io.StringIO())).report
        arm = report.arms[0]
        found = arm.exact_of(self.metric)
        if found is None:
            if self.metric in arm.sampled:
                raise UsageError(
                    f"{self.metric} is sampled: one run of a version says too little; name an exact metric"
                )
            hint = suggest(self.metric, sorted(arm.exact))
            raise UsageError(f"no exact metric {quoted(self.metric)} on surface {self.surface}{hint}")
        outcome = next(iter(arm.outcomes), "")
        if not arm.n:
            return MeasuredVersion(version, outcome=outcome, problem=f"its run ended {outcome}")
        return MeasuredVersion(version, found.value, outcome)


def scratch(catalog: Catalog, base: str) -> tuple[Path, IO[str]]:
    """A root below .cache/ that holds the checkout's own files (as links) and what a search adds to them.

    It is ours as long as the file beside it is open. What an earlier search made stays, unless the adapter's own
    configurations or images are others by now: then it was made from what is no more. Raises UsageError where another
    search is at it.
    """
    sources = _sources(catalog, base)
    root = catalog.root / ".cache" / "bisect" / base
    for folder in ("configs/adapters", "configs/sweeps", "images", "results"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    held = (root / "made-from").open("a+")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held.close()
        raise UsageError(f"another acpbench is searching the versions of {base}; its folder is {root}") from None
    held.seek(0)
    stale = held.read() != sources
    for path in (*(root / "configs" / "adapters").iterdir(), *(root / "images").iterdir()):
        if path.is_symlink():
            path.unlink()
        elif stale:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    held.truncate(0)
    held.write(sources)
    held.flush()
    _link(catalog.root / "fixtures", root / "fixtures")
    for name in ("surfaces", "models"):
        _link(catalog.root / "configs" / name, root / "configs" / name)
    for kind in ("configs/adapters", "images"):
        for path in sorted((catalog.root / kind).iterdir()):
            _link(path, root / kind / path.name)
    return root, held


def _sources(catalog: Catalog, base: str) -> str:
    """Stands for all that versions of an adapter are made from."""
    digest = hashlib.sha256()
    for adapter in _family(base, catalog):
        folder = catalog.root / "images" / adapter.value.image
        for path in (adapter.path, *sorted(path for path in folder.rglob("*") if path.is_file())):
            digest.update(f"{path.relative_to(catalog.root)}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _link(source: Path, target: Path) -> None:
    """A link that is there is renewed; what a search made itself under that name is left."""
    if target.is_symlink():
        target.unlink()
    if not target.exists():
        target.symlink_to(source)


def _sweep(adapter: str, surface: str) -> Mapping[str, Any]:
    arm = {
        "adapters": [adapter],
        "surfaces": [surface],
        "fixtures": ["semver"],
        "models": ["scripted/fix-semver"],
    }
    return {"id": "bisect", "arms": [arm], "repeat": 1, "warmup": 0}


def _silent(_: str) -> None:
    """For nobody."""


def bench(base: str, metric: str, surface: str, catalog: Catalog, client: docker.DockerClient, say: Say) -> Bench:
    """Everything that a search needs."""
    catalog.surface(surface)
    with writing(f"the versions of {base}"):
        root, held = scratch(catalog, base)
    return Bench(base, metric, surface, client, Clients(client, Images(client, catalog.root)), root, held, say)
