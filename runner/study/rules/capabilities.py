"""Row 2: what the client's capabilities change, one by one."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from runner.acp.methods import declared
from runner.evidence.metrics import is_information
from runner.evidence.tally import tally
from runner.study.model import ClaimFinding, Reference, Table
from runner.study.runs import LoadedRun, Study, groups
from runner.study.verdicts import counted, few, finding, not_measured, plural, verdict_of

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


def findings(study: Study) -> list[ClaimFinding]:
    return [no_capabilities(study)]


def no_capabilities(study: Study) -> ClaimFinding:
    """Arms that differ in nothing but what the client declared, compared value by value: metrics, shapes, effects.

    What runs that declare the same do not agree on is no effect of what they declare: a limit, not a counter-example.
    """
    best, unsteady = _compared(study)
    if not best:
        return not_measured(study, "no-capabilities", "no two arms differ in the declared capabilities alone")
    evidence: list[Reference] = []
    differences: list[str] = []
    varying: list[str] = []
    sets: set[tuple[str, ...]] = set()
    for base, run in best:
        sets |= {standard(base), standard(run)}
        changed = _differences(base, run)
        steady = [difference for difference in changed if difference[0] not in unsteady[run.name]]
        for what, here, there in steady:
            differences.append(f"{what}: {here} without, {there} with {_named(standard(run))}")
        varying += [what for what, *_ in changed if what in unsteady[run.name]]
        evidence.append(_shape_reference(run, "differs" if steady else "varies" if changed else "same"))
    evidence += [_shape_reference(base, "base") for base in {id(base): base for base, _ in best}.values()]
    same = counted(evidence, "same")
    bare = {run.name: run.record for pair in best for run in pair if not standard(run)}
    ended = [record.outcome == "passed" for record in bare.values() if record.expect == "passed"]
    shape = Counter(step[0] for step in tool_shape(best[0][0]))
    text = ", ".join(f"{count} {kind}" for kind, count in sorted(shape.items()))
    return finding(
        study,
        "no-capabilities",
        verdict_of(fails=differences, limited=varying),
        f"without capabilities {sum(ended)} of {plural(len(ended), 'repair')} passed the tests; "
        f"{same} of {plural(len(best), 'other run')} equal one without in every exact metric, "
        f"tool shape ({text}) and effect; "
        f"compared: {'; '.join(sorted(map(_named, sets)))}"
        + (f"; they differ in {few((d.partition(':')[0] for d in differences), 6)}" if differences else ""),
        shown=("same", "differs", "varies", "base"),
        figures={
            "passed-without": sum(ended),
            "shape": dict(shape),
            "differences": sorted(set(differences)),
            "varying": sorted(set(varying)),
        },
        evidence=evidence,
        unit="runs",
        n=len(best),
        limits=sorted(set(differences))[:8]
        + ([f"differs between runs that declare the same, too: {few(sorted(set(varying)))}"] if varying else []),
        tables=[_ablation(study)],
    )


def _compared(study: Study) -> tuple[list[tuple[LoadedRun, LoadedRun]], dict[str, set[str]]]:
    """Pairs of a run without capabilities and another of its situation; and run name -> what varies there anyway."""
    pairs: list[tuple[LoadedRun, LoadedRun]] = []
    unsteady: dict[str, set[str]] = {}
    for group in groups((run for run in study.acp if run.plain and not other(run)), _situation).values():
        without = [run for run in group if not standard(run)]
        if without:
            unsteady |= dict.fromkeys((run.name for run in group), _unsteady(group))
            pairs += [(without[0], run) for run in group if standard(run)]
            if any(standard(run) for run in group):
                pairs += [(without[0], run) for run in without[1:]]
    return pairs, unsteady


def _unsteady(group: list[LoadedRun]) -> set[str]:
    """What runs of one situation that declare the same differ in."""
    found: set[str] = set()
    for first, *others in groups(group, standard).values():
        for run in others:
            found |= {what for what, *_ in _differences(first, run)}
    return found


def _ablation(study: Study) -> Table:
    """Every set of capabilities against none, vendors' keys too: they may change what is said of a call."""
    rows: dict[str, list[tuple[LoadedRun, LoadedRun]]] = {}
    for group in groups((run for run in study.acp if run.plain), _situation).values():
        base = next((run for run in group if _said(run) == "none"), None)
        if base is not None and len({_said(run) for run in group}) > 1:
            for run in (run for run in group if run is not base):
                rows.setdefault(_said(run), []).append((base, run))
    cells = []
    for name, pairs in sorted(rows.items(), key=lambda row: (row[0] != "none", row[0])):
        changed = [[what for what, *_ in _differences(base, run)] for base, run in pairs]
        shapes = sum("tool shape" not in difference for difference in changed)
        effects = sum(not {"files", "tests"} & set(difference) for difference in changed)
        moved = dict.fromkeys(
            what for difference in changed for what in difference if what not in ("tool shape", "files", "tests")
        )
        passed = sum(run.record.outcome == run.record.expect for _, run in pairs)
        share = [f"{count}/{len(pairs)}" for count in (passed, shapes, effects)]
        cells.append([name, *share, few(moved, 3) or "none"])
    headers = ["declared", "ended as expected", "same tool shape", "same effect", "metrics that differ"]
    return Table(
        title="Capability ablation: runs held against one without any, in the same task", headers=headers, rows=cells
    )


def _said(run: LoadedRun) -> str:
    """All that a run declared, for a reader."""
    known = [] if not standard(run) else [_named(standard(run))]
    known += [f"_meta.{key}" for key in vendor(run)]
    return "+".join(known + sorted(set(run.declared) - {"fs", "terminal", "_meta"})) or "none"


def _named(capabilities: tuple[str, ...]) -> str:
    """Standard capabilities; both of `fs` by that name."""
    names = ["fs", *capabilities[2:]] if capabilities[:2] == STANDARD[:2] else capabilities
    return "+".join(names) or "none"


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
    answers = [m.seq for m in run.conversation if m.method == "session/prompt" and m.answers is not None]
    turn = run.conversation.between(-1, answers[-1] + 1) if answers else run.conversation
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
