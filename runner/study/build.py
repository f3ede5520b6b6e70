"""A sweep's folder -> its findings: every rule on every adapter, in the order of the published table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from pydantic import ConfigDict

from runner.analysis.flaky import flaky
from runner.config.base import Config, Id
from runner.config.loader import load as load_file
from runner.config.nearest import suggest
from runner.errors import AcpbenchError
from runner.records.store import SweepDir
from runner.study import advertised
from runner.study.claims import CLAIMS, LEFT_OPEN
from runner.study.damaged import told
from runner.study.model import ClaimFinding, StudyFindings
from runner.study.rules import (
    boundary,
    capabilities,
    contamination,
    cost,
    delays,
    delegation,
    documents,
    methods,
    names,
    payloads,
    permissions,
    sessions,
    terminals,
    veto,
)
from runner.study.runs import Study, load
from runner.study.verdicts import few, with_its_bound
from runner.text.encoding import repaired
from runner.text.files import is_there

RULES: Final[tuple[Callable[[Study], list[ClaimFinding]], ...]] = (
    names.findings,
    methods.findings,
    capabilities.findings,
    permissions.findings,
    boundary.findings,
    veto.findings,
    delays.findings,
    terminals.findings,
    advertised.findings,
    sessions.findings,
    payloads.findings,
    cost.findings,
    contamination.findings,
    delegation.findings,
    documents.findings,
)

#: Rows of claims on who is asked for what.
_OF_A_MODE: Final = frozenset({"3", "3b", "4"})


def _said(study: Study, rule: Callable[[Study], list[ClaimFinding]]) -> list[ClaimFinding]:
    return told(study.runs, lambda: rule(study))


def build(directory: Path, published: Path | None = None) -> StudyFindings:
    """The findings of a sweep. Raises UsageError for what cannot be read, naming the file.

    published: the configuration of a sweep whose published figures are shown where the sweep's own names none.
    """
    loaded = load(directory)
    figures = _published(directory / "sweep.yaml") or (_published(published) if published is not None else {})
    order = {identity: number for number, identity in enumerate(CLAIMS)}
    excluded = dict(loaded.excluded)
    found = [
        _in_chosen_mode(study, with_its_bound(finding)).model_copy(
            update={"published": figures.get(finding.id, LEFT_OPEN)}
        )
        for study in loaded.studies
        for finding in sorted(_judged(study, excluded), key=lambda one: order[one.id])
    ]
    marked = {
        run.name: few(f"{thing.kind} {thing.path}" for thing in run.record.found_at_start)
        for study in loaded.studies
        for run in study.runs
        if run.record.pristine is False
    }
    altered = {run.name: how for study in loaded.studies for run in study.runs if (how := run.altered) is not None}
    whole = StudyFindings(
        sweep=loaded.sweep,
        findings=found,
        excluded=excluded,
        not_pristine=marked,
        altered=altered,
        left_out=loaded.left_out,
        verifier_flaky=[workspace.message for workspace in flaky(SweepDir.read(directory).latest().values())],
    )
    # What a rule took from a raw log may be no Unicode.
    return StudyFindings.model_validate(repaired(whole.model_dump()))


class _PublishedFigures(Config):
    """The part of a sweep's configuration that is read here: the rest may be that of another version of ours."""

    model_config = ConfigDict(extra="ignore")
    published: dict[Id, str] = {}


def _published(config: Path) -> dict[str, str]:
    """The published figures that a sweep's configuration names, {} where there is no such file."""
    if not is_there(config):
        return {}
    loaded = load_file(config, _PublishedFigures)
    for identity in loaded.value.published:
        if identity not in CLAIMS:
            raise loaded.error(("published", identity), f"no claim has the id '{identity}'{suggest(identity, CLAIMS)}")
    return loaded.value.published


def _in_chosen_mode(study: Study, finding: ClaimFinding) -> ClaimFinding:
    """What is asked for depends on the mode, and a mode that our configuration chose is not the agent's doing."""
    chosen = dict.fromkeys(run.mode for run in study.acp if run.mode and run.mode != run.handshake.default_mode)
    if not chosen or finding.verdict == "not-measured" or CLAIMS[finding.id].row not in _OF_A_MODE:
        return finding
    said = f"in mode {' or '.join(chosen)}, chosen by our configuration: {finding.measured.text}"
    return finding.model_copy(update={"measured": finding.measured.model_copy(update={"text": said})})


def _judged(study: Study, excluded: dict[str, str]) -> Iterator[ClaimFinding]:
    """What every rule finds. A run that a rule cannot take is named in `excluded` and is in no figure of that rule."""
    for rule in RULES:
        try:
            yield from _said(study, rule)
        except AcpbenchError:
            raise
        except Exception as problem:  # noqa: BLE001 - one odd run must not take the findings of all others with it
            yield from _without_odd_runs(rule, study, excluded, problem)


def _without_odd_runs(
    rule: Callable[[Study], list[ClaimFinding]], study: Study, excluded: dict[str, str], problem: Exception
) -> list[ClaimFinding]:
    """The rule's findings without the runs that it fails on even alone; none where that does not help."""
    name = rule.__module__.rpartition(".")[2]
    good = []
    for run in study.runs:
        try:
            rule(replace(study, runs=(run,)))
        except AcpbenchError:
            raise
        except Exception as alone:  # noqa: BLE001 - as above
            excluded.setdefault(run.name, f"rule '{name}' fails on it: {type(alone).__name__}: {alone}")
        else:
            good.append(run)
    try:
        return rule(replace(study, runs=tuple(good)))
    except AcpbenchError:
        raise
    except Exception:  # noqa: BLE001 - as above
        excluded[f"rule {name}"] = f"it fails: {type(problem).__name__}: {problem}"
        return []
