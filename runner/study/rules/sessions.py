"""Row 6: what can be done with a session once it exists: another setting, load, resume, list, fork, close."""

from __future__ import annotations

from collections import Counter

from runner.acp.methods import TURN_KINDS
from runner.evidence.messages import Update
from runner.records.schema import Probe
from runner.study.actions import actions
from runner.study.advertised import NONE_OPENED, greeting, opened, same_in
from runner.study.model import ClaimFinding, Reference
from runner.study.runs import LoadedRun, Study
from runner.study.verdicts import counted, few, finding, not_measured, plural, verdict_of
from runner.wire.values import as_object

#: What the study lists under sessions.
_SESSION_METHODS = ("fork", "resume", "list", "delete", "close")
_IDS = ("set-option", "session-methods", "load-replays")


def findings(study: Study) -> list[ClaimFinding]:
    runs = opened(study)
    if not runs:
        return [not_measured(study, identity, NONE_OPENED) for identity in _IDS]
    return [_set_option(study, runs), _methods(study, runs), _load(study, runs)]


def _probes(runs: list[LoadedRun], name: str) -> list[tuple[LoadedRun, Probe]]:
    return [(run, probe) for run in runs for probe in run.record.probes if probe.name == name]


def _set_option(study: Study, runs: list[LoadedRun]) -> ClaimFinding:
    """The effect is looked for behind the setting: another model asked, or other asks for the same actions."""
    meant = _probes(runs, "set-config-option")
    probes = [(run, probe) for run, probe in meant if probe.sent_seq is not None]
    if not meant:
        return not_measured(study, "set-option", "no run means to send session/set_config_option after its turn")
    if not probes:
        opened_at = [(run, run.handshake.opened_seq) for run, _ in meant]
        return finding(
            study,
            "set-option",
            "does-not-hold",
            f"not offered: session/new gave no such option in {plural(len(meant), 'run')}",
            figures={"sent": 0, "accepted": 0, "effect": 0},
            evidence=[run.frame(seq, "not offered in session/new") for run, seq in opened_at if seq is not None],
            unit="runs that mean to set one",
            n=len(meant),
        )
    evidence: list[Reference] = []
    effects: list[str] = []
    limits: list[str] = []
    for run, probe in probes:
        assert probe.sent_seq is not None
        option, value = probe.params.get("configId"), probe.params.get("value")
        evidence.append(run.frame(probe.sent_seq, "sent", f"{option} = {value}"))
        if not probe.ok or probe.answered_seq is None:
            limits.append(f"{option} = {value} refused: {probe.error}")
            continue
        evidence.append(run.frame(probe.answered_seq, "accepted", f"{option} = {value}"))
        seen = _effect(run, probe.sent_seq)
        if seen is None:
            limits.append(f"{option} = {value} accepted, no effect seen")
            continue
        effects.append(f"{option} = {value}: {seen[0]}")
        evidence.append(seen[1])
    return finding(
        study,
        "set-option",
        verdict_of(fails=not effects, limited=limits),
        f"effect seen of {counted(evidence, 'effect')} of {plural(len(probes), 'setting')}"
        + (f": {few(effects, 4)}" if effects else ""),
        shown=("sent", "accepted", "effect"),
        evidence=evidence,
        limits=sorted(set(limits)),
        unit="settings sent",
        n=len(probes),
    )


def _effect(run: LoadedRun, seq: int) -> tuple[str, Reference] | None:
    """What is otherwise after frame `seq` than before it: the model that is asked, or what is asked for."""
    frame = run.conversation.message(seq)
    if frame is None:
        return None
    sent = frame.t_ns + run.record.clock_offset_ns
    main = [entry for entry in run.journal.entries if entry.kind == "main"]
    before = {entry.model for entry in main if entry.t_request_ns < sent}
    after = [entry for entry in main if entry.t_request_ns >= sent]
    other = next((entry for entry in after if before and entry.model not in before), None)
    if other is not None:
        return f"model {', '.join(sorted(map(str, before)))} -> {other.model}", run.model(
            other.seq, "effect", str(other.model)
        )
    asked: dict[tuple[str, str], set[bool]] = {}
    later: list[tuple[tuple[str, str], bool, Reference]] = []
    entries = {entry.seq: entry for entry in main}
    for action in actions(run):
        if entries[action.entry].t_request_ns < sent:
            asked.setdefault(action.key, set()).add(action.surfaced)
        elif action.settled:
            later.append((action.key, action.surfaced, action.reference("effect")))
    for key, surfaced, reference in later:
        if asked.get(key) == {not surfaced}:
            return f"{key[1]} {'asked for' if surfaced else 'no longer asked for'}", reference
    return None


