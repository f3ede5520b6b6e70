"""Row 6: what the editor gets before the first prompt: modes, options, inputs, commands, methods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from runner.study.model import ClaimFinding, Judgement, Reference
from runner.study.runs import LoadedRun, Study
from runner.study.verdicts import few, finding, not_measured, plural, verdict_of
from runner.wire.values import as_list, as_object, as_text

_IDS = ("options", "inputs", "commands", "editor-state")
LIMITED: Judgement = "holds-with-limits"


def findings(study: Study) -> list[ClaimFinding]:
    runs = opened(study)
    if not runs:
        return [not_measured(study, identity, NONE_OPENED) for identity in _IDS]
    return [_options(study, runs), _inputs(study, runs), _commands(study, runs), _editor_state(study, runs)]


NONE_OPENED = "no ACP run opened a session"


def opened(study: Study) -> list[LoadedRun]:
    """The runs that opened a session."""
    return [run for run in study.acp if run.handshake.session is not None]


def greeting(run: LoadedRun) -> int | None:
    """Seq of the initialize result."""
    first = run.conversation.first("client", "initialize")
    return first.response.seq if first is not None and first.response is not None else None


def session_of(run: LoadedRun) -> dict[str, Any]:
    """The result of session/new."""
    made = run.conversation.requests("client", "session/new")
    return (made[0].result or {}) if made else {}


def same_in(runs: list[LoadedRun], what: Callable[[LoadedRun], Any]) -> tuple[str, list[str]]:
    """How many runs show what the first one does: words for the figure, and the limit where some do not."""
    like = sum(what(run) == what(runs[0]) for run in runs)
    words = f"the same in {like} of {plural(len(runs), 'run')}"
    return words, [] if like == len(runs) else [f"otherwise in {plural(len(runs) - like, 'run')}"]


def _offered(run: LoadedRun) -> list[Any]:
    """The ids of modes and options, and the values to choose from."""
    session = session_of(run)
    modes = [as_object(mode).get("id") for mode in as_list(as_object(session.get("modes")).get("availableModes"))]
    options = [as_object(option) for option in as_list(session.get("configOptions"))]
    return [modes, [(option.get("id"), option.get("options")) for option in options]]


def _options(study: Study, runs: list[LoadedRun]) -> ClaimFinding:
    run = runs[0]
    same, unlike = same_in(runs, _offered)
    session = session_of(run)
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
        "does-not-hold" if not (modes or options) else "holds" if modes and options and not unlike else LIMITED,
        f"{plural(len(modes), 'mode')} ({few(modes, 8) or 'none'}), "
        f"{plural(len(options), 'config option')}: {few(names, 8) or 'none'}; {same}",
        figures={"modes": modes, "options": [str(option.get("id")) for option in options]},
        evidence=evidence,
        limits=[f"no {what}" for what, there in (("modes", modes), ("config options", options)) if not there] + unlike,
        unit="runs",
        n=len(runs),
    )


def _inputs(study: Study, runs: list[LoadedRun]) -> ClaimFinding:
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
    seq = greeting(run)
    same, unlike = same_in(
        runs, lambda one: [one.handshake.capabilities.get(name) for name in ("promptCapabilities", "mcpCapabilities")]
    )
    said = ", ".join(f"{name.replace('.', ' ')} {'yes' if there else 'no'}" for name, there in figures.items())
    return finding(
        study,
        "inputs",
        "does-not-hold" if len(other) > len(expected) / 2 else LIMITED if other or unlike else "holds",
        f"{said}; {same}",
        figures=figures,
        evidence=[] if seq is None else [run.frame(seq, "offered")],
        limits=other + unlike,
        unit="runs",
        n=len(runs),
    )


def _commands(study: Study, runs: list[LoadedRun]) -> ClaimFinding:
    runs = [run for run in runs if run.prompt_seq is not None]
    announced = [run for run in runs if run.handshake.commands is not None]
    if not runs:
        return not_measured(study, "commands", "no run sent a prompt")
    if not announced:
        seq = greeting(runs[0])
        evidence = [] if seq is None else [runs[0].frame(seq, "none")]
        return finding(
            study, "commands", "does-not-hold", "none announced", evidence=evidence, unit="runs", n=len(runs)
        )
    evidence = []
    sizes: set[tuple[int, int]] = set()
    early = 0
    described = True
    for run in announced:
        first = next(u for u in run.conversation.updates if u.kind == "available_commands_update")
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
        verdict_of(fails=not early, limited=limits),
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


def _editor_state(study: Study, runs: list[LoadedRun]) -> ClaimFinding:
    evidence: list[Reference] = []
    for run in runs:
        evidence += [
            run.frame(message.seq, "method", message.method)
            for message in run.conversation
            if message.sender == "agent" and message.method and message.method.startswith(("document/", "nes/"))
        ]
        offered = [name for name in ("document", "documents", "nes") if run.handshake.capabilities.get(name)]
        if (seq := greeting(run)) is not None:
            evidence.append(run.frame(seq, "offered" if offered else "not offered", ", ".join(offered)))
    counts = Counter(reference.shows for reference in evidence)
    return finding(
        study,
        "editor-state",
        "does-not-hold" if counts["method"] or counts["offered"] else "holds",
        f"{plural(counts['method'], 'message')} of document/* or nes/*, "
        f"offered in {counts['offered']} of {plural(len(runs), 'run')}",
        shown=("method", "offered", "not offered"),
        evidence=evidence,
        unit="runs",
        n=len(runs),
    )
