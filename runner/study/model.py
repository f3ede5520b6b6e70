"""A finding as data: claim, published figure, ours, verdict, evidence. Its JSON names are a contract."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = 1

#: `holds-so-far`: nothing speaks against it, and too few distinct actions were tried to say more.
#: `information`: a figure of this machine, or of what we chose; nothing is said for or against the agent.
Judgement = Literal["holds", "holds-so-far", "holds-with-limits", "does-not-hold", "information", "not-measured"]


class StudyPart(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Reference(StudyPart):
    """One piece of evidence. `run`: path of an attempt, relative to the sweep's folder; `.`: that folder itself.

    frame: `seq` of frames.jsonl; model: `seq` of model.jsonl; file: `path` (relative: in the workspace) with its `hash`
    (git blob hash in the workspace, sha256 outside it; None where there is no such file any more), as record.json and
    fsdiff.json have it; record: a member of record.json, its dotted `path`.
    """

    run: str
    kind: Literal["frame", "model", "file", "record"]
    seq: int | None = None
    path: str | None = None
    hash: str | None = None
    #: What it is counted as: the figure of this name is the number of references that show it.
    shows: str
    #: The thing itself, for a reader: a path, a command, a title.
    what: str = ""


class Rate(StudyPart):
    """k of n distinct actions, with the one-sided 95 % bounds of Clopper and Pearson (null where they say nothing)."""

    k: int
    n: int
    at_most: float | None
    at_least: float | None


class Table(StudyPart):
    """Figures that want rows and columns; every cell is said as it is to be read."""

    title: str
    headers: list[str]
    rows: list[list[str]]


class Measured(StudyPart):
    """Our figure. `n` and `bound` are those of the rate that the verdict rests on, where it rests on one."""

    text: str
    figures: dict[str, Any] = {}
    #: What `n` counts.
    unit: str = ""
    n: int | None = None
    bound: Rate | None = None
    tables: list[Table] = []


class ClaimFinding(StudyPart):
    id: str
    adapter: str
    claim: str
    #: From the configuration of the study; see `runner.study.build`.
    published: str = ""
    measured: Measured
    verdict: Judgement
    #: Why the verdict is not plainly `holds`: the limits, the counter-example, what is missing. One sentence each.
    limits: list[str] = []
    evidence: list[Reference] = []


class StudyFindings(StudyPart):
    schema_version: int = SCHEMA_VERSION
    sweep: str
    findings: list[ClaimFinding]
    #: Runs that prove nothing, and why: they are in no figure.
    excluded: dict[str, str] = {}
    #: Runs that began with something of an earlier one, and what it was: they are in no rate.
    not_pristine: dict[str, str] = {}
    #: Runs whose logs are not as they were when the record was written, and how they differ.
    altered: dict[str, str] = {}
    #: Adapter -> why some of the study's runs were not in its plan: rows without a run may be for want of these.
    left_out: dict[str, list[str]] = Field(default={}, exclude_if=lambda value: not value)
    #: What is said of verifiers that gave equal workspaces different verdicts.
    verifier_flaky: list[str] = Field(default=[], exclude_if=lambda value: not value)
