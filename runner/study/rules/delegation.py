"""Row 11, the study's own gap: sub-agents, MCP servers, elicitation."""

from __future__ import annotations

import json
import posixpath
from collections import Counter
from typing import Any

from runner.acp.methods import declared
from runner.evidence.callbacks import callbacks
from runner.study.actions import Action, actions
from runner.study.boundary_actions import carried
from runner.study.model import ClaimFinding, Reference
from runner.study.rates import rate, said
from runner.study.runs import LoadedRun, Study
from runner.study.verdicts import few, finding, not_measured, plural, verdict_of
from runner.wire.values import as_list, as_text

#: How a call names its server and tool where MCP tools have one name (`mcp__<server>__<tool>`).
_MEANING = "mcp"
#: What a server says of where it runs, as far as a reader wants to know.
_PLACE = ("uid", "cwd", "parent")


def findings(study: Study) -> list[ClaimFinding]:
    delegating = [run for run in study.acp if any(entry.subagent for entry in run.journal.entries)]
    serving = [run for run in study.acp if as_list(run.session_new.get("mcpServers"))]
    offering = [run for run in study.acp if declared(run.declared, "elicitation.form")]
    return [_subagent(study, delegating), _mcp(study, serving), _elicitation(study, offering)]


def _asks_as_main(action: Action) -> bool | None:
    """Whether the agent itself is asked for such an action, as far as a claim says so."""
    if action.line is not None:
        return {"project": True, "change": True}.get(
            action.line.does, bool(action.outside()) if action.line.does == "inspection" else None
        )
    if action.verb == "write":
        return True
    return action.outside() if action.verb == "read" else None


def _parent(run: LoadedRun) -> set[str]:
    """Ids of the calls that delegate."""
    return {call.id for entry in run.journal.entries for call in entry.calls if call.meaning == "delegate"}


def _subagent(study: Study, runs: list[LoadedRun]) -> ClaimFinding:
    if not runs:
        return not_measured(study, "subagent", "no run has a sub-agent's conversation")
    evidence: list[Reference] = []
    limits: list[str] = []
    wrong: list[str] = []
    units: set[tuple[str, str]] = set()
    shown: set[tuple[str, str]] = set()
    told = own = 0
    for run in runs:
        parents = _parent(run)
        frames = {
            as_text(u.body.get("toolCallId")): u
            for u in reversed(run.conversation.updates)
            if u.kind.startswith("tool_call")
        }
        for action in actions(run):
            if action.subagent is None or not action.settled:
                continue
            units.add(action.key)
            if action.call is None and action.ask is None:
                evidence.append(run.model(action.entry, "hidden", f"{action.verb} {action.what}"))
                wrong.append(f"{action.what} never reaches the client")
                continue
            shown.add(action.key)
            expected = _asks_as_main(action)
            if expected is not None and expected is not action.surfaced:
                wrong.append(f"{action.what} {'asks' if action.surfaced else 'does not ask'}")
            evidence.append(
                action.reference("asked" if action.surfaced else "not-asked", f"{action.verb} {action.what}")
            )
            identity = action.call.id if action.call is not None else action.served.id
            own += identity == action.served.id
            update = frames.get(identity)
            if update is not None and any(_names(update.body, parent) for parent in parents):
                told += 1
                evidence.append(run.frame(update.message.seq, "names its parent", action.what))
    counts = Counter(reference.shows for reference in evidence)
    seen = counts["asked"] + counts["not-asked"]
    if not seen and not counts["hidden"]:
        return not_measured(study, "subagent", "no action of a sub-agent was settled")
    if told < seen:
        limits.append(f"{seen - told} of {seen} calls do not name the call that delegated them")
    bound = rate(len(shown), len(units))
    return finding(
        study,
        "subagent",
        verdict_of(fails=wrong, limited=limits),
        f"shown to the client: {said(bound, 'distinct actions')}; of {plural(seen, 'call')} {counts['asked']} asked "
        f"for, {counts['not-asked']} not; {own} under an id of its own, {told} naming the call that delegated",
        shown=("asked", "not-asked", "hidden", "names its parent"),
        figures={"own-id": own},
        evidence=evidence,
        limits=[*([f"not as the agent itself: {few(wrong)}"] if wrong else []), *limits],
        unit="distinct actions of sub-agents",
        bound=bound,
    )


def _names(body: dict[str, Any], identity: str) -> bool:
    """Whether an update names another call than its own: in its `_meta`, or in any member."""
    return as_text(body.get("toolCallId")) != identity and f'"{identity}"' in json.dumps(body)


