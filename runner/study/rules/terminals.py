"""Row 5: live terminal output, and what it hangs on."""

from __future__ import annotations

from runner.acp.methods import declared
from runner.evidence.toolcalls import terminal_items
from runner.study.actions import actions, distinct
from runner.study.model import ClaimFinding, Reference
from runner.study.rates import rate, said
from runner.study.rules.capabilities import vendor
from runner.study.runs import LoadedRun, Study
from runner.study.verdicts import finding, not_measured, plural, verdict_of
from runner.wire.values import as_text


def findings(study: Study) -> list[ClaimFinding]:
    terminal = [run for run in study.acp if declared(run.declared, "terminal")]
    return [
        _standard(study, [run for run in terminal if not vendor(run)]),
        _vendor(study, [run for run in study.acp if vendor(run)], [run for run in terminal if not vendor(run)]),
    ]


def _created(run: LoadedRun) -> set[str]:
    """Ids of the terminals that the client created."""
    made = run.conversation.requests("agent", "terminal/create")
    return {
        identity for creation in made if (identity := as_text((creation.result or {}).get("terminalId"))) is not None
    }


def _items(runs: list[LoadedRun]) -> list[Reference]:
    """One reference per terminal content item: `foreign` where the client never created its terminal."""
    references: list[Reference] = []
    for run in runs:
        own = _created(run)
        references += [
            run.frame(item.seq, "own" if item.terminal in own else "foreign", item.terminal)
            for item in terminal_items(run.conversation)
        ]
    return references


def _commands(runs: list[LoadedRun]) -> int:
    """Distinct commands that were run: only they could show output."""
    return len(distinct(a for run in runs for a in actions(run) if a.verb == "run" and a.call is not None))


def _standard(study: Study, runs: list[LoadedRun]) -> ClaimFinding:
    commands = _commands(runs)
    if not commands:
        return not_measured(study, "terminal-standard", "no run with the terminal flag alone runs a command")
    evidence = _items(runs)
    shown = {(reference.run, reference.what) for reference in evidence}
    # What has no item is shown by the capabilities that were declared.
    evidence += [run.frame(run.initialize_seq, "declared") for run in runs if run.initialize_seq is not None]
    own = sum(reference.shows == "own" for reference in evidence)
    foreign = sum(reference.shows == "foreign" for reference in evidence)
    bound = rate(0, commands) if not shown else None
    return finding(
        study,
        "terminal-standard",
        "does-not-hold" if shown else "holds",
        f"{plural(own + foreign, 'terminal content item')} in {plural(len(runs), 'run')}"
        + (
            f" of {commands} distinct commands: {own} with a terminal of the client's, {foreign} with another"
            if shown
            else f"; shown live: {said(bound, 'distinct commands')}"
        ),
        figures={"own": own, "foreign": foreign, "declared": len(runs), "commands": commands},
        evidence=evidence,
        unit="distinct commands",
        n=commands,
        bound=bound,
    )


def _vendor(study: Study, runs: list[LoadedRun], without: list[LoadedRun]) -> ClaimFinding:
    """The difference is the finding: items with the vendor's key, and none in runs `without` it."""
    commands = _commands(runs)
    if not commands:
        return not_measured(study, "terminal-vendor", "no run declares a vendor key and runs a command")
    evidence = _items(runs)
    evidence += [run.frame(run.initialize_seq, "declared") for run in runs if run.initialize_seq is not None]
    own = sum(reference.shows == "own" for reference in evidence)
    foreign = sum(reference.shows == "foreign" for reference in evidence)
    limits = [f"{plural(own, 'item')} with a terminal that the client created"] if own and foreign else []
    if not _commands(without):
        limits.append(
            "no run with the terminal flag alone runs a command: whether the key makes the difference is open"
        )
    free = [reference for reference in _items(without) if reference.shows == "foreign"]
    evidence += [reference.model_copy(update={"shows": "without the key"}) for reference in free]
    having = {reference.run for reference in free}
    if free:
        limits.append(f"items come without the key, too: {len(free)} in {len(having)} of {plural(len(without), 'run')}")
    keys = ", ".join(sorted({key for run in runs for key in vendor(run)}))
    per_run = sorted(
        sum(reference.run == run.name and reference.shows in ("own", "foreign") for reference in evidence)
        for run in runs
    )
    return finding(
        study,
        "terminal-vendor",
        verdict_of(fails=not foreign or 2 * len(having) >= max(len(without), 1), limited=limits),
        f"{plural(own + foreign, 'terminal content item')} in {plural(len(runs), 'run')} "
        f"({per_run[0]}-{per_run[-1]} a run), {foreign} with a terminalId that the client never created; keys: {keys}",
        figures={
            "own": own,
            "foreign": foreign,
            "without the key": len(free),
            "declared": len(runs),
            "commands": commands,
        },
        evidence=evidence,
        limits=limits,
        unit="runs",
        n=len(runs),
    )
