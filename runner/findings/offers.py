"""Row 6: what the editor gets and the terminal does not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from runner.acp.gates import TURN_KINDS
from runner.evidence.messages import Update, as_list, as_object, as_text, exchanges, updates
from runner.findings.actions import Action, actions
from runner.findings.judge import few, finding, not_measured, plural
from runner.findings.loaded import LoadedRun, Study
from runner.findings.model import Finding, Reference
from runner.findings.rates import rate, said
from runner.records.schema import Probe

#: What the study lists under sessions.
_SESSION_METHODS = ("fork", "resume", "list", "delete", "close")
_THOUGHT, _PLANS = "agent_thought_chunk", ("plan", "plan_update")


def findings(study: Study) -> list[Finding]:
    opened = [run for run in study.acp if run.handshake.session is not None]
    if not opened:
        why = "no ACP run opened a session"
        return [not_measured(study, identity, why) for identity in _IDS]
    return [
        _options(study, opened),
        _set_option(study, opened),
        _methods(study, opened),
        _load(study, opened),
        _inputs(study, opened),
        _usage(study, opened),
        _output(study, opened),
        _commands(study, opened),
        _plan_thought(study, opened),
        _editor_state(study, opened),
    ]


_IDS = (
    "options", "set-option", "session-methods", "load-replays", "inputs", "usage-updates", "tool-output", "commands",
    "plan-thought", "editor-state",
)  # fmt: skip


def _greeting(run: LoadedRun) -> int | None:
    """Seq of the initialize result."""
    first = next(iter(exchanges(run.messages, "client", "initialize")), None)
    return first.response.seq if first is not None and first.response is not None else None


def _session(run: LoadedRun) -> dict[str, Any]:
    """The result of session/new."""
    made = exchanges(run.messages, "client", "session/new")
    return (made[0].result or {}) if made else {}


def _options(study: Study, runs: list[LoadedRun]) -> Finding:
    run = runs[0]
    session = _session(run)
    modes = [
        as_text(as_object(m).get("id")) or "" for m in as_list(as_object(session.get("modes")).get("availableModes"))
    ]
    options = [as_object(option) for option in as_list(session.get("configOptions"))]
    names = [
        f"{option.get('id')} ({len(as_list(option.get('options')))} values)"
        if option.get("options")
        else str(option.get("id"))
        for option in options
    ]
    seq = run.handshake.opened_seq
    evidence = [] if seq is None else [run.frame(seq, "session/new")]
    return finding(
        study,
        "options",
        "holds" if modes and options else "holds-with-limits" if modes or options else "does-not-hold",
        f"{plural(len(modes), 'mode')} ({few(modes, 8) or 'none'}), "
        f"{plural(len(options), 'config option')}: {few(names, 8) or 'none'}",
        figures={"modes": modes, "options": [str(option.get("id")) for option in options]},
        evidence=evidence,
        limits=[f"no {what}" for what, there in (("modes", modes), ("config options", options)) if not there],
        unit="runs",
        n=len(runs),
    )


def _probes(runs: list[LoadedRun], name: str) -> list[tuple[LoadedRun, Probe]]:
    return [(run, probe) for run in runs for probe in run.record.probes if probe.name == name]


def _set_option(study: Study, runs: list[LoadedRun]) -> Finding:
    """The effect is looked for behind the setting: another model asked, or other asks for the same actions."""
    probes = [(run, probe) for run, probe in _probes(runs, "set-config-option") if probe.sent_seq is not None]
    if not probes:
        return not_measured(study, "set-option", "no run sends session/set_config_option after its turn")
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
    counts = Counter(one.shows for one in evidence)
    return finding(
        study,
        "set-option",
        "does-not-hold" if not effects else "holds-with-limits" if limits else "holds",
        few(effects, 4) or "no effect",
        figures={"sent": counts["sent"], "accepted": counts["accepted"], "effect": counts["effect"]},
        evidence=evidence,
        limits=sorted(set(limits)),
        unit="settings sent",
        n=len(probes),
    )


def _effect(run: LoadedRun, seq: int) -> tuple[str, Reference] | None:
    """What is otherwise after frame `seq` than before it: the model that is asked, or what is asked for."""
    sent = next(message.t_ns for message in run.messages if message.seq == seq) + run.record.clock_offset_ns
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


def _methods(study: Study, runs: list[LoadedRun]) -> Finding:
    """Offered in initialize; and, where a run tries them, whether they work."""
    capabilities = runs[0].handshake.capabilities
    offered = sorted(as_object(capabilities.get("sessionCapabilities")))
    load = capabilities.get("loadSession") is True
    seq = _greeting(runs[0])
    evidence = [] if seq is None else [runs[0].frame(seq, "offered", ", ".join(offered))]
    worked: set[str] = set()
    limits: list[str] = []
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
    counts = Counter(one.shows for one in evidence)
    return finding(
        study,
        "session-methods",
        "does-not-hold" if not offered else "holds-with-limits" if limits else "holds",
        f"offered: {', '.join(offered) or 'none'}{', loadSession' if load else ''}; tried and worked: "
        f"{', '.join(sorted(worked)) or 'none'}",
        figures={"offered": offered, "load": load, "works": counts["works"], "fails": counts["fails"]},
        evidence=evidence,
        limits=sorted(set(limits)),
        unit="probes",
        n=counts["works"] + counts["fails"],
    )


def _content(run: LoadedRun) -> list[Update]:
    return [update for update in updates(run.messages) if update.kind in TURN_KINDS]


def _load(study: Study, runs: list[LoadedRun]) -> Finding:
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
    counts.update(one.shows for one in evidence)
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
        "does-not-hold" if against else "holds-with-limits" if limits else "holds",
        f"load: {counts['load: before the answer']} parts of the conversation before its answer, "
        f"{counts['load: after the answer']} after; resume: {counts['resume: before the answer']} before, "
        f"{counts['resume: after the answer']} after",
        figures=dict(counts),
        evidence=evidence,
        limits=against + limits,
        unit="probes",
        n=len(tried),
    )


def _next_request(run: LoadedRun, seq: int) -> int:
    """Seq of the client's next request after `seq`; the end of the log where there is none."""
    later = [m.seq for m in run.messages if m.sender == "client" and m.kind == "request" and m.seq > seq]
    return later[0] if later else (run.messages[-1].seq + 1 if run.messages else 0)


