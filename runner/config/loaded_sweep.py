"""A sweep with every name it uses resolved and checked against the others."""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runner.config.adapter import OPTIONAL_MEANINGS, Adapter
from runner.config.cassette import Cassette
from runner.config.catalog import Catalog, prompt_fault
from runner.config.fixture import CANARY, Fixture
from runner.config.gate import Comparison
from runner.config.knobs import Knobs, overlay
from runner.config.loader import LoadedFile, load, raise_all
from runner.config.nearest import quoted, suggest
from runner.config.outcome import outcome_names
from runner.config.policy import BUILTIN, Policy
from runner.config.script import Script
from runner.config.source import Place
from runner.config.surface import Surface
from runner.config.sweep import Matrix, Sweep
from runner.config.upstream import Upstream
from runner.errors import ConfigError, UsageError

#: Kinds of reset.
RESETS = ("container", "git-clean-fd", "git-clean-fdx")


@dataclass(frozen=True)
class LoadedSweep:
    """A sweep with every name it uses resolved and checked against the others."""

    sweep: Sweep
    #: The sweep's file, as messages show it.
    path: Path
    #: The file's bytes as given.
    source: bytes
    root: Path
    adapters: Mapping[str, Adapter]
    surfaces: Mapping[str, Surface]
    fixtures: Mapping[str, Fixture]
    policies: Mapping[str, Policy]
    #: By the model's whole name, `scripted/<script>`.
    scripts: Mapping[str, Script]
    #: Fixture id -> folder of its tree.
    trees: Mapping[str, Path]
    #: Path below the root -> sha256 of each file that was read for it.
    digests: Mapping[str, str]
    #: 1-based line of each entry of `arms`.
    arm_lines: tuple[int, ...] = field(default=())
    #: By the model's whole name, `live/<upstream>` or `capture/<upstream>`.
    upstreams: Mapping[str, Upstream] = field(default_factory=dict)
    #: By the model's whole name, `replay/<cassette>`.
    cassettes: Mapping[str, Cassette] = field(default_factory=dict)
    #: Fixture id -> folder of its tests, of isolated fixtures alone.
    tests: Mapping[str, Path] = field(default_factory=dict)

    def knobs(self, matrix: int) -> Knobs:
        """The knobs of the cells of entry `matrix` (from 0) of `arms`."""
        return overlay(self.sweep.knobs, self.sweep.arms[matrix].knobs)

    def why_not(self, adapter: str, surface: str, model: str) -> str | None:
        """What the adapter lacks: the surface's transport, or a way for something that the model's script means."""
        asked, driven, script = self.adapters[adapter], self.surfaces.get(surface), self.scripts.get(model)
        if driven is not None and getattr(asked, driven.transport) is None:
            return f"surface {surface}: configs/adapters names no {driven.transport} command for {adapter}"
        lacking = beyond(script, asked) if script is not None else []
        if lacking and lacking[0].startswith("dialect"):
            return f"model {model}: {adapter} does not speak the {lacking[0]}"
        return f"model {model}: the configuration of {adapter} maps no {', '.join(lacking)}" if lacking else None

    def left_out(self) -> dict[str, list[str]]:
        """Adapter -> why some of the sweep's runs are not in its plan; adapters with all runs are not in it."""
        reasons: dict[str, dict[str, None]] = {}
        for matrix in self.sweep.arms:
            for adapter, surface, model in itertools.product(matrix.adapters, matrix.surfaces, matrix.models):
                if (why := self.why_not(adapter, surface, model)) is not None:
                    reasons.setdefault(adapter, {})[why] = None
        return {adapter: list(why) for adapter, why in reasons.items()}

    def toolboxes(self) -> list[str]:
        """Images whose programs its surfaces bring along."""
        return sorted({surface.toolbox for surface in self.surfaces.values() if surface.toolbox is not None})

    def fixture_folder(self, fixture: str) -> Path:
        """The folder of a fixture's tree."""
        return self.trees[fixture]

    def script(self, model: str) -> Script:
        """The script of a model's whole name."""
        return self.scripts[model]

    def cassette_folder(self, cassette: str) -> Path:
        """The folder of a cassette's id, there or not."""
        return Catalog(self.root).cassette_folder(cassette)


