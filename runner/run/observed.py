"""What a run brings to light: filled as it happens, so that whatever ends the run loses nothing seen before."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from runner.config.plan import Cell
from runner.errors import InternalError, RunError
from runner.evidence.metrics import LeftoverFiles
from runner.evidence.work import ChangeTime
from runner.gateway.container import CollectedJournal as CollectedJournal
from runner.gateway.journal import JournalEntry
from runner.records.findings import Findings
from runner.records.schema import Verdict
from runner.run.failure import cannot_be_helped, run_error
from runner.run.prepare import Start
from runner.surfaces.driver import DriverResult
from runner.surfaces.phases import PhaseClock


@dataclass(slots=True)
class Collected:
    """What was fetched of the agent's container after its end."""

    #: Base64 of a gzipped tar of the workspace; None: nothing could be had, so there is no verdict.
    archive: str | None = None
    #: The fixture's paths that are not as they were; None: the archive is whole.
    differing: list[str] | None = None
    #: Kind of file -> how many, and bytes, that were not collected.
    left_out: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    #: Outside the workspace; None: nobody looked.
    leftovers: LeftoverFiles | None = None
    #: When the workspace's files were last changed.
    changes: list[ChangeTime] = field(default_factory=list)
    #: Host name -> questions for it; None: nobody listened.
    names: dict[str, int] | None = None


@dataclass(slots=True)
class Observed:
    """Facts of one attempt. Times: ns of our CLOCK_MONOTONIC, but for `started_at` (UTC, ISO 8601)."""

    started_at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))
    start_ns: int = field(default_factory=time.monotonic_ns)
    #: See `Record.load`.
    load: float = field(default_factory=lambda: round(os.getloadavg()[0], 2))
    end_ns: int = 0
    phases: PhaseClock = field(default_factory=PhaseClock)
    #: All that went wrong, in order.
    errors: list[RunError] = field(default_factory=list)
    #: Of our own failures, for whoever mends them.
    tracebacks: list[str] = field(default_factory=list)
    findings: Findings = field(default_factory=Findings)
    #: None: the agent's container did not come so far.
    start: Start | None = None
    #: What to subtract from the guest's stamps.
    offset_ns: int = 0
    #: When the agent was started; None: it never was.
    spawn_ns: int | None = None
    driven: DriverResult | None = None
    collected: Collected = field(default_factory=Collected)
    #: Of the model's journal, without what is large in them.
    entries: list[JournalEntry] = field(default_factory=list)
    journal: CollectedJournal | None = None
    #: Whether the model was asked; None: nobody knows yet.
    model_asked: bool | None = None
    verdict: Verdict | None = None
    container_id: str | None = None
    #: What the caps left out of the logs of the agent's streams.
    streams_cut: dict[str, int] = field(default_factory=dict)

    def guarded(self, step: Callable[[], None]) -> None:
        """Do `step`; what it raises becomes one of `errors`: one bad run must not take the others with it."""
        try:
            step()
        except Exception as problem:  # noqa: BLE001 - see above; what is ours keeps its traceback
            self.add(problem)

    def add(self, problem: Exception, doing: str = "") -> None:
        """Note what was raised. `doing`: what could not be done, where only we are to blame."""
        error = run_error(problem, doing)
        if isinstance(error, InternalError):
            self.tracebacks.append("".join(traceback.format_exception(problem)))
        self.errors.append(error)

    @property
    def cut(self) -> dict[str, int]:
        """What the caps left out of all logs."""
        if self.journal is None:
            return self.streams_cut
        bodies, size = self.journal.cut_bodies, self.journal.cut_bytes
        return {**self.streams_cut, "model_bodies": bodies, "model_bytes": size}

    def is_hopeless(self, cell: Cell) -> bool:
        """Whether another attempt would end the same way, or pay for a run again that only we could not keep."""
        asked = self.spawn_ns is not None and self.model_asked is not False
        return cannot_be_helped(self.errors, cell.model, asked=asked)