def _inputs(study: Study, runs: list[LoadedRun]) -> Finding:
    run = runs[0]
    prompt = as_object(run.handshake.capabilities.get("promptCapabilities"))
    servers = as_object(run.handshake.capabilities.get("mcpCapabilities"))
    figures = {
        **{f"prompt.{name}": prompt.get(name) is True for name in ("image", "embeddedContext", "audio")},
        **{f"mcp.{name}": servers.get(name) is True for name in ("http", "sse")},
    }
    expected = {
        "prompt.image": True,
        "prompt.embeddedContext": True,
        "prompt.audio": False,
        "mcp.http": True,
        "mcp.sse": True,
    }
    other = [
        f"{name} {'offered' if there else 'not offered'}" for name, there in figures.items() if there != expected[name]
    ]
    seq = _greeting(run)
    return finding(
        study,
        "inputs",
        "holds" if not other else "holds-with-limits" if len(other) < len(expected) / 2 else "does-not-hold",
        ", ".join(f"{name.partition('.')[2]} {'yes' if there else 'no'}" for name, there in figures.items()),
        figures=figures,
        evidence=[] if seq is None else [run.frame(seq, "offered")],
        limits=other,
        unit="runs",
        n=len(runs),
    )


def _turns(run: LoadedRun) -> list[tuple[int, int]]:
    """(prompt's seq, its result's seq)."""
    return [
        (turn.request.seq, turn.response.seq)
        for turn in exchanges(run.messages, "client", "session/prompt")
        if turn.response is not None
    ]


#: Model requests of a run in which live usage can be told from a figure at the end.
_OFTEN = 3


def _requests(run: LoadedRun) -> int:
    return sum(entry.kind == "main" for entry in run.journal.entries)


