"""A gate: which differences between two arms fail a build. Fixed before the runs, so that nobody picks afterwards."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from typing import Literal

from pydantic import Field, field_validator

from runner.config.base import Config, Id


class SampledRule(Config):
    """A sampled metric that is gated."""

    metric: Id
    #: Practical margin: a change of the median by no more than this share, up or down, is within the threshold.
    threshold: float = Field(default=0.05, ge=0, le=1000)
    #: Which way is worse.
    worse: Literal["higher", "lower"] = "higher"


class Gate(Config):
    """configs/gates/<id>.yaml; without a file, these defaults."""

    id: Id = "built-in"
    title: str = ""
    #: Of all gated sampled metrics of a comparison together (Holm).
    alpha: float = Field(default=0.05, gt=0, lt=1)
    sampled: list[SampledRule] = [SampledRule(metric="handshake_ms"), SampledRule(metric="to_result_ms")]
    #: Globs over the names of exact metrics; what only informs (frames, chunks, late updates) is never gated.
    exact: list[str] = ["*"]
    #: Globs over what `exact` fits and is not gated all the same.
    exact_except: list[str] = []
    #: A baseline older than this is refused.
    baseline_days: int = Field(default=90, gt=0, le=36_500)

    def rule(self, metric: str) -> SampledRule | None:
        """The rule of a sampled metric; None where it is not gated."""
        return next((rule for rule in self.sampled if rule.metric == metric), None)

    @field_validator("sampled")
    @classmethod
    def _once(cls, rules: list[SampledRule]) -> list[SampledRule]:
        names = [rule.metric for rule in rules]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"{', '.join(twice)}: one rule a metric")
        return rules

    def gates_exact(self, metric: str) -> bool:
        """Whether an exact metric is gated, if it is one that may be."""
        return _fits(metric, self.exact) and not _fits(metric, self.exact_except)


def _fits(metric: str, globs: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(metric, glob) for glob in globs)


class Comparison(Config):
    """What a sweep is for: which arms are held against which, and by which gate. Globs over arm names."""

    base: str
    new: str
    #: Of configs/gates; without it, the built-in gate.
    gate: Id | None = None
    #: Of results/baselines: exact metrics are held against it too.
    baseline: Id | None = None
