"""A sweep's folder -> its findings: every rule on every adapter, in the order of the published table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from runner.findings import (
    boundary,
    capabilities,
    contamination,
    cost,
    delays,
    delegation,
    documents,
    methods,
    names,
    offers,
    payloads,
    permissions,
    sessions,
    terminals,
    veto,
)
from runner.findings.damaged import told
from runner.findings.judge import few
from runner.findings.loaded import Study, load
from runner.findings.model import Finding, Findings
from runner.findings.published import CLAIMS
from runner.flaky import flaky
from runner.records.store import SweepDir

RULES: Final[tuple[Callable[[Study], list[Finding]], ...]] = (
    names.findings,
    methods.findings,
    capabilities.findings,
    permissions.findings,
    boundary.findings,
    veto.findings,
    delays.findings,
    terminals.findings,
    offers.findings,
    sessions.findings,
    payloads.findings,
    cost.findings,
    contamination.findings,
    delegation.findings,
    documents.findings,
)


def _said(study: Study, rule: Callable[[Study], list[Finding]]) -> list[Finding]:
    return told(study.runs, lambda: rule(study))


def build(directory: Path) -> Findings:
    """The findings of a sweep. Raises UsageError for what cannot be read, naming the file."""
    loaded = load(directory)
    order = {identity: number for number, identity in enumerate(CLAIMS)}
    found = [
        finding
        for study in loaded.studies
        for finding in sorted((one for rule in RULES for one in _said(study, rule)), key=lambda one: order[one.id])
    ]
    marked = {
        run.name: few(f"{thing.kind} {thing.path}" for thing in run.record.found_at_start)
        for study in loaded.studies
        for run in study.runs
        if run.record.pristine is False
    }
    altered = {run.name: how for study in loaded.studies for run in study.runs if (how := run.altered) is not None}
    return Findings(
        sweep=loaded.sweep,
        findings=found,
        excluded=loaded.excluded,
        not_pristine=marked,
        altered=altered,
        verifier_flaky=[one.message for one in flaky(SweepDir.read(directory).latest().values())],
    )