def beyond(script: Script, adapter: Adapter) -> list[str]:
    """What a script wants that not every agent has, and this one has not: a meaning, or its dialect."""
    dialects = script.dialects
    spoken = [] if dialects is None or adapter.dialect in dialects else [f"dialect {' or '.join(dialects)}"]
    return spoken + sorted((script.meanings() & OPTIONAL_MEANINGS) - set(adapter.tools))


def policy_id(policy: str | Policy) -> str:
    """The id of an entry of `policies`."""
    return policy if isinstance(policy, str) else policy.id


def load_sweep(path: Path, catalog: Catalog, adapters: Sequence[str] = ()) -> LoadedSweep:
    """Read a sweep and all it names. `adapters`: run with these in place of the whole sweep's own.

    Raises ConfigError, or ConfigErrors with every fault, each at its own line; UsageError for `adapters` that are not
    there, or that no entry of the sweep leaves room for.
    """
    loaded = load(path, Sweep)
    if adapters:
        loaded = _exchanged(loaded, catalog, adapters)
    resolver = _Resolver(loaded, catalog)
    sweep = loaded.value.complete()
    for index, matrix in enumerate(sweep.arms):
        resolver.matrix(index, matrix)
    resolver.gate(loaded.value.compare)
    raise_all(resolver.errors)
    return LoadedSweep(
        sweep=sweep,
        path=loaded.path,
        source=loaded.source.raw,
        root=catalog.root,
        adapters=resolver.adapters,
        surfaces=resolver.surfaces,
        fixtures=resolver.fixtures,
        policies=resolver.policies,
        scripts=resolver.scripts,
        trees={name: catalog.fixture_folder(name) for name in resolver.fixtures},
        digests=catalog.sources(),
        arm_lines=tuple(loaded.source.line(("arms", index)) for index in range(len(loaded.value.arms))),
        upstreams=resolver.upstreams,
        cassettes=resolver.cassettes,
        tests={name: catalog.tests_folder(name) for name, one in resolver.fixtures.items() if one.verify.isolated},
    )


def _exchanged(loaded: LoadedFile[Sweep], catalog: Catalog, adapters: Sequence[str]) -> LoadedFile[Sweep]:
    """The sweep with other adapters. Entries of `arms` that name their own keep them."""
    if all(matrix.adapters for matrix in loaded.value.arms):
        raise UsageError(f"{loaded.path}: every entry of 'arms' names its own adapters; there is none to exchange")
    for name in adapters:
        catalog.adapter(name)
    sweep = loaded.value.model_copy(update={"adapters": list(dict.fromkeys(adapters))})
    return replace(loaded, value=sweep)


