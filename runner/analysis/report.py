"""The report of a sweep as data; its JSON names are a contract."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from runner.evidence import metrics

SCHEMA_VERSION = 1
#: Warning of an arm one of whose runs worked outside its turn.
TIMES_LEFT_OUT = "times-left-out"


class ReportPart(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Exact(ReportPart):
    """A metric compared as a value. `values`: one a measured run, by replicate, null where not applicable."""

    values: list[Any]
    #: What all runs agree on; null where they differ or the surface has no such thing.
    value: Any

    @classmethod
    def of(cls, values: list[Any]) -> Exact:
        agreed = bool(values) and all(same(value, values[0]) for value in values)
        return cls(values=values, value=values[0] if agreed else None)


class Sampled(ReportPart):
    """A metric compared as a distribution; all null where no run has it. Units stand in the metric's name."""

    #: Runs that have it.
    n: int
    median: float | None
    min: float | None
    max: float | None
    #: Confidence with which [min, max] holds the true median, 0 to 1.
    coverage: float | None
    #: By replicate, without those that lack it.
    values: list[float]


class Warning(ReportPart):
    """One thing a reader must know. `id` is stable; renderers print `message` and judge nothing."""

    id: str
    message: str
    metric: str | None = None
    cell: str | None = None


class Arm(ReportPart):
    """One arm. `n`: runs that were measured; a run that ended aborted or infra was not."""

    name: str
    adapter: str
    surface: str
    fixture: str
    policy: str
    model: str
    reset: str
    expect: str
    #: Of an arm that repeats another one (A/A).
    twin: bool = False
    n: int
    outcomes: dict[str, int]
    #: Cells that did not end as expected, missing ones included.
    unexpected: int
    exact: dict[str, Exact]
    sampled: dict[str, Sampled]
    warnings: list[Warning]
    #: Tree that was judged -> verdict (`passed`, `failed`) -> runs; not written where no run has one.
    workspaces: dict[str, dict[str, int]] = Field(default={}, exclude_if=lambda value: not value)

    @property
    def planned(self) -> int:
        """Cells of the arm."""
        return sum(self.outcomes.values())

    @property
    def acp(self) -> bool:
        """Whether its runs spoke ACP: they have permission requests, if only 0 of them."""
        asked, counted = self.exact.get("permission_requests"), self.sampled.get("permission_requests")
        return any(value is not None for value in (asked.values if asked else counted.values if counted else []))

    def value(self, metric: str) -> Any:
        """The agreed value of an exact metric, None where there is none."""
        found = self.exact_of(metric)
        return found.value if found is not None else None

    def exact_of(self, metric: str) -> Exact | None:
        """An exact metric, None where there is none; of a flattened map's name it lacks, what the map says then."""
        if metric in self.exact:
            return self.exact[metric]
        owner = self.exact.get(metrics.owner(metric) or "")
        return Exact.of([metrics.absent(metric, value) for value in owner.values]) if owner is not None else None


class Report(ReportPart):
    schema_version: int = SCHEMA_VERSION
    sweep: str
    lock: dict[str, Any]
    arms: list[Arm]
    #: Load of the machine when the measured runs began; not written where no record says.
    load: Sampled | None = Field(default=None, exclude_if=lambda value: value is None)

    @property
    def as_expected(self) -> bool:
        """Whether every planned cell ended as it should."""
        return all(arm.unexpected == 0 for arm in self.arms)


def same(a: Any, b: Any) -> bool:
    """Whether two values of an exact metric are equal: true is not 1, and 1.0 is not 1."""
    return type(a) is type(b) and bool(a == b)