def _mcp(study: Study, runs: list[LoadedRun]) -> ClaimFinding:
    """The server's own answer says where it runs; its canary in the model's requests says that it was reached."""
    if not runs:
        return not_measured(study, "mcp", "no run passes an MCP server in session/new")
    evidence: list[Reference] = []
    places: Counter[str] = Counter()
    silent: list[str] = []
    units: set[tuple[str, str]] = set()
    asked: set[tuple[str, str]] = set()
    expected = missing = 0
    for run in runs:
        calls = [action for action in actions(run) if action.served.meaning == _MEANING and action.settled]
        reached = [action for action in calls if carried(action)]
        # What was refused owes no answer.
        due = [action for action in calls if action.allowed is not False]
        expected += bool(due) or not calls
        missing += not reached and (bool(due) or not calls)
        for action in calls:
            units.add(action.key)
            evidence.append(action.reference("asked" if action.surfaced else "not-asked", action.served.tool))
            if action.surfaced:
                asked.add(action.key)
            else:
                silent.append(action.served.tool)
        for action in reached:
            assert action.result is not None
            evidence.append(run.model(action.result[0], "answered", action.served.tool))
            places[_place_in_words(_place(action.result[1]))] += 1
    if not units:
        return finding(
            study,
            "mcp",
            "does-not-hold",
            f"no call of a server's tool in {plural(len(runs), 'run')}",
            figures={"asked": 0, "not-asked": 0, "answered": 0},
            evidence=[run.frame(run.prompt_seq, "no call") for run in runs if run.prompt_seq is not None],
            unit="runs",
            n=len(runs),
        )
    limits = []
    if silent:
        limits.append(f"not asked for: {few(silent)}")
    if missing:
        limits.append(f"in {plural(missing, 'run')} no answer of the server reached the model")
    bound = rate(len(asked), len(units))
    return finding(
        study,
        "mcp",
        verdict_of(fails=missing == expected, limited=limits),
        f"started and answered in {expected - missing} of {plural(expected, 'run')} ({few(places, 2) or 'nowhere'}); "
        f"asked for: {said(bound, 'distinct calls of its tools')}",
        shown=("asked", "not-asked", "answered"),
        figures={"places": dict(places)},
        evidence=evidence,
        limits=limits,
        unit="distinct calls of a server's tools",
        bound=bound,
    )


def _place_in_words(place: dict[str, Any]) -> str:
    """Where a server says that it runs. Of its parent's command line, which is in the journal, the program matters."""
    program = posixpath.basename(str(place.get("parent", "")).partition(" ")[0])
    words = [f"{name} {program if name == 'parent' else place[name]}" for name in _PLACE if name in place]
    return ", ".join(words) or "says nothing"


def _place(result: str) -> dict[str, Any]:
    """The JSON object with a `pid` that stands, as text, somewhere in a result."""

    def look(value: Any) -> dict[str, Any]:
        if isinstance(value, dict):
            if "pid" in value:
                return value
            return next((found for item in value.values() if (found := look(item))), {})
        if isinstance(value, list):
            return next((found for item in value if (found := look(item))), {})
        if isinstance(value, str) and "{" in value:
            try:
                return look(json.loads(value[value.index("{") : value.rindex("}") + 1]))
            except ValueError:
                return {}
        return {}

    try:
        return look(json.loads(result))
    except ValueError:
        return {}


def _elicitation(study: Study, runs: list[LoadedRun]) -> ClaimFinding:
    runs = [run for run in runs if run.prompt_seq is not None]
    if not runs:
        return not_measured(study, "elicitation", "no run offers forms")
    evidence: list[Reference] = []
    answered: Counter[str] = Counter()
    for run in runs:
        for call in callbacks(run.conversation):
            if call.method == "elicitation/create":
                evidence.append(run.frame(call.seq, "form", as_text(call.params.get("message")) or ""))
                answered["error" if call.error is not None else "answered" if call.end_ns is not None else "open"] += 1
    forms = len(evidence)
    tried = [a for run in runs for a in actions(run) if a.served.meaning == "tool" and a.result is not None]
    if not forms:
        evidence = [a.run.model(a.entry, "asked by the model", a.served.tool) for a in tried] or [
            run.frame(run.initialize_seq, "offered") for run in runs if run.initialize_seq is not None
        ]
    asked = len(
        dict.fromkeys(
            run.name
            for run in runs
            if any(reference.run == run.name and reference.shows == "form" for reference in evidence)
        )
    )
    limits = [] if asked in (0, len(runs)) else ["not in every run"]
    if not forms and not tried:
        limits.append("the agent gives the model no tool to ask with")
    return finding(
        study,
        "elicitation",
        "does-not-hold" if not forms else "holds" if asked == len(runs) else "holds-with-limits",
        f"{plural(forms, 'form')} in {asked} of {plural(len(runs), 'run')} that can show them"
        + (f" ({', '.join(f'{name} {count}' for name, count in answered.items())})" if forms else ""),
        figures={"form": forms, "runs": len(runs), "with one": asked},
        evidence=evidence,
        limits=limits,
        unit="runs that offer forms",
        n=len(runs),
    )