def _usage(study: Study, runs: list[LoadedRun]) -> Finding:
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
            for u in updates(run.messages)
            if u.kind == "usage_update" and any(a < u.message.seq < b for a, b in turns)
        ]
        counts.append(len(inside))
        evidence += [run.frame(update.message.seq, "usage_update") for update in inside]
    live = sum(count > 1 for count in counts)
    return finding(
        study,
        "usage-updates",
        "holds" if live == len(runs) else "holds-with-limits" if live else "does-not-hold",
        f"{min(counts)}-{max(counts)} during the turn, {len(evidence)} in {plural(len(runs), 'run')}; "
        f"more than one in {live} of {len(runs)}",
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


def _output(study: Study, runs: list[LoadedRun]) -> Finding:
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
        for update in updates(run.messages):
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
        evidence = [runs[0].frame(update.message.seq, "no output") for update in updates(runs[0].messages)[-1:]]
    return finding(
        study,
        "tool-output",
        "does-not-hold" if not carriers else "holds-with-limits" if lacking else "holds",
        f"output in _meta for {said(bound)} calls; carried by {few(carriers) or 'nothing'}; "
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


def _commands(study: Study, runs: list[LoadedRun]) -> Finding:
    runs = [run for run in runs if run.prompt_seq is not None]
    announced = [run for run in runs if run.handshake.commands is not None]
    if not runs:
        return not_measured(study, "commands", "no run sent a prompt")
    if not announced:
        seq = _greeting(runs[0])
        evidence = [] if seq is None else [runs[0].frame(seq, "none")]
        return finding(
            study, "commands", "does-not-hold", "none announced", evidence=evidence, unit="runs", n=len(runs)
        )
    evidence = []
    sizes: set[tuple[int, int]] = set()
    early = 0
    described = True
    for run in announced:
        first = next(u for u in updates(run.messages) if u.kind == "available_commands_update")
        listed = [as_object(command) for command in as_list(first.body.get("availableCommands"))]
        text = sum(len(part.encode()) for command in listed for part in _texts(command))
        sizes.add((len(listed), text))
        described &= all(as_text(command.get("description")) for command in listed)
        before = run.prompt_seq is not None and first.message.seq < run.prompt_seq
        early += before
        evidence.append(run.frame(first.message.seq, "before the prompt" if before else "after the prompt"))
    counts = sorted({count for count, _ in sizes})
    limits = []
    if early < len(runs):
        limits.append(f"in {len(runs) - early} of {len(runs)} runs not before the first prompt was sent")
    if not described:
        limits.append("not every command has a description")
    return finding(
        study,
        "commands",
        "does-not-hold" if not early else "holds-with-limits" if limits else "holds",
        f"{'-'.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} commands, "
        f"{max(text for _, text in sizes):,} bytes of names, descriptions and hints; "
        f"before the first prompt in {early} of {len(runs)} runs",
        figures={
            "before the prompt": early,
            "after the prompt": len(announced) - early,
            "commands": counts,
            "bytes": sorted({text for _, text in sizes}),
        },
        evidence=evidence,
        limits=limits,
        unit="runs",
        n=len(runs),
    )


def _texts(command: dict[str, Any]) -> Iterator[str]:
    for text in (command.get("name"), command.get("description"), as_object(command.get("input")).get("hint")):
        if isinstance(text, str):
            yield text


def _plan_thought(study: Study, runs: list[LoadedRun]) -> Finding:
    """Absence is a fact about the agent only where the model plans and thinks."""
    scripted = {"plan": [r for r in runs if _scripts(r, "plan")], "thought": [r for r in runs if _scripts(r, "think")]}
    if not scripted["plan"] and not scripted["thought"]:
        return not_measured(study, "plan-thought", "no script plans or thinks")
    evidence: list[Reference] = []
    shown: Counter[str] = Counter()
    for what, kinds in (("plan", _PLANS), ("thought", (_THOUGHT,))):
        for run in scripted[what]:
            seen = [update for update in updates(run.messages) if update.kind in kinds]
            evidence += [run.frame(update.message.seq, what, update.kind) for update in seen]
            if not seen:
                entry = next((e for e in run.journal.entries if e.kind == "main"), None)
                evidence += [run.model(entry.seq, f"no {what}")] if entry is not None else []
            shown[what] += bool(seen)
    counts = Counter(one.shows for one in evidence)
    missing = [what for what in scripted if not scripted[what]]
    return finding(
        study,
        "plan-thought",
        "does-not-hold" if any(shown.values()) else "holds-with-limits" if missing else "holds",
        "; ".join(
            f"{what}: scripted in {plural(len(scripted[what]), 'run')}, shown in {shown[what]} ({counts[what]} updates)"
            for what in scripted
        ),
        figures={name: counts[name] for name in ("plan", "thought", "no plan", "no thought")}
        | {f"{what}-runs": len(found) for what, found in scripted.items()},
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


def _editor_state(study: Study, runs: list[LoadedRun]) -> Finding:
    evidence: list[Reference] = []
    for run in runs:
        evidence += [
            run.frame(message.seq, "method", message.method)
            for message in run.messages
            if message.sender == "agent" and message.method and message.method.startswith(("document/", "nes/"))
        ]
        offered = [name for name in ("document", "documents", "nes") if run.handshake.capabilities.get(name)]
        if (seq := _greeting(run)) is not None:
            evidence.append(run.frame(seq, "offered" if offered else "not offered", ", ".join(offered)))
    counts = Counter(one.shows for one in evidence)
    return finding(
        study,
        "editor-state",
        "does-not-hold" if counts["method"] or counts["offered"] else "holds",
        f"{plural(counts['method'], 'message')} of document/* or nes/*, "
        f"offered in {counts['offered']} of {plural(len(runs), 'run')}",
        figures={name: counts[name] for name in ("method", "offered", "not offered")},
        evidence=evidence,
        unit="runs",
        n=len(runs),
    )
