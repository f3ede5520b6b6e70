"""Row 12: the editor's unsaved text, and the ledger of writes that went through the client."""

from __future__ import annotations

from collections import Counter

from runner.acp.methods import declared
from runner.study.model import ClaimFinding, Reference
from runner.study.rates import rate, said
from runner.study.runs import LoadedRun, Study
from runner.study.verdicts import few, finding, not_measured, plural, verdict_of


def findings(study: Study) -> list[ClaimFinding]:
    return [_unsaved(study), _ledger(study)]


def _typed(run: LoadedRun) -> list[str]:
    """Canaries that stand in the editor's unsaved text."""
    return [name for name, canary in run.record.canaries.items() if any(canary in b.text for b in run.record.buffers)]


def _unsaved(study: Study) -> ClaimFinding:
    """Which text reached the model, and what became of the editor's text: its own ledger says whether a write that went
    through it was over text that the agent had not read. A write past the editor never saw that text.
    """
    runs = [run for run in study.acp if run.record.buffers and _typed(run) and run.prompt_seq is not None]
    if not runs:
        return not_measured(study, "unsaved", "no run opens a document with unsaved text")
    evidence: list[Reference] = []
    stale = lost = saved = 0
    by_caps: Counter[str] = Counter()
    for run in runs:
        caps = "fs declared" if declared(run.declared, "fs.readTextFile") else "fs not declared"
        seen = [(name, seq) for name in _typed(run) if (seq := run.journal.canaries.get(name)) is not None]
        if seen:
            evidence.append(run.model(seen[0][1], "editor's text", seen[0][0]))
            by_caps[f"editor's text, {caps}"] += 1
        else:
            stale += 1
            by_caps[f"disk's text, {caps}"] += 1
            entry = next((entry for entry in run.journal.entries if entry.kind == "main"), None)
            evidence += [run.model(entry.seq, "disk's text")] if entry is not None else []
        for buffer in run.record.buffers:
            after = _after(run, buffer.path, buffer.disk_blob)
            relative = buffer.path.removeprefix(run.cwd.rstrip("/") + "/")
            if after is None or after == buffer.disk_blob:
                evidence.append(run.file(relative, after, "disk untouched", buffer.path))
            elif _overwrote_unseen(run, buffer.path):
                lost += 1
                evidence.append(run.file(relative, after, "disk overwritten unseen", buffer.path))
            else:
                saved += 1
                evidence.append(run.file(relative, after, "disk from editor", buffer.path))
    where = ", ".join(f"{name}: {count}" for name, count in sorted(by_caps.items()))
    limits = [] if stale in (0, len(runs)) else [f"{name} in {count}" for name, count in sorted(by_caps.items())]
    return finding(
        study,
        "unsaved",
        verdict_of(fails=not stale, limited=limits or not lost),
        f"the editor's unsaved text reached the model in {len(runs) - stale} of {plural(len(runs), 'run')}; the file "
        f"was written over without it in {lost}, from it in {saved} ({where})",
        figures={
            "editor's text": len(runs) - stale,
            "disk's text": stale,
            "disk overwritten unseen": lost,
            "disk from editor": saved,
        },
        evidence=evidence,
        limits=limits or ([] if lost or not stale else ["nothing was written over"]),
        unit="runs with unsaved text",
        n=len(runs),
    )


def _overwrote_unseen(run: LoadedRun, path: str) -> bool:
    """Whether the file was written over text that the agent had not read through the editor.

    True, too, for a write that went past the editor.
    """
    through = [entry for entry in run.record.ledger if entry.path == path]
    return not through or any(entry.overwrote_unseen for entry in through)


def _after(run: LoadedRun, path: str, before: str | None) -> str | None:
    """Git blob hash of a document on disk after the run."""
    relative = path.removeprefix(run.cwd.rstrip("/") + "/")
    verdict = run.record.verdict
    change = next((c for c in verdict.changes if c.path == relative), None) if verdict is not None else None
    return change.after if change is not None else before


def _ledger(study: Study) -> ClaimFinding:
    """x of y changes went through the client, where it offers to write. The unit is the distinct change."""
    runs = [
        run
        for run in study.acp
        if declared(run.declared, "fs.writeTextFile") and run.record.verdict is not None and run.record.verdict.changes
    ]
    if not runs:
        return not_measured(study, "ledger", "no run with fs.writeTextFile changes a file")
    evidence: list[Reference] = []
    units: dict[tuple[str, str, str | None], bool] = {}
    unlogged: list[str] = []
    for run in runs:
        assert run.record.verdict is not None
        written = {(entry.path, entry.after): entry.seq for entry in run.record.ledger}
        for change in run.record.verdict.changes:
            key = (run.record.fixture, change.path, change.after)
            seq = written.get((f"{run.cwd.rstrip('/')}/{change.path}", change.after or ""))
            if key in units:
                continue
            units[key] = seq is not None
            if seq is not None:
                evidence.append(run.frame(seq, "through the client", change.path))
            else:
                evidence.append(run.file(change.path, change.after, "past the client", change.path))
                unlogged.append(change.path)
    through = sum(units.values())
    bound = rate(through, len(units))
    return finding(
        study,
        "ledger",
        "does-not-hold" if not through else "holds" if through == len(units) else "holds-with-limits",
        f"through the client: {said(bound, 'distinct changes of files')}, {plural(len(runs), 'run')}",
        figures={"through the client": through, "past the client": len(units) - through},
        evidence=evidence,
        limits=[f"past the client: {few(unlogged)}"] if unlogged and through else [],
        unit="distinct changes",
        bound=bound,
    )