class _Resolver:
    """Resolves a sweep's names; collects what is wrong in `errors`."""

    def __init__(self, loaded: LoadedFile[Sweep], catalog: Catalog) -> None:
        self.loaded = loaded
        self.catalog = catalog
        self.errors: list[ConfigError] = []
        self.adapters: dict[str, Adapter] = {}
        self.surfaces: dict[str, Surface] = {}
        self.fixtures: dict[str, Fixture] = {}
        self.policies: dict[str, Policy] = {}
        self.scripts: dict[str, Script] = {}
        self.upstreams: dict[str, Upstream] = {}
        self.cassettes: dict[str, Cassette] = {}
        #: (adapter, transport, fixture) that were looked at.
        self.prompted: set[tuple[str, str, str]] = set()
        #: Written out anywhere in the sweep, so that another entry may name them.
        self.written: dict[str, Policy] = {}
        for matrix in loaded.value.arms:
            for policy in matrix.policies:
                if isinstance(policy, Policy):
                    self.written.setdefault(policy.id, policy)

    def matrix(self, index: int, matrix: Matrix) -> None:
        """Resolve and cross-check one entry of `arms`."""
        here: Place = ("arms", index)
        given = bool(self.loaded.value.arms[index].adapters)
        for i, name in enumerate(matrix.adapters):
            place: Place = (*here, "adapters", i) if given else ("adapters", i)
            self._take(self.adapters, name, self.catalog.adapter, place)
        if not matrix.adapters:
            self._fault(here, "no 'adapters' here, and none of the whole sweep")
        for i, name in enumerate(matrix.surfaces):
            self._take(self.surfaces, name, self.catalog.surface, (*here, "surfaces", i))
        for i, name in enumerate(matrix.fixtures):
            self._take(self.fixtures, name, self.catalog.fixture, (*here, "fixtures", i))
        for i, name in enumerate(matrix.models):
            kind = name.partition("/")[0]
            taped: dict[str, dict[str, Any]] = {
                "replay": self.cassettes,
                "live": self.upstreams,
                "capture": self.upstreams,
            }
            into: dict[str, Any] = taped.get(kind, self.scripts)
            self._take(into, name, self.catalog.model, (*here, "models", i))
        for i, policy in enumerate(matrix.policies):
            self._policy(policy, (*here, "policies", i))
        for i, reset in enumerate(matrix.resets):
            self._reset(reset, (*here, "resets", i))
        for key in ("policies", "resets"):
            if not getattr(matrix, key):
                self._fault((*here, key), f"'{key}' needs at least 1 item(s)")
        self._expected(matrix, here)
        self._cross(matrix, here, given)
        self._cancels(matrix, here)
        self._canaries(matrix, here)

    def _expected(self, matrix: Matrix, here: Place) -> None:
        said = [((*here, "expect"), matrix.expect)]
        said += [((*here, "expect_of", glob), outcome) for glob, outcome in matrix.expect_of.items()]
        for place, outcome in said:
            if outcome not in outcome_names():
                self._fault(place, f"unknown outcome {quoted(outcome)}{suggest(outcome, outcome_names())}")
        for glob in matrix.expect_of:
            # The ids of all adapters: a sweep may be run with others than it names.
            known = self.catalog.adapter_ids()
            if not fnmatch.filter(known, glob):
                self._fault((*here, "expect_of", glob), f"'{glob}' fits no adapter{suggest(glob, known)}")

    def _cancels(self, matrix: Matrix, here: Place) -> None:
        """Only over ACP is there a cancel."""
        deaf = [name for name in matrix.surfaces if name in self.surfaces and self.surfaces[name].transport != "acp"]
        for i, policy in enumerate(self.policies.get(policy_id(policy)) for policy in matrix.policies):
            if deaf and policy is not None and policy.cancel is not None:
                message = f"policy {quoted(policy.id)} cancels the turn, for which surface {quoted(deaf[0])} has no way"
                self._fault((*here, "policies", i), message)

    def _canaries(self, matrix: Matrix, here: Place) -> None:
        """What a surface plants by name, its fixtures must have."""
        fixtures = [self.fixtures[name] for name in matrix.fixtures if name in self.fixtures]
        for i, surface in enumerate(self.surfaces.get(name) for name in matrix.surfaces):
            named = CANARY.findall(surface.model_dump_json()) if surface is not None else []
            for fixture, canary in itertools.product(fixtures, named):
                if canary not in fixture.canaries:
                    message = f"surface {quoted(matrix.surfaces[i])} wants the canary {quoted(canary)}"
                    self._fault((*here, "surfaces", i), f"{message}, which fixture {quoted(fixture.id)} has not")

    def gate(self, comparison: Comparison | None) -> None:
        """Look up the gate that a sweep's comparison names; it shapes no run, so it stands in no digest."""
        if comparison is not None and comparison.gate is not None:
            try:
                Catalog(self.catalog.root).gate(comparison.gate, self.loaded.at("compare", "gate"))
            except ConfigError as error:
                self.errors.append(error)

    def _fault(self, place: Place, problem: str) -> None:
        self.errors.append(self.loaded.error(place, problem))

    def _take(self, into: dict[str, Any], name: str, find: Any, place: Place) -> None:
        try:
            into[name] = find(name, self.loaded.at(*place))
        except ConfigError as error:
            self.errors.append(error)

    def _policy(self, policy: str | Policy, place: Place) -> None:
        name = policy_id(policy)
        if isinstance(policy, str):
            known = {**self.written, **BUILTIN}
            if name not in known:
                self._fault(place, f"unknown policy {quoted(name)}{suggest(name, known)}")
            else:
                self.policies[name] = known[name]
            return
        other = BUILTIN.get(name) or self.written[name]
        if other != policy:
            what = "a built-in policy has" if name in BUILTIN else "another policy of this sweep has"
            self._fault(place, f"{what} the id {quoted(name)}; choose another")
        self.policies[name] = policy

    def _reset(self, reset: str, place: Place) -> None:
        if reset not in RESETS:
            self._fault(place, f"unknown reset {quoted(reset)}{suggest(reset, RESETS)}")

    def _cross(self, matrix: Matrix, here: Place, given: bool) -> None:
        """Every combination of the matrix must be possible. Adapters of the whole sweep (not `given` here) may be
        exchanged for others: what one of those has no way for is left out of the plan."""
        for adapter in (self.adapters[name] for name in matrix.adapters if name in self.adapters):
            for i, name in enumerate(matrix.surfaces):
                surface = self.surfaces.get(name)
                if surface is not None and getattr(adapter, surface.transport) is None and given:
                    needs = f"surface {quoted(name)} needs transport {surface.transport}"
                    self._fault((*here, "surfaces", i), f"{needs}, which adapter {quoted(adapter.id)} has not")
                elif surface is not None:
                    self._prompts(adapter, surface.transport, matrix)
            for i, name in enumerate(matrix.models):
                script = self.scripts.get(name)
                if script is not None and (given or not beyond(script, adapter)):
                    self._script(script, adapter, (*here, "models", i))
                recorded = self.cassettes.get(name)
                spoken = recorded or self.upstreams.get(name)
                if spoken is not None and spoken.dialect != adapter.dialect:
                    problem = f"model {quoted(name)} speaks {spoken.dialect}, adapter {quoted(adapter.id)} "
                    self._fault((*here, "models", i), f"{problem}{adapter.dialect}")
                elif recorded is not None:
                    self._tapes(recorded, adapter, matrix, (*here, "models", i))

    def _prompts(self, adapter: Adapter, transport: str, matrix: Matrix) -> None:
        """What is no argument must not wait for the run to say so; a fault stands at the fixture's prompt."""
        for fixture in (self.fixtures[name] for name in matrix.fixtures if name in self.fixtures):
            if (adapter.id, transport, fixture.id) in self.prompted:
                continue
            self.prompted.add((adapter.id, transport, fixture.id))
            fault = prompt_fault(adapter, transport, fixture.prompt)
            if fault is not None:
                self.errors.append(self.catalog.loaded_fixture(fixture.id).error(("prompt",), fault))

    def _tapes(self, cassette: Cassette, adapter: Adapter, matrix: Matrix, place: Place) -> None:
        """Every run needs a tape of its own."""
        policies = [policy_id(policy) for policy in matrix.policies]
        for surface, fixture, policy in itertools.product(matrix.surfaces, matrix.fixtures, policies):
            if cassette.tape(adapter.id, surface, fixture, policy) is None:
                there = "; ".join(f"{t.adapter}, {t.surface}, {t.fixture}, {t.policy}" for t in cassette.tapes)
                wanted = f"{adapter.id}, {surface}, {fixture}, {policy}"
                problem = f"cassette {quoted(cassette.id)} has no tape for {wanted}; it has: {there}"
                self._fault(place, problem)

    def _script(self, script: Script, adapter: Adapter, place: Place) -> None:
        if script.dialects is not None and adapter.dialect not in script.dialects:
            told = ", ".join(script.dialects)
            problem = f"script {quoted(script.id)} is for {told}; adapter {quoted(adapter.id)} speaks {adapter.dialect}"
            self._fault(place, problem)
        lacking = sorted(script.meanings() - set(adapter.tools))
        if lacking:
            told = ", ".join(quoted(meaning) for meaning in lacking)
            lacks = f"adapter {quoted(adapter.id)} has no entry in 'tools'"
            self._fault(place, f"script {quoted(script.id)} means {told}, for which {lacks}")
