"""Row R: what `always allow` leaves behind, which reset keeps it, and that a fresh container has none of it."""

from __future__ import annotations

from collections import Counter

from runner.study.actions import Action, actions
from runner.study.boundary_actions import named_paths
from runner.study.model import ClaimFinding, Reference
from runner.study.rates import rate, said
from runner.study.runs import LoadedRun, Study, groups
from runner.study.verdicts import few, finding, not_measured, plural, verdict_of

CONTAINER = "container"
#: What `found_at_start` calls a thing in the workspace.
_IN_WORKSPACE = frozenset({"untracked", "ignored", "modified", "deleted"})


def findings(study: Study) -> list[ClaimFinding]:
    always = [run for run in study.acp if "allow_always" in run.answers]
    kept = [run for run in study.acp if run.record.reset != CONTAINER]
    return [
        _file(study, always),
        _clean(study, "contamination-clean", [run for run in kept if not _takes_ignored(run)], keeps=True),
        _clean(study, "contamination-fdx", [run for run in kept if _takes_ignored(run)], keeps=False),
        _container(study, [run for run in study.runs if run.record.reset == CONTAINER]),
    ]


def _takes_ignored(run: LoadedRun) -> bool:
    """Whether the reset takes what git ignores too: `git clean -x`."""
    return "x" in run.record.reset.rpartition("-")[2]


def _written(run: LoadedRun) -> set[str]:
    """Paths in the workspace that a scripted action names: the task's own."""
    root = run.cwd.rstrip("/") + "/"
    return {path.removeprefix(root) for action in actions(run) for path in named_paths(action)}


def _file(study: Study, runs: list[LoadedRun]) -> ClaimFinding:
    """Files in the workspace after the run that nobody asked for: changed there, named by no action."""
    runs = [run for run in runs if run.record.verdict is not None and run.record.pristine is not False]
    if not runs:
        return not_measured(study, "contamination-file", "no run answers `always allow`")
    evidence: list[Reference] = []
    carriers = 0
    for run in runs:
        own = _written(run)
        assert run.record.verdict is not None
        strays = [change for change in run.record.verdict.changes if change.path not in own and change.status == "A"]
        carriers += bool(strays)
        evidence += [run.file(change.path, change.after, "left behind", change.path) for change in strays]
        if not strays:
            asked = next((ask.seq for ask in run.asks if ask.answer == "allow_always"), None)
            evidence += [] if asked is None else [run.frame(asked, "left nothing")]
    names = Counter(reference.what for reference in evidence if reference.shows == "left behind")
    outside = Counter(path for run in runs for path in run.outside if path.startswith(run.home) and "ignore" in path)
    return finding(
        study,
        "contamination-file",
        "does-not-hold" if not carriers else "holds" if carriers == len(runs) else "holds-with-limits",
        f"{few(names) or 'no file'} in {carriers} of {plural(len(runs), 'run')}"
        + (f"; outside the workspace {few(outside)}" if outside else ""),
        figures={
            "left behind": sum(names.values()),
            "runs with one": carriers,
            "files": dict(names),
            "ignore files": dict(outside),
        },
        evidence=evidence,
        limits=[] if carriers in (0, len(runs)) else [f"not in {len(runs) - carriers} runs"],
        unit="runs that answer `always allow`",
        n=len(runs),
    )


def _chains(runs: list[LoadedRun]) -> list[list[LoadedRun]]:
    """Runs that followed each other in one container, in the order they ran."""
    found = groups(runs, lambda run: (run.record.container or run.record.arm, run.record.arm))
    return [sorted(chain, key=lambda run: run.record.start_ns) for chain in found.values()]


def _asked(run: LoadedRun) -> dict[tuple[str, str], Action]:
    return {action.key: action for action in reversed(actions(run)) if action.surfaced}


