"""Row 1: what crosses the wire."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from runner.evidence.callbacks import callbacks
from runner.evidence.tally import Tally, tally
from runner.study.actions import actions, distinct
from runner.study.model import ClaimFinding, Reference, Table
from runner.study.rates import rate, said
from runner.study.rules.capabilities import STANDARD, standard
from runner.study.runs import Study, groups
from runner.study.verdicts import finding, not_measured, plural, verdict_of


def findings(study: Study) -> list[ClaimFinding]:
    return [own_io(study), frames_of_a_run(study)]


def own_io(study: Study) -> ClaimFinding:
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
        for call in callbacks(run.conversation):
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
            evidence.append(action.run.model(action.result[0], "own-io", f"{action.verb} {action.what}"))
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
        f"through the client went {said(bound, 'distinct actions that took effect')}",
        figures=figures,
        evidence=evidence,
        unit="distinct actions that took effect",
        bound=bound,
    )


def frames_of_a_run(study: Study) -> ClaimFinding:
    plain = [run for run in study.acp if run.plain and run.record.outcome == "passed" and run.prompt_seq is not None]
    if not plain:
        return not_measured(study, "frames-of-a-run", "no plain ACP run passed")
    # What was done most often speaks for the rest: one fixture, one script.
    runs = max(groups(plain, lambda run: (run.record.fixture, run.record.model)).values(), key=len)
    counted = {run.name: tally(run.conversation) for run in study.acp}
    shown = sorted(runs, key=lambda run: counted[run.name].frames)[len(runs) // 2]
    of = counted[shown.name]
    once = all(of.client.get(method) == 1 for method in _EXPECTED)
    asked = of.agent.get("session/request_permission", 0)
    answered = sum(ask.answered_seq is not None for ask in shown.asks)
    evidence = [shown.frame(message.seq, _label(message)) for message in shown.conversation]
    counts = Counter(reference.shows for reference in evidence)
    figures: dict[str, Any] = {
        **counts,
        "frames": of.frames,
        "updates": of.updates,
        "sweep": _sum(counted.values()),
        "per run": {name: _named(found) for name, found in counted.items()},
    }
    per_run = sorted(counted[run.name].frames for run in runs)
    limits = [] if once and asked == answered else ["a request is made more than once, or an ask is not answered"]
    # Some updates are free to come after the response; how many our quiet window sees is no judgement.
    late = sum(counted[run.name].late_updates for run in runs)
    made = ", ".join(f"{name} {of.client.get(name, 0)}" for name in _EXPECTED)
    ours = {name: count for name, count in of.client.items() if name not in _EXPECTED and not name.startswith("<")}
    extra = "".join(f", {name} {count}" for name, count in sorted(ours.items()))
    return finding(
        study,
        "frames-of-a-run",
        verdict_of(fails=not once, limited=limits),
        f"{of.frames} frames: {made}{extra}, results {of.agent.get('<result>', 0)}, "
        f"session/update {of.agent.get('session/update', 0)}, request_permission {asked}, answers {answered}; "
        f"{per_run[0]}-{per_run[-1]} frames over {plural(len(runs), 'run')} of the same task, "
        f"{late} updates after the response",
        figures=figures,
        evidence=evidence,
        limits=limits,
        unit="runs",
        n=len(runs),
        tables=[_tallies(counted, shown.name)],
    )


_EXPECTED = ("initialize", "session/new", "session/prompt")


def _label(message: Any) -> str:
    """`->` what the client sent, `<-` the agent."""
    arrow = "->" if message.sender == "client" else "<-"
    name = (message.method or "invalid") if message.kind in ("request", "notification") else message.kind
    return f"{arrow} {name}"


def _named(found: Tally) -> dict[str, dict[str, int]]:
    """A tally by who sent what, as JSON."""
    return {"client": dict(found.client), "agent": dict(found.agent), "updates": dict(found.updates)}


def _sum(tallies: Iterable[Tally]) -> dict[str, dict[str, int]]:
    both: dict[str, Counter[str]] = {"client": Counter(), "agent": Counter(), "updates": Counter()}
    for found in tallies:
        for name, counts in _named(found).items():
            both[name].update(counts)
    return {name: dict(sorted(counts.items())) for name, counts in both.items()}


#: Who sent it -> how a table says so.
_SENDERS = {"client": "client to agent", "agent": "agent to client", "updates": "updates by kind"}


def _tallies(counted: dict[str, Tally], shown: str) -> Table:
    """Per method and direction, then per kind of update: the run shown above, any run, all runs together."""
    names, rows = _sum(counted.values()), []
    for sender, counts in names.items():
        for name, total in counts.items():
            each = [_named(found)[sender].get(name, 0) for found in counted.values()]
            one = _named(counted[shown])[sender].get(name, 0)
            rows.append([_SENDERS[sender], name, str(one), f"{min(each)}-{max(each)}", f"{total:,}"])
    title = (
        f"Method tally: the run above, each of {plural(len(counted), 'ACP run')}, and all together; "
        "by kind, the pieces of one message count once"
    )
    return Table(title=title, headers=["direction", "method", "that run", "a run", "all"], rows=rows)
