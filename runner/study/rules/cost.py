"""Rows 7 and 7b: what the boundary costs, and the question three runs of a live model could not answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runner.analysis.stats import RatioEstimate, hodges_lehmann_ratio, summarise
from runner.study.model import ClaimFinding, Judgement, Reference, Table
from runner.study.rules.capabilities import STANDARD, other, standard
from runner.study.runs import LoadedRun, Study, groups
from runner.study.verdicts import finding, not_measured, plural

#: Runs a side that the design asks for.
ENOUGH = 10
#: A difference smaller than this is none that anybody would feel.
NEGLIGIBLE = 0.10
CONFIDENCE = 0.95

FULL, NONE, CLI = "acp", "acp without capabilities", "cli"


def findings(study: Study) -> list[ClaimFinding]:
    sides = _sides(study)
    with_caps, without, cli = sides[FULL], sides[NONE], sides[CLI]
    return [
        _handshake(study, [run for run in study.acp if run.plain and not other(run)]),
        _turn(study, sides),
        _question(study, "question-capabilities", "agent_ms", [(FULL, with_caps, NONE, without)]),
        _question(study, "question-active", "active_ms", [(FULL, with_caps, CLI, cli), (NONE, without, CLI, cli)]),
        _question(study, "question-result", "to_result_ms", [(FULL, with_caps, CLI, cli), (NONE, without, CLI, cli)]),
        _resources(study, sides),
        _tokens(study),
    ]


def _sides(study: Study) -> dict[str, list[LoadedRun]]:
    """The three surfaces of one comparison: runs that differ in the surface alone.

    Of several such groups the one with most runs on its smallest side is the one that was meant to be timed.
    """
    empty: dict[str, list[LoadedRun]] = {FULL: [], NONE: [], CLI: []}
    best = empty
    passed = [run for run in study.runs if run.record.outcome == "passed" and (run.plain if run.acp else True)]
    for group in groups(passed, _situation).values():
        sides = {
            FULL: [r for r in group if r.acp and len(standard(r)) == len(STANDARD) and not other(r)],
            NONE: [r for r in group if r.acp and not standard(r) and not other(r)],
            CLI: [r for r in group if not r.acp],
        }
        if _size(sides) > _size(best):
            best = sides
    return best


def _size(sides: dict[str, list[LoadedRun]]) -> tuple[int, int]:
    counts = [len(side) for side in sides.values()]
    return sum(count > 0 for count in counts), min((count for count in counts if count), default=0)


def _situation(run: LoadedRun) -> tuple[str, ...]:
    record = run.record
    return record.fixture, record.model, record.reset, record.policy


def _values(runs: Sequence[LoadedRun], metric: str) -> list[tuple[LoadedRun, float]]:
    return [(run, value) for run in runs if (value := run.record.sampled.get(metric)) is not None]


def _range(values: Sequence[float], digits: int = 0) -> str:
    found = summarise(values)
    if found is None:
        return "-"
    return f"{found.median:,.{digits}f} [{found.min:,.{digits}f}-{found.max:,.{digits}f}]"


def _figures(values: Sequence[float]) -> dict[str, Any] | None:
    found = summarise(values)
    if found is None:
        return None
    return {"n": found.n, "median": found.median, "min": found.min, "max": found.max, "values": list(found.values)}


def _handshake(study: Study, runs: list[LoadedRun]) -> ClaimFinding:
    found = _values(runs, "handshake_ms")
    if not found:
        return not_measured(study, "handshake", "no plain ACP run opened a session")
    values = [value for _, value in found]
    limits = ["a time of this machine: it says nothing for or against the agent"]
    if len(values) < ENOUGH:
        limits.append(f"{plural(len(values), 'run')}, {ENOUGH} are asked for")
    seqs = [(run, run.handshake.opened_seq, value) for run, value in found]
    return finding(
        study,
        "handshake",
        "information",
        f"median {_range(values)} ms, {plural(len(values), 'run')}",
        figures={"handshake_ms": _figures(values), "handshake": len(values)},
        evidence=[run.frame(seq, "handshake", f"{value:.1f} ms") for run, seq, value in seqs if seq is not None],
        limits=limits,
        unit="runs",
        n=len(values),
    )


def _turn(study: Study, sides: dict[str, list[LoadedRun]]) -> ClaimFinding:
    """Equal work is judged exactly; the times are beside it, for what they are."""
    if not all(sides.values()):
        lacking = ", ".join(name for name, runs in sides.items() if not runs)
        return not_measured(study, "turn", f"no group of runs that differ in the surface alone has: {lacking}")
    evidence: list[Reference] = []
    parts: list[str] = []
    figures: dict[str, Any] = {}
    work: dict[str, set[tuple[Any, Any]]] = {}
    for name, runs in sides.items():
        work[name] = {
            (run.record.exact.get("tool_calls_served"), run.record.exact.get("tokens_served")) for run in runs
        }
        times = [value for _, value in _values(runs, "turn_ms")]
        figures[name] = {"turn_ms": _figures(times), "work": sorted(map(list, work[name]))}
        evidence += [
            run.member("exact.tokens_served", name, str(run.record.exact.get("tokens_served"))) for run in runs
        ]
        tokens = "/".join(sorted({f"{count[1] or 0:,}" for count in work[name]}))
        calls = "/".join(sorted({str(count[0]) for count in work[name]}))
        parts.append(f"{name} {_range(times)} ms, {tokens} tokens, {calls} calls")
        figures[f"n {name}"] = len(runs)
    same = len({work_done for found in work.values() for work_done in found}) == 1
    return finding(
        study,
        "turn",
        "holds" if same else "does-not-hold",
        "; ".join(parts),
        figures=figures,
        evidence=evidence,
        limits=[] if same else ["the surfaces do not do the same work"],
        unit="runs a surface",
        n=min(map(len, sides.values())),
        tables=[_costs(sides)],
    )


#: Metric -> (its name in the table, decimals).
_COSTS = {
    "handshake_ms": ("handshake ms", 0),
    "turn_ms": ("turn ms", 0),
    "to_result_ms": ("to_result ms", 0),
    "active_ms": ("active ms", 0),
    "agent_ms": ("agent ms", 0),
    "peak_anon_mb": ("memory MB", 0),
    "cpu_s": ("cpu s", 2),
}


def _costs(sides: dict[str, list[LoadedRun]]) -> Table:
    """Every figure of every surface, median and range."""
    rows = [
        [name, *(_range([value for _, value in _values(runs, metric)], digits) for runs in sides.values())]
        for metric, (name, digits) in _COSTS.items()
    ]
    title = "Cost of a surface, median [min-max]: the same repair, in random blocks"
    return Table(title=title, headers=["", *(f"{name}, n={len(runs)}" for name, runs in sides.items())], rows=rows)


_Pair = tuple[str, list[LoadedRun], str, list[LoadedRun]]


def _question(study: Study, identity: str, metric: str, pairs: Sequence[_Pair]) -> ClaimFinding:
    """new / base by Hodges and Lehmann with its exact interval. The hypothesis is no difference.

    It holds where the interval lies within 10 % of 1, with limits where it holds 1 but is wider, else it does not.
    """
    evidence: list[Reference] = []
    parts: list[str] = []
    limits: list[str] = []
    verdicts: list[Judgement] = []
    figures: dict[str, Any] = {}
    counts: list[int] = []
    for name, runs, base_name, base_runs in pairs:
        new, base = _values(runs, metric), _values(base_runs, metric)
        if not new or not base:
            continue
        ratio = hodges_lehmann_ratio([value for _, value in base], [value for _, value in new])
        counts += [len(new), len(base)]
        said, limit, verdict = _ratio(f"{name} / {base_name}", ratio)
        if ratio.confidence < CONFIDENCE:
            verdict, limit = "not-measured", [f"{name} / {base_name}: so few runs give no 95 % interval"]
        parts.append(f"{said}, n={len(new)} against {len(base)}")
        limits += limit
        verdicts.append(verdict)
        figures[f"{name} / {base_name}"] = {
            "ratio": ratio.ratio,
            "low": ratio.low,
            "high": ratio.high,
            "confidence": ratio.confidence,
            "base": [value for _, value in base],
            "new": [value for _, value in new],
        }
        for side, found in ((name, new), (base_name, base)):
            shown = {(reference.run, reference.shows) for reference in evidence}
            evidence += [
                run.member(f"sampled.{metric}", side, f"{value:.1f}")
                for run, value in found
                if (run.name, side) not in shown
            ]
    if not parts:
        sides = {name: side for pair in pairs for name, side in (pair[:2], pair[2:])}
        lacking = [name for name, side in sides.items() if not side]
        why = f"no group of runs that differ in the surface alone has: {', '.join(lacking)}" if lacking else ""
        return not_measured(study, identity, why or f"no two surfaces in one situation have {metric}")
    if min(counts) < ENOUGH:
        limits.append(f"n={min(counts)} on one side, {ENOUGH} are asked for")
    worst = max(verdicts, key=("holds", "holds-with-limits", "does-not-hold", "not-measured").index)
    return finding(
        study,
        identity,
        "holds-with-limits" if worst == "holds" and min(counts) < ENOUGH else worst,
        f"{metric}: " + "; ".join(parts),
        figures=figures,
        evidence=evidence,
        limits=limits,
        unit="runs a side",
        n=min(counts),
    )


def _ratio(names: str, ratio: RatioEstimate) -> tuple[str, list[str], Judgement]:
    said = f"{names} {ratio.ratio:.3f} [{ratio.low:.3f}-{ratio.high:.3f}] at {100 * ratio.confidence:.1f} %"
    if not ratio.low <= 1.0 <= ratio.high:
        slower = "slower" if ratio.ratio > 1 else "faster"
        by = sorted((abs(ratio.low - 1), abs(ratio.high - 1)))
        return said, [f"{names}: {slower} by {100 * by[0]:.1f} to {100 * by[1]:.1f} %"], "does-not-hold"
    if ratio.low < 1 - NEGLIGIBLE or ratio.high > 1 + NEGLIGIBLE:
        low, high = 100 * (ratio.low - 1), 100 * (ratio.high - 1)
        message = f"{names}: no difference shown, {low:+.1f} to {high:+.1f} % not excluded"
        return said, [message], "holds-with-limits"
    return f"{said}, no difference beyond {100 * NEGLIGIBLE:.0f} %", [], "holds"


def _resources(study: Study, sides: dict[str, list[LoadedRun]]) -> ClaimFinding:
    acp, cli = sides[FULL] + sides[NONE], sides[CLI]
    evidence: list[Reference] = []
    parts: list[str] = []
    limits: list[str] = []
    figures: dict[str, Any] = {}
    counts: list[int] = []
    more, enough = False, True
    for metric, digits, unit in (("peak_anon_mb", 0, "MB"), ("cpu_s", 2, "s")):
        new, base = _values(acp, metric), _values(cli, metric)
        if not new or not base:
            continue
        counts += [len(new), len(base)]
        ratio = hodges_lehmann_ratio([value for _, value in base], [value for _, value in new])
        enough &= ratio.confidence >= CONFIDENCE
        more |= ratio.low > 1
        here, there = _range([value for _, value in new], digits), _range([value for _, value in base], digits)
        parts.append(
            f"{metric} {here} against {there} {unit} on the CLI, ratio "
            f"{ratio.ratio:.2f} [{ratio.low:.2f}-{ratio.high:.2f}]"
        )
        figures[metric] = {
            "acp": _figures([v for _, v in new]),
            "cli": _figures([v for _, v in base]),
            "ratio": [ratio.ratio, ratio.low, ratio.high, ratio.confidence],
        }
        if ratio.low > 1:
            limits.append(f"ACP needs more {metric}: {100 * (ratio.low - 1):.0f} to {100 * (ratio.high - 1):.0f} %")
        evidence += [run.member(f"sampled.{metric}", f"{metric} acp", f"{value:.2f}") for run, value in new]
        evidence += [run.member(f"sampled.{metric}", f"{metric} cli", f"{value:.2f}") for run, value in base]
    if not parts:
        return not_measured(study, "resources", "no ACP and CLI runs in one situation")
    if not enough:
        limits = ["so few runs give no 95 % interval"]
    return finding(
        study,
        "resources",
        "not-measured" if not enough else "does-not-hold" if more else "holds",
        "; ".join(parts),
        figures=figures,
        evidence=evidence,
        limits=limits,
        unit="runs a side",
        n=min(counts),
    )


def _tokens(study: Study) -> ClaimFinding:
    """Reported by the agent against served by the gateway, run by run."""
    known = [
        run
        for run in study.runs
        if run.record.outcome == "passed"
        and run.record.exact.get("tokens_reported") is not None
        and run.record.exact.get("tokens_served") is not None
        and not any(entry.subagent for entry in run.journal.entries)
    ]
    silent = [r for r in study.runs if r.record.outcome == "passed" and r.record.exact.get("tokens_reported") is None]
    asked = len(known) + len(silent)
    if not asked:
        return not_measured(study, "tokens", "no run that was served tokens passed")
    equal = [run for run in known if run.record.exact["tokens_reported"] == run.record.exact["tokens_served"]]
    evidence = [
        run.member(
            "exact.tokens_reported", "equal" if run in equal else "unequal", str(run.record.exact["tokens_reported"])
        )
        for run in known
    ]
    off = sorted(
        {run.record.exact["tokens_reported"] - run.record.exact["tokens_served"] for run in known if run not in equal}
    )
    served = [run for run in silent if run.record.exact.get("tokens_served") is not None]
    evidence += [
        run.member("exact.tokens_served", "served, none reported", str(run.record.exact["tokens_served"]))
        for run in served
    ]
    limits = [f"off by {', '.join(f'{n:+,}' for n in off[:4])}"] if off else []
    if silent:
        limits.append(f"none reported in {plural(len(silent), 'run')}")
    return finding(
        study,
        "tokens",
        "holds"
        if not limits
        else "holds-with-limits"
        if len(equal) * 2 > len(known) + len(silent)
        else "does-not-hold",
        f"reported as served in {len(equal)} of {plural(len(known) + len(silent), 'run')} that passed",
        figures={
            "equal": len(equal),
            "unequal": len(known) - len(equal),
            "served, none reported": len(served),
        },
        evidence=evidence,
        limits=limits,
        unit="runs",
        n=asked,
    )
