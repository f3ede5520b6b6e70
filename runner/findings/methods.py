"""Rows 1 and 2: what crosses the wire, and what the client's capabilities change."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from runner.acp.gates import declared
from runner.evidence.callbacks import callbacks
from runner.evidence.metrics import is_information
from runner.evidence.tally import tally
from runner.findings.actions import actions, distinct
from runner.findings.judge import few, finding, not_measured, plural
from runner.findings.loaded import LoadedRun, Study, groups
from runner.findings.model import Finding, Reference
from runner.findings.rates import rate, said

#: The standard capabilities that let an agent use the client's files and terminals.
STANDARD = ("fs.readTextFile", "fs.writeTextFile", "terminal")


def standard(run: LoadedRun) -> tuple[str, ...]:
    """The standard capabilities that a run declared."""
    return tuple(path for path in STANDARD if declared(run.declared, path))


def vendor(run: LoadedRun) -> dict[str, Any]:
    """The vendor's keys that a run declared."""
    meta = run.declared.get("_meta")
    return meta if isinstance(meta, dict) else {}


def other(run: LoadedRun) -> bool:
    """Whether it declared anything beyond files and terminals."""
    return bool(set(run.declared) - {"fs", "terminal"})


def findings(study: Study) -> list[Finding]:
    return [own_io(study), frames_of_a_run(study), no_capabilities(study)]


def own_io(study: Study) -> Finding:
    """The unit is the distinct action that reads, writes or runs; what counts is that it took effect without us."""
    runs = [run for run in study.acp if len(standard(run)) == len(STANDARD)]
    if not runs:
        return not_measured(study, "own-io", "no run declares fs and terminal")
    evidence: list[Reference] = []
    methods: Counter[str] = Counter()
    mediated: set[tuple[str, str]] = set()
    served = distinct(
        action
        for run in runs
        for action in actions(run)
        if action.verb != "other" and action.result is not None and action.allowed is not False
    )
    for run in runs:
        for call in callbacks(run.messages):
            if not call.method.startswith(("fs/", "terminal/")):
                continue
            methods[call.method] += 1
            evidence.append(run.frame(call.seq, "client-calls", call.method))
            path, command = call.params.get("path"), call.params.get("command")
            mediated |= {key for key in served if path == key[1] or (command is not None and command == key[1])}
            mediated |= {key for key, found in served.items() for a in found if path is not None and a.path == path}
    total = sum(methods.values())
    for found in served.values():
        action = found[0]
        assert action.result is not None
        if action.key not in mediated:
            evidence.append(action.run.model(action.result[0], "own-io", action.what))
    bound = rate(len(mediated), len(served))
    if total == 0 and not served:
        return not_measured(study, "own-io", "in no run with fs and terminal did an action take effect")
    figures = {
        "client-calls": total,
        "own-io": len(served) - len(mediated),
        "runs": len(runs),
        "methods": dict(methods),
    }
    made = f" ({', '.join(f'{name} {count}' for name, count in sorted(methods.items()))})" if methods else ""
    return finding(
        study,
        "own-io",
        "holds" if total == 0 else "does-not-hold",
        f"{plural(total, 'call')}{made} in {plural(len(runs), 'run')} with fs and terminal declared; "
        f"of the actions that took effect, through the client: {said(bound)}",
        figures=figures,
        evidence=evidence,
        unit="distinct actions that took effect",
        bound=bound,
    )


