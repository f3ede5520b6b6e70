"""What a comparison says: verdicts, one a metric, and what they amount to. Its JSON names are a contract."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import ConfigDict

from runner.analysis.comparability import Likeness
from runner.analysis.report import Arm, ReportPart, Warning
from runner.config.gate import Gate

SCHEMA_VERSION = 1


Word = Literal[
    "same-exact",
    "changed-exact",
    "nondeterministic",
    "insufficient",
    "no-difference-detected",
    "within-threshold",
    "improved",
    "regressed",
    "unlike",
]


#: Of a gated metric, these fail a build.
FAILING = frozenset({"regressed", "changed-exact", "nondeterministic"})


#: Two arms and a metric of theirs: (base arm, new arm, metric).
Key = tuple[str, str, str]


class MetricVerdict(ReportPart):
    """What is said of one metric of one pair of arms."""

    #: The new arm; `base_arm` is what it is held against.
    arm: str
    base_arm: str
    metric: str
    kind: Literal["exact", "sampled"]
    verdict: Word
    gated: bool
    #: Exact: the value, or every value where they vary. Sampled: the median.
    base: Any
    new: Any
    #: Runs that have it, base and new.
    n: tuple[int, int]
    #: Hodges-Lehmann estimate of new - base, in the metric's own unit.
    shift: float | None = None
    #: Hodges-Lehmann estimate of new / base; null where a value is not positive.
    ratio: float | None = None
    #: Of the ratio.
    interval: tuple[float, float] | None = None
    #: What the interval really has, 0 to 1.
    confidence: float | None = None
    p: float | None = None
    #: Standard error of `p`; 0 where it is exact.
    p_error: float | None = None
    #: After Holm, over its family.
    p_adjusted: float | None = None
    #: Of `insufficient`: runs a side that could tell.
    required_n: int | None = None
    #: `noisy`; `confirmed` or `not-confirmed` after a second, fresh half.
    flags: list[str] = []

    @property
    def key(self) -> Key:
        return self.base_arm, self.arm, self.metric

    @property
    def fails(self) -> bool:
        """Whether it fails a build."""
        return self.gated and self.verdict in FAILING


class Compared(ReportPart):
    """All verdicts of one comparison; its JSON names are a contract."""

    model_config = ConfigDict(extra="forbid")

    schema_version: int = SCHEMA_VERSION
    #: Sweeps, base and new; the same name twice for arms of one sweep.
    sweeps: tuple[str, str]
    gate: Gate
    strict: bool = False
    #: Gated sampled metrics that Holm's procedure runs over.
    family: int
    exit: int
    verdicts: list[MetricVerdict]
    warnings: list[Warning]


@dataclass(frozen=True)
class Pair:
    """Two arms that are held against each other, and what speaks against it."""

    base: Arm
    new: Arm
    likeness: Likeness = field(default_factory=Likeness)
