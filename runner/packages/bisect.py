"""The first version of an adapter with another value of an exact metric, found in log2 steps.

Versions come from the registry; each that is looked at is pinned in a root of its own (below .cache/), built and run.
The answer is confirmed: the version found and its predecessor are each run a second time.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import docker

from runner.config.base import on_disk
from runner.config.catalog import Catalog
from runner.config.loaded_sweep import load_sweep
from runner.errors import AcpbenchError, BuildError, UsageError
from runner.packages.clients import Clients
from runner.packages.pin import pin
from runner.packages.versions import between
from runner.plan import plan
from runner.progress import PlainProgress
from runner.sandbox.images import Images
from runner.sweep import Options, run_sweep

Say = Callable[[str], None]


@dataclass(frozen=True)
class Measured:
    """One version: the metric's value (null: not applicable) and how its run ended. `problem`: it could not be run."""

    version: str
    value: Any = None
    outcome: str = ""
    problem: str | None = None


class Probe(Protocol):
    """Measures one version; `again` asks for a second run of one that was measured."""

    def __call__(self, version: str, *, again: bool = False) -> Measured:
        """Raises nothing that is the version's fault."""
        ...


@dataclass(frozen=True)
class Found:
    """`first` has another value than `last_good`, the version before it. Both were run twice with the same value, which
    is what `confirmed` says. `skipped`: versions between them that could not be run; the change may be in one of those.
    """

    first: Measured
    last_good: Measured
    steps: tuple[Measured, ...]
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


def bisect(versions: Sequence[str], probe: Probe, say: Say) -> Found:
    """Search `versions` (oldest first; the first is good, the last is bad).

    What counts is whether a version has the good one's value; it is taken to change once. Raises UsageError where both
    ends have the same value, BuildError where an end cannot be run.
    """
    steps: list[Measured] = []

    def measure(version: str, *, again: bool = False) -> Measured:
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
    return Found(bad, good, tuple(steps), confirmed, tuple(sorted(between_ends, key=order.__getitem__)))


def _shown(measured: Measured) -> str:
    if measured.problem is not None:
        return f"skipped: {measured.problem}"
    value = json.dumps(measured.value)
    return value if measured.outcome == "passed" else f"{value} (its run ended {measured.outcome})"


def candidates(base: str, catalog: Catalog, clients: Clients, good: str, bad: str) -> list[str]:
    """The releases of an adapter's own package from `good` to `bad`. Raises UsageError, BuildError."""
    family = [one.value for one in catalog.adapters() if one.value.id.partition("@")[0] == base]
    if not family:
        raise UsageError(f"there is no adapter '{base}' in any version")
    own = family[0].packages[0]
    if own.registry == "npm":
        answer = clients.ask([f"{own.name}@{own.version}"], []).get("npm", {}).get(f"{own.name}@{own.version}", {})
    else:
        answer = clients.ask([], [own.name]).get("pypi", {}).get(own.name, {})
    if "ok" not in answer:
        raise BuildError(f"the versions of {own.name} cannot be listed: {answer.get('error') or 'it is not there'}")
    listed = between([str(version) for version in answer["ok"].get("versions", [])], good, bad)
    missing = [version for version in (good, bad) if version not in listed]
    if missing:
        raise UsageError(f"{own.name} has no release {', '.join(missing)} in this order; --good is the older one")
    return listed


@dataclass
class Bench:
    """Runs one version after another in a root of its own: the checkout's, plus the versions that a search needs."""

    base: str
    metric: str
    surface: str
    client: docker.DockerClient
    clients: Clients
    root: Path
    say: Say
    _values: dict[str, Measured] = field(default_factory=dict)

    def __call__(self, version: str, *, again: bool = False) -> Measured:
        if version not in self._values or again:
            try:
                self._values[version] = self._measure(version)
            except AcpbenchError as problem:
                if isinstance(problem, UsageError):
                    raise
                # A version that cannot be pinned, built or run is passed over.
                self._values[version] = Measured(version, problem=str(problem).splitlines()[0])
        return self._values[version]

    def _measure(self, version: str) -> Measured:
        name = f"{self.base}@{version}"
        if not (self.root / "configs" / "adapters" / f"{on_disk(name)}.yaml").exists():
            pin(name, Catalog(self.root), self.client, self.clients, _silent)
        sweep = self.root / "configs" / "sweeps" / "bisect.yaml"
        sweep.write_text(json.dumps(_sweep(name, self.surface)), encoding="utf-8")
        loaded = load_sweep(sweep, Catalog(self.root))
        out = self.root / "results" / on_disk(name)
        shutil.rmtree(out, ignore_errors=True)
        report = run_sweep(loaded, plan(loaded), Options(out=out, jobs=1), PlainProgress(io.StringIO())).report
        arm = report.arms[0]
        found = arm.exact_of(self.metric)
        if found is None:
            names = ", ".join(sorted(arm.exact))
            raise UsageError(f"no exact metric '{self.metric}' on surface {self.surface}; there are: {names}")
        outcome = next(iter(arm.outcomes), "")
        if not arm.n:
            return Measured(version, outcome=outcome, problem=f"its run ended {outcome}")
        return Measured(version, found.value, outcome)


def scratch(catalog: Catalog, base: str) -> Path:
    """A root below .cache/ that holds the checkout's own files (as links) and what a search adds to them."""
    root = catalog.root / ".cache" / "bisect" / base
    for folder in ("configs/adapters", "configs/sweeps", "images", "results"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    _link(catalog.root / "fixtures", root / "fixtures")
    for name in ("surfaces", "models"):
        _link(catalog.root / "configs" / name, root / "configs" / name)
    for kind in ("configs/adapters", "images"):
        for path in sorted((catalog.root / kind).iterdir()):
            _link(path, root / kind / path.name)
    return root


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
    clients = Clients(client, Images(client, catalog.root))
    return Bench(base, metric, surface, client, clients, scratch(catalog, base), say)