def frames_of_a_run(study: Study) -> Finding:
    plain = [run for run in study.acp if run.plain and run.record.outcome == "passed" and run.prompt_seq is not None]
    if not plain:
        return not_measured(study, "frames-of-a-run", "no plain ACP run passed")
    # What was done most often speaks for the rest: one fixture, one script.
    runs = max(groups(plain, lambda run: (run.record.fixture, run.record.model)).values(), key=len)
    counted = {run.name: tally(run.messages) for run in runs}
    shown = sorted(runs, key=lambda run: counted[run.name].frames)[len(runs) // 2]
    of = counted[shown.name]
    once = all(of.client.get(method) == 1 for method in _EXPECTED)
    asked = of.agent.get("session/request_permission", 0)
    answered = sum(ask.answered_seq is not None for ask in shown.asks)
    evidence = [shown.frame(message.seq, _label(message)) for message in shown.messages]
    counts = Counter(one.shows for one in evidence)
    figures: dict[str, Any] = {**counts, "frames": of.frames, "updates": of.updates, "sweep": _sum(counted.values())}
    per_run = sorted(found.frames for found in counted.values())
    limits = [] if once and asked == answered else ["a request is made more than once, or an ask is not answered"]
    # Some updates are free to come after the response; how many our quiet window sees is no judgement.
    late = sum(found.late_updates for found in counted.values())
    made = ", ".join(f"{name} {of.client.get(name, 0)}" for name in _EXPECTED)
    ours = {name: count for name, count in of.client.items() if name not in _EXPECTED and not name.startswith("<")}
    extra = "".join(f", {name} {count}" for name, count in sorted(ours.items()))
    return finding(
        study,
        "frames-of-a-run",
        "does-not-hold" if not once else "holds-with-limits" if limits else "holds",
        f"{of.frames} frames: {made}{extra}, results {of.agent.get('<result>', 0)}, "
        f"session/update {of.agent.get('session/update', 0)}, request_permission {asked}, answers {answered}; "
        f"{per_run[0]}-{per_run[-1]} frames over {plural(len(runs), 'run')}, {late} updates after the response",
        figures=figures,
        evidence=evidence,
        limits=limits,
        unit="runs",
        n=len(runs),
    )


_EXPECTED = ("initialize", "session/new", "session/prompt")


def _label(message: Any) -> str:
    """`->` what the client sent, `<-` the agent."""
    arrow = "->" if message.sender == "client" else "<-"
    name = (message.method or "invalid") if message.kind in ("request", "notification") else message.kind
    return f"{arrow} {name}"


def _sum(tallies: Any) -> dict[str, dict[str, int]]:
    both: dict[str, Counter[str]] = {"client": Counter(), "agent": Counter(), "updates": Counter()}
    for found in tallies:
        both["client"] += Counter(found.client)
        both["agent"] += Counter(found.agent)
        both["updates"] += Counter(found.updates)
    return {name: dict(sorted(counts.items())) for name, counts in both.items()}


def no_capabilities(study: Study) -> Finding:
    """Arms that differ in nothing but what the client declared, compared value by value: metrics, shapes, effects."""
    best: list[tuple[LoadedRun, LoadedRun]] = []
    for group in groups((run for run in study.acp if run.plain and not other(run)), _situation).values():
        without = [run for run in group if not standard(run)]
        if without:
            best += [(without[0], run) for run in group if standard(run)]
            if any(standard(run) for run in group):
                best += [(without[0], run) for run in without[1:]]
    if not best:
        return not_measured(study, "no-capabilities", "no two arms differ in the declared capabilities alone")
    evidence: list[Reference] = []
    differences: list[str] = []
    sets: set[tuple[str, ...]] = set()
    for base, run in best:
        sets |= {standard(base), standard(run)}
        changed = _differences(base, run)
        for what, here, there in changed:
            differences.append(f"{what}: {here} without, {there} with {_named(standard(run))}")
        evidence.append(_shape_reference(run, "differs" if changed else "same"))
    evidence += [_shape_reference(base, "base") for base in {id(base): base for base, _ in best}.values()]
    bases = [one for one in evidence if one.shows == "base"]
    passed = [run for group in best for run in group if not standard(run) and run.record.outcome == "passed"]
    same = sum(one.shows == "same" for one in evidence)
    shape = Counter(step[0] for step in tool_shape(best[0][0]))
    text = ", ".join(f"{count} {kind}" for kind, count in sorted(shape.items()))
    return finding(
        study,
        "no-capabilities",
        "does-not-hold" if differences else "holds",
        f"{same} of {len(best)} runs equal the run without capabilities in every exact metric, tool shape ({text}) and "
        f"effect; compared: {'; '.join(sorted(map(_named, sets)))}"
        + (f"; they differ in {few((d.partition(':')[0] for d in differences), 6)}" if differences else ""),
        figures={
            "same": same,
            "differs": len(best) - same,
            "base": len(bases),
            "passed-without": len({run.name for run in passed}),
            "shape": dict(shape),
            "differences": sorted(set(differences)),
        },
        evidence=evidence,
        unit="runs",
        n=len(best),
        limits=sorted(set(differences))[:8],
    )


def _named(capabilities: tuple[str, ...]) -> str:
    return "+".join(capabilities) or "none"


def _situation(run: LoadedRun) -> tuple[Any, ...]:
    """All that shapes a run but its client's capabilities."""
    record = run.record
    return (record.fixture, record.policy, record.model, record.reset, run.mode, run.record.pristine)


def tool_shape(run: LoadedRun) -> list[tuple[str, str, str, str, bool]]:
    """Per tool call in order: kind, title, input, final status, asked."""
    return [
        (
            call.kind or "other",
            call.title or "",
            json.dumps(call.raw_input, sort_keys=True),
            call.status or "",
            call.asks > 0,
        )
        for call in run.tool_calls.values()
    ]


def _effects(run: LoadedRun) -> dict[str, Any]:
    verdict = run.record.verdict
    if verdict is None:
        return {}
    return {
        "files": [(change.path, change.status, change.after) for change in verdict.changes],
        "tests": (verdict.tests, verdict.passes, verdict.failures),
    }


def _exact(run: LoadedRun) -> dict[str, Any]:
    """The compared metrics; updates are counted to the turn's end: what comes after it races our quiet window."""
    ends = [m.seq for m in run.messages if m.method == "session/prompt" and m.answers is not None]
    turn = [message for message in run.messages if not ends or message.seq <= ends[-1]]
    found = {name: value for name, value in run.record.exact.items() if not is_information(name)}
    found = {name: value for name, value in found.items() if not name.startswith("updates.")}
    return found | {f"updates.{kind}": count for kind, count in tally(turn).updates.items()}


def _differences(base: LoadedRun, run: LoadedRun) -> list[tuple[str, Any, Any]]:
    """What differs: (name, without, with)."""
    one, two = _exact(base), _exact(run)
    found = [
        (name, one.get(name, 0), two.get(name, 0))
        for name in sorted(one.keys() | two.keys())
        if one.get(name, 0) != two.get(name, 0)
    ]
    here, there = tool_shape(base), tool_shape(run)
    if here != there:
        at = next(
            (i for i, pair in enumerate(zip(here, there, strict=False)) if pair[0] != pair[1]),
            min(len(here), len(there)),
        )
        found.append(("tool shape", _call_at(here, at), _call_at(there, at)))
    effects, others = _effects(base), _effects(run)
    found += [(name, effects.get(name), others.get(name)) for name in effects if effects[name] != others.get(name)]
    return found


def _call_at(shape: list[tuple[str, str, str, str, bool]], at: int) -> str:
    return " ".join(map(str, shape[at][:2])) if at < len(shape) else "no call"


def _shape_reference(run: LoadedRun, shows: str) -> Reference:
    """The frame that declared the capabilities: with it the reader has the run and all that is compared."""
    assert run.initialize_seq is not None
    return run.frame(run.initialize_seq, shows, _named(standard(run)))
