"""Row 6: what crosses during a turn beside the tool calls themselves: usage, full output, plans and thoughts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from runner.study.actions import Action, actions
from runner.study.advertised import NONE_OPENED, opened
from runner.study.model import ClaimFinding, Reference
from runner.study.rates import rate, said
from runner.study.runs import LoadedRun, Study
from runner.study.verdicts import few, finding, not_measured, plural, verdict_of
from runner.wire.values import as_list, as_object, as_text

_THOUGHT, _PLANS = "agent_thought_chunk", ("plan", "plan_update")
_IDS = ("usage-updates", "tool-output", "plan-thought")


def findings(study: Study) -> list[ClaimFinding]:
    runs = opened(study)
    if not runs:
        return [not_measured(study, identity, NONE_OPENED) for identity in _IDS]
    return [_usage(study, runs), _output(study, runs), _plan_thought(study, runs)]


def _turns(run: LoadedRun) -> list[tuple[int, int]]:
    """(prompt's seq, its result's seq)."""
    return [
        (turn.request.seq, turn.response.seq)
        for turn in run.conversation.requests("client", "session/prompt")
        if turn.response is not None
    ]


#: Model requests of a run in which live usage can be told from a figure at the end.
_OFTEN = 3


def _requests(run: LoadedRun) -> int:
    return sum(entry.kind == "main" for entry in run.journal.entries)


def _usage(study: Study, runs: list[LoadedRun]) -> ClaimFinding:
    """Live: more than one during a run that asks the model often enough to have news."""
    runs = [run for run in runs if _turns(run) and run.record.outcome == "passed" and _requests(run) >= _OFTEN]
    if not runs:
        return not_measured(study, "usage-updates", f"no run that passed asks the model {_OFTEN} times")
    evidence: list[Reference] = []
    counts: list[int] = []
    for run in runs:
        turns = _turns(run)
        inside = [
            u
            for u in run.conversation.updates
            if u.kind == "usage_update" and any(a < u.message.seq < b for a, b in turns)
        ]
        counts.append(len(inside))
        evidence += [run.frame(update.message.seq, "usage_update") for update in inside]
    live = sum(count > 1 for count in counts)
    return finding(
        study,
        "usage-updates",
        "holds" if live == len(runs) else "holds-with-limits" if live else "does-not-hold",
        f"{min(counts)}-{max(counts)} updates during a turn, {len(evidence)} in {plural(len(runs), 'run')}; "
        f"more than one in {live} of {plural(len(runs), 'run')}",
        figures={"usage_update": len(evidence), "live": live, "runs": len(runs)},
        evidence=evidence or [run.frame(_turns(run)[0][0], "no usage_update") for run in runs[:1]],
        limits=[] if live == len(runs) else ["not in every turn"] if live else ["none, or only one at the end"],
        unit="runs",
        n=len(runs),
    )


def _payloads(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves of `_meta` two levels down (vendor and key): (path, payload)."""
    for name, item in as_object(value).items():
        if path:
            yield f"{path}.{name}", item
        elif isinstance(item, dict):
            yield from _payloads(item, name)
        else:
            yield name, item


def _output(study: Study, runs: list[LoadedRun]) -> ClaimFinding:
    """The output of a call counts as there if a text of the payload is what the model was given."""
    runs = [run for run in runs if run.plain]
    by_key: Counter[str] = Counter()
    carriers: Counter[str] = Counter()
    evidence: list[Reference] = []
    units: dict[tuple[str, str, str], bool] = {}
    for run in runs:
        given = {
            a.call.id: a
            for a in actions(run)
            if a.call is not None and a.result is not None and a.verb in ("read", "run") and a.allowed is not False
        }
        for update in run.conversation.updates:
            action = given.get(as_text(update.body.get("toolCallId")) or "")
            for key, payload in _payloads(update.body.get("_meta")):
                by_key[key] += len(json.dumps(payload, ensure_ascii=False).encode("utf-8", "surrogatepass"))
                if (
                    action is not None
                    and action.result is not None
                    and _holds(payload, action.result[1].replace(action.served.id, ""))
                ):
                    if not units.get(_ending(action)):
                        evidence.append(run.frame(update.message.seq, "full output", f"{key}: {action.what}"))
                    units[_ending(action)] = True
                    carriers[key] += 1
        for action in given.values():
            if _telling(action.result):
                units.setdefault(_ending(action), False)
    if not units:
        return not_measured(study, "tool-output", "no tool call of a plain run had a result")
    bound = rate(sum(units.values()), len(units))
    largest = ", ".join(f"{key} {size:,} B" for key, size in by_key.most_common(4))
    lacking = [f"{key[1]} ({key[2]})" for key, there in units.items() if not there]
    if not evidence:
        evidence = [runs[0].frame(update.message.seq, "no output") for update in runs[0].conversation.updates[-1:]]
    return finding(
        study,
        "tool-output",
        verdict_of(fails=not carriers, limited=lacking),
        f"output in _meta: {said(bound, 'distinct calls')}; carried by {few(carriers) or 'nothing'}; "
        f"_meta payloads: {largest or 'none'}",
        figures={"full output": sum(units.values()), "bytes": dict(by_key), "carriers": dict(carriers)},
        evidence=evidence,
        limits=[f"not for: {few(lacking)}"] if lacking and carriers else [],
        unit="distinct calls with a result",
        bound=bound,
    )