def _clean(study: Study, identity: str, runs: list[LoadedRun], *, keeps: bool) -> ClaimFinding:
    """The first run in a kept container against the ones after it: asks, and what was there at the start.

    `keeps`: the claim is that the reset keeps the contamination; else that it takes it away.
    """
    chains = [chain for chain in _chains(runs) if len(chain) > 1]
    if not chains:
        return not_measured(study, identity, "no container was kept for a second run under this reset")
    evidence: list[Reference] = []
    parts: list[str] = []
    files: Counter[str] = Counter()
    homes: Counter[str] = Counter()
    first_asks = later_asks = 0
    lost: set[str] = set()
    units: set[tuple[str, str]] = set()
    for chain in chains:
        first = _asked(chain[0])
        first_asks += len(chain[0].asks)
        units |= first.keys()
        evidence += [chain[0].frame(ask.seq, "first run asks", ask.command or ask.title) for ask in chain[0].asks]
        parts.append(" then ".join(str(len(run.asks)) for run in chain))
        for run in chain[1:]:
            later_asks += len(run.asks)
            evidence += [run.frame(ask.seq, "later run asks", ask.command or ask.title) for ask in run.asks]
            done = {action.key: action for action in actions(run) if action.result is not None}
            for key in first.keys() - _asked(run).keys():
                if key in done:
                    lost.add(key[1])
                    evidence.append(done[key].reference("no longer asked", key[1]))
            for found in run.record.found_at_start:
                inside = found.kind in _IN_WORKSPACE or (found.kind == "state" and not found.path.startswith(run.home))
                (files if inside else homes)[found.path] += 1
                index = run.record.found_at_start.index(found)
                evidence.append(
                    run.member(
                        f"found_at_start.{index}", "found in workspace" if inside else "found in HOME", found.path
                    )
                )
    bound = rate(len(lost), len(units))
    limits = _kept_limits(lost, files, homes) if keeps else _taken_limits(lost, files, homes)
    as_claimed = bool(lost) if keeps else not lost
    return finding(
        study,
        identity,
        verdict_of(fails=not as_claimed, limited=limits),
        f"asks, run after run: {'; '.join(parts)}; no longer asked: {said(bound, 'distinct actions')}; "
        f"at the start of a later run: {few(files, 3) or 'nothing'}",
        shown=("first run asks", "later run asks", "no longer asked", "found in workspace", "found in HOME"),
        figures={"files": dict(files), "chains": parts},
        evidence=evidence,
        limits=limits,
        unit="distinct actions that the first run asks for",
        bound=bound,
    )


def _kept_limits(lost: set[str], files: Counter[str], homes: Counter[str]) -> list[str]:
    """Where the claim is that the reset keeps the contamination. lost: what is no longer asked for."""
    if lost and not files:
        return ["asks went, though nothing was found in the workspace at the start"]
    if files and not lost:
        return [f"{few(files)} stays, and yet the next run asks the same"]
    return []


def _taken_limits(lost: set[str], files: Counter[str], homes: Counter[str]) -> list[str]:
    """Where the claim is that the reset takes the contamination away."""
    limits = []
    if lost:
        limits.append(f"no longer asked: {few(lost)}; found: {few([*files, *homes]) or 'nothing'}")
    if homes:
        limits.append(f"HOME keeps what no git command resets: {few(homes, 3)}")
    if files:
        limits.append(f"the workspace still holds {few(files)}")
    return limits


def _container(study: Study, runs: list[LoadedRun]) -> ClaimFinding:
    """Every run began with nothing of another, and asks for the same as its replicates."""
    proved = [run for run in runs if run.record.pristine is not None]
    if not proved:
        return not_measured(study, "contamination-container", "no run looked at its start")
    evidence = [
        run.member("pristine", "pristine" if run.record.pristine else "not pristine", run.record.arm) for run in proved
    ]
    dirty = [run for run in proved if not run.record.pristine]
    varying: list[str] = []
    for arm, replicates in groups((run for run in proved if run.acp), lambda run: run.record.arm).items():
        ways = {
            tuple(sorted(ask.title for ask in run.asks))
            for run in replicates
            if run.record.outcome == replicates[0].record.outcome
        }
        if len(ways) > 1:
            varying.append(arm)
    limits = [f"not pristine: {few(run.record.cell for run in dirty)}"] if dirty else []
    if varying:
        limits.append(f"asks differ between replicates of {few(varying)}")
    if unproved := len(runs) - len(proved):
        limits.append(f"{plural(unproved, 'run')} never looked")
    return finding(
        study,
        "contamination-container",
        verdict_of(fails=dirty, limited=limits),
        f"{len(proved) - len(dirty)} of {plural(len(proved), 'run')} began pristine; asks equal over replicates"
        + ("" if not varying else f" but in {len(varying)} arms"),
        shown=("pristine", "not pristine"),
        evidence=evidence,
        limits=limits,
        unit="runs in a container of their own",
        n=len(proved),
    )
