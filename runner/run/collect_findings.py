"""Findings about what was not collected of a workspace.

Nothing here is a fault of the agent's or a reason to try again: the verdict is reached on what was collected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runner.records.schema import Finding, Verdict

_MB = 10**6
#: Skipped entries named in a finding.
_NAMED = 3
#: Kinds of files that the tests may need; ignored ones and empty folders they seldom do.
_NEEDED = ("changed", "untracked", "files")


def cap_findings(reply: Mapping[str, Any], cap_mb: int) -> list[Finding]:
    """Findings about a guest's reply to `collect`: what did not fit, what cannot be taken, a list that was cut."""
    findings = []
    if left_out := reply["left_out"]:
        files, size = (sum(kind[name] for kind in left_out.values()) for name in ("files", "bytes"))
        parts = ", ".join(f"{kind['files']} {_in_words(name)}" for name, kind in left_out.items())
        message = f"{files} entries of the workspace ({size / _MB:.1f} MB) were not collected: {parts}"
        findings.append(
            Finding(id="collect-cut", message=f"{message}; knobs.collect_cap_mb: {cap_mb} raises the limit")
        )
    if odd := reply["odd"]:
        entries = [entry for entry in reply["skipped"] if entry["reason"] != "over the size limit"]
        named = first_entries(entries, odd)
        findings.append(Finding(id="collect-skipped", message=f"not collected from the workspace: {named}"))
    if reply["outside_cut"]:
        message = f"the list of files outside the workspace ends after {len(reply['outside'])}"
        findings.append(Finding(id="outside-cut", message=f"{message}; what was written beyond it is in no metric"))
    return findings


def first_entries(entries: Sequence[Mapping[str, Any]], count: int) -> str:
    """The first of skipped entries with their reasons, and how many more of `count` there are."""
    named = ", ".join(f"{entry['path']} ({entry['reason']})" for entry in entries[:_NAMED])
    return named + (f" and {count - _NAMED} more" if count > _NAMED else "")


def _in_words(kind: str) -> str:
    names = {"changed": "changed files of the fixture", "untracked": "new files", "ignored": "files ignored by git"}
    return names.get(kind, kind)


def with_missing(verdict: Verdict, left_out: Mapping[str, Mapping[str, int]], cap_mb: int) -> Verdict:
    """The verdict; where it is a fail and files that the tests may need did not fit, its reason says so."""
    missing = sum(left_out[kind]["files"] for kind in _NEEDED if kind in left_out)
    if verdict.passed or not missing:
        return verdict
    reason = f"{missing} changed or new files were not collected (knobs.collect_cap_mb: {cap_mb})"
    return verdict.model_copy(update={"reason": f"{verdict.reason}; {reason}"})
