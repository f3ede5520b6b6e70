"""What a reader of a comparison must know beside its verdicts."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Mapping, Sequence

from runner.analysis import flaky
from runner.analysis.comparison import MetricVerdict, Pair
from runner.analysis.report import TIMES_LEFT_OUT, Arm, Warning
from runner.config.gate import Gate
from runner.evidence import metrics


def _unmeasured(pair: Pair) -> list[str]:
    """Metrics, and maps of them, that one arm's report is too old to have."""
    names = [name for arm in (pair.base, pair.new) for name in arm.exact if not metrics.is_information(name)]
    sides = (pair.base.exact, pair.new.exact)
    missing = (name for name in names if not all(metrics.measured(name, side) for side in sides))
    return sorted({f"{name.partition('.')[0]}.*" if "." in name else name for name in missing})


def comparison_warnings(pairs: Sequence[Pair], verdicts: Sequence[MetricVerdict], alpha: float) -> Iterator[Warning]:
    said: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs:
        likeness = pair.likeness
        if likeness.refused:
            said.setdefault(("unlike", f"not comparable: {'; '.join(likeness.refused)}"), []).append(pair)
        elif likeness.untimed:
            said.setdefault(("unlike", f"times are not compared: {'; '.join(likeness.untimed)}"), []).append(pair)
        for note in likeness.noted:
            said.setdefault(("noted", note), []).append(pair)
        if unmeasured := _unmeasured(pair):
            listed = ", ".join(unmeasured)
            said.setdefault(("not-measured", f"not compared, one side is older than them: {listed}"), []).append(pair)
    for (name, message), concerned in said.items():
        whose = "" if len(concerned) == len(pairs) else ", ".join(pair.new.name for pair in concerned) + ": "
        yield Warning(id=name, message=whose + message)
    for arm in arms_of(pairs):
        if arm.unexpected:
            ended = ", ".join(f"{count} {outcome}" for outcome, count in arm.outcomes.items())
            yield Warning(
                id="unexpected-outcome",
                message=f"{arm.name}: {arm.unexpected} of {arm.planned} planned runs did not end as expected ({ended})",
            )
        yield from (warning for warning in arm.warnings if warning.id == TIMES_LEFT_OUT)
    yield from _flaky(pairs)
    few: dict[tuple[tuple[int, int], int], list[MetricVerdict]] = {}
    for verdict in verdicts:
        if verdict.gated and verdict.verdict == "insufficient" and verdict.required_n is not None:
            few.setdefault((verdict.n, verdict.required_n), []).append(verdict)
    for (n, needed), those in few.items():
        listed = ", ".join(dict.fromkeys(verdict.metric for verdict in those))
        yield Warning(
            id="insufficient",
            message=f"{n[0]} v {n[1]} runs cannot tell ({listed}): {needed} a side could, at {100 * alpha:g} % "
            "over all gated metrics",
        )
    for verdict in verdicts:
        if verdict.p_error and verdict.p_adjusted is not None and verdict.p:
            error = verdict.p_error * verdict.p_adjusted / verdict.p
            if abs(verdict.p_adjusted - alpha) < 3 * error:
                message = f"{verdict.metric}: p = {verdict.p_adjusted:.4f} is sampled (standard error {error:.4f})"
                yield Warning(id="sampled-p", message=f"{message}: too near to {alpha:g}", metric=verdict.metric)


def _flaky(pairs: Sequence[Pair]) -> Iterator[Warning]:
    """Workspaces with more than one verdict, inside an arm or across a pair: that difference is the verifier's."""
    told: dict[str, None] = {}
    for arm in arms_of(pairs):
        told.update((warning.message, None) for warning in arm.warnings if warning.id == flaky.ID)
    for pair in pairs:
        for name in flaky.differing(pair.base.workspaces, pair.new.workspaces):
            told[
                f"{pair.new.name}: the same workspace (tree {name[:12]}) got other verdicts on both sides: it is the "
                f"verifier of fixture {pair.new.fixture} that differs, not what is compared"
            ] = None
    yield from (Warning(id=flaky.ID, message=message) for message in told)


def idle_gate_warnings(gate: Gate, verdicts: Sequence[MetricVerdict]) -> Iterator[Warning]:
    """What a gate asks for and no arm has: a name that was misspelt gates nothing, every night."""
    names = [verdict.metric for verdict in verdicts if verdict.kind == "exact"]
    for glob in gate.exact:
        if not fnmatch.filter(names, glob):
            yield Warning(id="gates-nothing", message=f"gate {gate.id}: exact '{glob}' fits no metric of these arms")


def arms_of(pairs: Iterable[Pair]) -> list[Arm]:
    """Every arm once."""
    found: Mapping[int, Arm] = {id(arm): arm for pair in pairs for arm in (pair.base, pair.new)}
    return list(found.values())