#: A shorter text may be in a result by chance.
_TELLING = 12


def _ending(action: Action) -> tuple[str, str, str]:
    """The distinct action and how it ended: what fails may be shown otherwise."""
    return *action.key, (action.call.status if action.call is not None else None) or "open"


def _telling(result: tuple[int, str] | None) -> bool:
    """Whether a call gave more than a line or two back."""
    return result is not None and result[1].count("\\n") > 1


def _holds(payload: Any, result: str) -> bool:
    """Whether any text of the payload is in the result given to the model.

    Nine tenths of its telling lines are enough: where the run's token stands, the journal has a mask.
    """
    if isinstance(payload, dict):
        return any(
            _holds(value, result) for name, value in payload.items() if name not in ("filePath", "toolName", "title")
        )
    if isinstance(payload, list):
        return any(_holds(value, result) for value in payload)
    if not isinstance(payload, str):
        return False
    lines = [line for line in payload.splitlines() if len(line.strip()) >= _TELLING]
    there = sum(json.dumps(line, ensure_ascii=False)[1:-1] in result for line in lines)
    return bool(lines) and there >= 0.9 * len(lines)


def _plan_thought(study: Study, runs: list[LoadedRun]) -> ClaimFinding:
    """Absence is a fact about the agent only where the model plans and thinks."""
    scripted = {"plan": [r for r in runs if _scripts(r, "plan")], "thought": [r for r in runs if _scripts(r, "think")]}
    if not scripted["plan"] and not scripted["thought"]:
        return not_measured(study, "plan-thought", "no script plans or thinks")
    evidence: list[Reference] = []
    shown: Counter[str] = Counter()
    for what, kinds in (("plan", _PLANS), ("thought", (_THOUGHT,))):
        for run in scripted[what]:
            seen = [update for update in run.conversation.updates if update.kind in kinds]
            evidence += [run.frame(update.message.seq, what, update.kind) for update in seen]
            if not seen:
                entry = next((e for e in run.journal.entries if e.kind == "main"), None)
                evidence += [run.model(entry.seq, f"no {what}")] if entry is not None else []
            shown[what] += bool(seen)
    counts = Counter(reference.shows for reference in evidence)
    missing = [what for what in scripted if not scripted[what]]
    return finding(
        study,
        "plan-thought",
        verdict_of(fails=any(shown.values()), limited=missing),
        "; ".join(
            f"{what}: scripted in {plural(len(scripted[what]), 'run')}, shown in {shown[what]} ({counts[what]} updates)"
            for what in scripted
        ),
        shown=("plan", "thought", "no plan", "no thought"),
        figures={f"{what}-runs": len(found) for what, found in scripted.items()},
        evidence=evidence,
        limits=["absent only while nothing is scripted"]
        if any(shown.values())
        else [f"no script has a {what}" for what in missing],
        unit="runs that plan or think",
        n=len({run.name for found in scripted.values() for run in found}),
    )


def _scripts(run: LoadedRun, what: str) -> bool:
    """Whether the program thinks or plans, and was served so far."""
    served = {entry.step for entry in run.journal.entries if entry.kind == "main" and entry.subagent is None}
    for step in map(as_object, as_list(run.program.get("steps"))):
        if step.get("index") not in served:
            continue
        if what == "think" and step.get("think"):
            return True
        if what == "plan" and any(as_object(call).get("meaning") == "plan" for call in as_list(step.get("calls"))):
            return True
    return False
