"""Two arms -> verdicts, one a metric, and the exit code they amount to. Pure.

Exact metrics are compared as values, by name: one run a side is enough, and variation inside one arm is a verdict of
its own. Sampled metrics get a ratio with its interval and the exact two-sided rank test; the gated ones are one family,
fixed by the gate before the runs, over which Holm's procedure holds the gate's alpha. The others are a second family:
they inform. An arm that has too few runs to reach alpha / k could only ever be `insufficient`, so it is called that.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from runner.analysis import stats
from runner.analysis.compare_notes import arms_of, comparison_warnings, idle_gate_warnings
from runner.analysis.comparison import Compared, Key, MetricVerdict, Pair, Word
from runner.analysis.report import Arm, Sampled, Warning, same
from runner.config.gate import Gate, SampledRule
from runner.evidence import metrics

#: Range over median, and MADs of the first run above the median, above which an arm is `noisy`.
NOISY_RANGE = 0.3
NOISY_MADS = 3.0
#: Makes the median absolute deviation of a normal distribution its standard deviation.
_MAD_SCALE = 1.4826


def compare(
    sweeps: tuple[str, str],
    pairs: Sequence[Pair],
    gate: Gate,
    *,
    strict: bool = False,
    warnings: Iterable[Warning] = (),
    missing: int = 0,
    family: Collection[Key] | None = None,
) -> Compared:
    """The verdicts of `pairs`.

    warnings: what the pairing found. missing: arms of the base that have no partner. family: these metrics alone are
    gated and tested (a second, fresh half); None: those of the gate.
    """
    drafts = [draft for pair in pairs for draft in _sampled(pair, gate, family)]
    verdicts = [
        verdict
        for pair in pairs
        for verdict in (*(_exact(pair, gate) if family is None else ()), *_tested(pair, drafts, gate.alpha))
    ]
    found = Compared(
        sweeps=sweeps,
        gate=gate,
        strict=strict,
        family=_size(drafts, gated=True),
        exit=0,
        verdicts=verdicts,
        warnings=[
            *warnings,
            *comparison_warnings(pairs, verdicts, gate.alpha),
            *(idle_gate_warnings(gate, verdicts) if family is None else ()),
        ],
    )
    unexpected = missing + sum(arm.unexpected for arm in arms_of(pairs))
    return found.model_copy(update={"exit": exit_code(verdicts, unexpected, strict=strict, pairs=pairs)})


def exit_code(verdicts: Iterable[MetricVerdict], unexpected: int, *, strict: bool, pairs: Sequence[Pair] = ()) -> int:
    """64 a pair that may not be compared; 1 a cell that did not end as expected; 2 a gated metric that fails (under
    `strict` also one that had too few runs); else 0.
    """
    if any(pair.likeness.refused for pair in pairs):
        return 64
    if unexpected:
        return 1
    failing = any(
        verdict.fails or (strict and verdict.gated and verdict.verdict == "insufficient") for verdict in verdicts
    )
    return 2 if failing else 0


def suspects(found: Compared) -> list[Key]:
    """Gated sampled metrics that regressed: what a fresh half must confirm."""
    return [
        verdict.key
        for verdict in found.verdicts
        if verdict.kind == "sampled" and verdict.gated and verdict.verdict == "regressed"
    ]


def confirmed(first: Compared, fresh: Compared, unexpected: int) -> Compared:
    """`first` with its suspects judged by `fresh` alone.

    A suspicion stands where the fresh half says `regressed` too, or can say nothing. unexpected: cells of both halves
    that did not end as expected.
    """
    again = {verdict.key: verdict for verdict in fresh.verdicts}
    asked = set(suspects(first))
    verdicts = [
        _settled(verdict, again.get(verdict.key)) if verdict.key in asked else verdict for verdict in first.verdicts
    ]
    notes = [
        Warning(
            id="not-confirmed",
            message=f"{verdict.metric} of {verdict.arm} regressed at first; "
            f"the fresh runs alone say {verdict.verdict}, and they count",
            metric=verdict.metric,
        )
        for verdict in verdicts
        if "not-confirmed" in verdict.flags
    ]
    # What was missing at first is missing still, whatever the fresh half shows.
    missing = unexpected + (first.exit == 1)
    code = 64 if 64 in (first.exit, fresh.exit) else exit_code(verdicts, missing, strict=first.strict)
    return first.model_copy(
        update={"verdicts": verdicts, "warnings": [*first.warnings, *notes, *fresh.warnings], "exit": code}
    )


def _settled(first: MetricVerdict, fresh: MetricVerdict | None) -> MetricVerdict:
    if fresh is None or fresh.verdict in ("insufficient", "unlike"):
        return first
    flag = "confirmed" if fresh.verdict == "regressed" else "not-confirmed"
    return fresh.model_copy(update={"flags": [*fresh.flags, flag]})


# exact


def _exact(pair: Pair, gate: Gate) -> Iterator[MetricVerdict]:
    """One verdict an exact metric that either arm has."""
    names = list(dict.fromkeys([*pair.base.exact, *pair.new.exact]))
    for name in sorted(names, key=metrics.rank):
        if metrics.is_information(name) or not all(metrics.measured(name, arm.exact) for arm in (pair.base, pair.new)):
            continue
        sides = [_values(arm, name) for arm in (pair.base, pair.new)]
        if all(value is None for side in sides for value in side):
            continue
        if pair.base.acp != pair.new.acp and any(all(value is None for value in side) for side in sides):
            continue  # a transport has no such thing: nothing changed
        yield _verdict(
            pair,
            name,
            "exact",
            "unlike" if pair.likeness.refused else _exact_word(*sides),
            gated=gate.gates_exact(name),
            base=_shown(sides[0]),
            new=_shown(sides[1]),
            n=(len(sides[0]), len(sides[1])),
        )


def _values(arm: Arm, name: str) -> list[Any]:
    """One value a run."""
    found = arm.exact_of(name)
    return [None] * arm.n if found is None else found.values


def _exact_word(base: Sequence[Any], new: Sequence[Any]) -> Word:
    if not base or not new:
        return "insufficient"
    if not all(same(value, side[0]) for side in (base, new) for value in side):
        return "nondeterministic"
    return "same-exact" if same(base[0], new[0]) else "changed-exact"


def _shown(values: Sequence[Any]) -> Any:
    return values[0] if values and all(same(value, values[0]) for value in values) else list(values)


# sampled


@dataclass(frozen=True)
class _Draft:
    """A sampled metric of a pair, tested on its own."""

    pair: Pair
    metric: str
    rule: SampledRule
    gated: bool
    sides: tuple[Sampled, Sampled]
    test: stats.RankTest | None

    @property
    def sizes(self) -> tuple[int, int]:
        return self.sides[0].n, self.sides[1].n


def _sampled(pair: Pair, gate: Gate, family: Collection[Key] | None) -> Iterator[_Draft]:
    """Every sampled metric that either arm has, unless one transport has no such thing."""
    for name in dict.fromkeys([*pair.base.sampled, *pair.new.sampled]):
        sides = tuple(arm.sampled.get(name) or _NONE for arm in (pair.base, pair.new))
        sizes = [side.n for side in sides]
        if not any(sizes) or (pair.base.acp != pair.new.acp and not all(sizes)):
            continue
        rule = gate.rule(name)
        chosen = rule is not None if family is None else (pair.base.name, pair.new.name, name) in family
        if family is not None and not chosen:
            continue
        values = [side.values for side in sides]
        test = stats.rank_test(values[0], values[1]) if all(sizes) else None
        yield _Draft(pair, name, rule or SampledRule.model_construct(metric=name), chosen, (sides[0], sides[1]), test)


_NONE = Sampled(n=0, median=None, min=None, max=None, coverage=None, values=[])


def _size(drafts: Iterable[_Draft], *, gated: bool) -> int:
    return sum(draft.gated is gated for draft in drafts)


def _adjusted(drafts: Sequence[_Draft]) -> dict[int, float]:
    """Position of a draft -> p after Holm over its own family, where what cannot be tested counts as 1."""
    found: dict[int, float] = {}
    for gated in (True, False):
        own = [index for index, draft in enumerate(drafts) if draft.gated is gated]
        tests = [drafts[index].test for index in own]
        ps = [1.0 if test is None else test.p for test in tests]
        found.update(zip(own, stats.holm(ps), strict=True))
    return found


def _tested(pair: Pair, drafts: Sequence[_Draft], alpha: float) -> Iterator[MetricVerdict]:
    """The verdicts of one pair, adjusted over the families that the drafts of all pairs make."""
    adjusted = _adjusted(drafts)
    for index, draft in enumerate(drafts):
        if draft.pair is pair:
            yield _judged(draft, adjusted[index], _size(drafts, gated=draft.gated), alpha)


def _judged(draft: _Draft, adjusted: float, k: int, alpha: float) -> MetricVerdict:
    pair, (base, new) = draft.pair, draft.sides
    plain: dict[str, Any] = {
        "gated": draft.gated,
        "base": base.median,
        "new": new.median,
        "n": draft.sizes,
        "flags": ["noisy"] if noisy(base.values) or noisy(new.values) else [],
    }
    if pair.likeness.refused or pair.likeness.untimed:
        return _verdict(pair, draft.metric, "sampled", "unlike", **plain)
    if draft.test is None:
        needed = stats.required_n(alpha, k)
        return _verdict(pair, draft.metric, "sampled", "insufficient", required_n=needed, **plain)
    shift = stats.hodges_lehmann(base.values, new.values)
    plain |= {"shift": shift, "p": draft.test.p, "p_error": draft.test.error, "p_adjusted": adjusted}
    ratio: stats.RatioEstimate | None = None
    if min(base.values + new.values) > 0:
        ratio = stats.hodges_lehmann_ratio(base.values, new.values, 1 - alpha)
        plain |= {"ratio": ratio.ratio, "interval": (ratio.low, ratio.high), "confidence": ratio.confidence}
    if stats.smallest_p(*draft.sizes) >= alpha / k:
        needed = stats.required_n(alpha, k)
        return _verdict(pair, draft.metric, "sampled", "insufficient", required_n=needed, **plain)
    word = _sampled_word(adjusted < alpha, ratio.ratio if ratio is not None else None, shift, draft.rule)
    return _verdict(pair, draft.metric, "sampled", word, **plain)


def _sampled_word(significant: bool, ratio: float | None, shift: float, rule: SampledRule) -> Word:
    """A ratio at the threshold itself is within it; up and down are measured alike: 1.05 and 1 / 1.05 at 5 %."""
    if not significant:
        return "no-difference-detected"
    if ratio is not None and abs(math.log(ratio)) <= math.log1p(rule.threshold) * (1 + 1e-12):
        return "within-threshold"
    return "regressed" if (shift > 0) is (rule.worse == "higher") else "improved"


def noisy(values: Sequence[float]) -> bool:
    """Whether an arm's runs scatter too much to be trusted, or the first run was still warming up.

    Range over median above NOISY_RANGE, or a first run that is the slowest and more than NOISY_MADS (scaled) median
    absolute deviations above the median. Where the deviation is 0 nothing is said: everything would be far out.
    """
    if len(values) < 2:
        return False
    median = statistics.median(values)
    if median > 0 and (max(values) - min(values)) / median > NOISY_RANGE:
        return True
    mad = _MAD_SCALE * statistics.median(abs(value - median) for value in values)
    return mad > 0 and values[0] == max(values) and values[0] - median > NOISY_MADS * mad


def _verdict(pair: Pair, metric: str, kind: Literal["exact", "sampled"], word: Word, **fields: Any) -> MetricVerdict:
    return MetricVerdict(arm=pair.new.name, base_arm=pair.base.name, metric=metric, kind=kind, verdict=word, **fields)


# what a reader must know