def _methods(study: Study, runs: list[LoadedRun]) -> ClaimFinding:
    """Offered in initialize; and, where a run tries them, whether they work."""
    capabilities = runs[0].handshake.capabilities
    offered = sorted(as_object(capabilities.get("sessionCapabilities")))
    load = capabilities.get("loadSession") is True
    same, unlike = same_in(
        runs, lambda one: [one.handshake.capabilities.get(name) for name in ("sessionCapabilities", "loadSession")]
    )
    seq = greeting(runs[0])
    evidence = [] if seq is None else [runs[0].frame(seq, "offered", ", ".join(offered))]
    worked: set[str] = set()
    limits = unlike
    for name in ("load", *_SESSION_METHODS):
        tried = [(run, probe) for run, probe in _probes(runs, name) if probe.sent_seq is not None]
        for run, probe in tried:
            assert probe.sent_seq is not None
            evidence.append(run.frame(probe.sent_seq, "works" if probe.ok else "fails", name))
            if not probe.ok:
                limits.append(f"{name} is offered and fails: {probe.error}")
        if any(probe.ok for _, probe in tried):
            worked.add(name)
    missing = [name for name in _SESSION_METHODS if name not in offered]
    if missing:
        limits.append(f"not offered: {', '.join(missing)}")
    untried = [name for name in _SESSION_METHODS if name in offered and name not in worked and name != "delete"]
    if untried and not any("fails" in limit for limit in limits):
        limits.append(f"offered, not tried: {', '.join(untried)}")
    counts = Counter(reference.shows for reference in evidence)
    return finding(
        study,
        "session-methods",
        verdict_of(fails=not offered, limited=limits),
        f"offered: {', '.join(offered) or 'none'}{', loadSession' if load else ''}, {same}; tried and worked: "
        f"{', '.join(sorted(worked)) or 'none'} ({counts['works']} of {counts['works'] + counts['fails']} requests)",
        figures={"offered": offered, "load": load, "works": counts["works"], "fails": counts["fails"]},
        evidence=evidence,
        limits=sorted(set(limits)),
        unit="probes",
        n=counts["works"] + counts["fails"],
    )


def _content(run: LoadedRun) -> list[Update]:
    return [update for update in run.conversation.updates if update.kind in TURN_KINDS]


def _load(study: Study, runs: list[LoadedRun]) -> ClaimFinding:
    """Counted in the frames: parts of the conversation between request and answer, and after the answer."""
    tried = [
        (name, run, probe)
        for name in ("load", "resume")
        for run, probe in _probes(runs, name)
        if probe.sent_seq is not None and probe.answered_seq is not None
    ]
    if not any(name == "load" and probe.ok for name, _, probe in tried):
        return not_measured(study, "load-replays", "no run's session/load was answered")
    evidence: list[Reference] = []
    limits: list[str] = []
    against: list[str] = []
    counts: Counter[str] = Counter()
    for name, run, probe in tried:
        assert probe.sent_seq is not None
        assert probe.answered_seq is not None
        end = _next_request(run, probe.answered_seq)
        for update in _content(run):
            seq = update.message.seq
            if probe.sent_seq < seq < probe.answered_seq:
                evidence.append(run.frame(seq, f"{name}: before the answer", update.kind))
            elif probe.answered_seq < seq < end:
                evidence.append(run.frame(seq, f"{name}: after the answer", update.kind))
        evidence.append(run.frame(probe.answered_seq, f"{name}: answered"))
    counts.update(reference.shows for reference in evidence)
    if not counts["load: before the answer"]:
        against.append("load replays nothing before it answers")
    if counts["load: after the answer"]:
        limits.append(f"load sends {counts['load: after the answer']} parts after its answer")
    if counts["resume: before the answer"] + counts["resume: after the answer"]:
        against.append("resume replays")
    if not counts["resume: answered"]:
        limits.append("resume was not tried, or was refused")
    return finding(
        study,
        "load-replays",
        verdict_of(fails=against, limited=limits),
        f"load, {counts['load: answered']}x: {counts['load: before the answer']} parts of the conversation before its "
        f"answer, {counts['load: after the answer']} after; resume, {counts['resume: answered']}x: "
        f"{counts['resume: before the answer']} before, {counts['resume: after the answer']} after",
        figures=dict(counts),
        evidence=evidence,
        limits=against + limits,
        unit="probes",
        n=len(tried),
    )


def _next_request(run: LoadedRun, seq: int) -> int:
    """Seq of the client's next request after `seq`; the end of the log where there is none."""
    later = (sent.request.seq for sent in run.conversation.requests("client") if sent.request.seq > seq)
    end = run.conversation[-1].seq + 1 if run.conversation else 0
    return next(later, end)
