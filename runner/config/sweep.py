"""A sweep: which arms, how often, in which order."""

from __future__ import annotations

import fnmatch

from pydantic import Field

from runner.config.base import Config, Id
from runner.config.gate import Comparison
from runner.config.knobs import Knobs
from runner.config.policy import Policy

#: Bounds against slips of the keyboard, far above what a machine runs in a week.
MAX_REPEAT = 10_000
MAX_JOBS = 64


class Matrix(Config):
    """The product of the lists: every combination is an arm."""

    #: Default: the sweep's.
    adapters: list[Id] = []
    surfaces: list[Id] = Field(min_length=1)
    fixtures: list[Id] = Field(min_length=1)
    #: Built-in names or a policy written out.
    policies: list[Id | Policy] = ["allow_once"]
    #: scripted/<script>
    models: list[str] = Field(min_length=1)
    resets: list[str] = ["container"]
    #: What its cells should end as.
    expect: str = "passed"
    #: What those of other adapters should end as: a glob over their ids -> outcome. The first that fits counts.
    expect_of: dict[str, str] = {}
    #: Replicates of its arms, where they differ from the sweep's.
    repeat: int | None = Field(default=None, gt=0, le=MAX_REPEAT)
    #: What differs from the sweep's knobs.
    knobs: Knobs | None = None
    #: Every arm a second time, identical but for `--twin` at the end of its name: what a comparison calls different
    #: then is chance (A/A).
    twin: bool = False

    def expected(self, adapter: str) -> str:
        """What the cells of an adapter should end as."""
        fitting = (outcome for glob, outcome in self.expect_of.items() if fnmatch.fnmatchcase(adapter, glob))
        return next(fitting, self.expect)


class Sweep(Config):
    """configs/sweeps/<id>.yaml."""

    id: Id
    title: str = ""
    #: Of every entry of `arms` that names none.
    adapters: list[Id] = []
    arms: list[Matrix] = Field(min_length=1)
    repeat: int = Field(default=3, gt=0, le=MAX_REPEAT)
    #: Order: each block holds every arm once, shuffled by this seed.
    seed: int = Field(default=20260802, ge=-(1 << 63), lt=1 << 63)
    #: Warm-up runs per image, recorded, outside the statistics.
    warmup: int = Field(default=1, ge=0, le=MAX_REPEAT)
    jobs: int = Field(default=1, gt=0, le=MAX_JOBS)
    #: Containers that the engine creates or starts at once, however many `jobs` there are: a burst overwhelms it.
    starts: int = Field(default=4, gt=0, le=MAX_JOBS)
    #: Attempts at a cell that ends `infra`.
    infra_attempts: int = Field(default=3, gt=0, le=100)
    knobs: Knobs = Knobs()
    #: Before the first run the package registries are asked about all our pins, as `acpbench adapters check` does, and
    #: their answer is kept with the sweep (adapters-check.json). Where they cannot be reached, that is what is kept.
    ask_registries: bool = False
    #: Figures of a published study by the id of its claim: the column beside ours in `acpbench findings`.
    published: dict[Id, str] = {}
    #: What `acpbench compare`, `sweep --confirm` and `nightly` hold against what.
    compare: Comparison | None = None

    def complete(self) -> Sweep:
        """With the sweep's adapters in every entry of `arms` that names none."""
        arms = [
            matrix if matrix.adapters else matrix.model_copy(update={"adapters": self.adapters}) for matrix in self.arms
        ]
        return self.model_copy(update={"arms": arms})
