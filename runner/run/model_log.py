"""What the gateway wrote of a run's model: fetched, read, and what it says of the run."""

from __future__ import annotations

from runner.errors import InfraError, UsageError
from runner.gateway.capture import TAPE
from runner.gateway.cassette import drift, dump, tape_of
from runner.gateway.container import Gateway
from runner.gateway.journal import LoggedEntries
from runner.gateway.limits import limit_findings
from runner.gateway.program import model_failures
from runner.records.schema import Finding
from runner.records.store import AttemptDir
from runner.run.inputs import RunInputs
from runner.run.observed import Observed

#: The model's journal, in an attempt's folder.
MODEL_LOG = "model.jsonl"


def collect_model_log(gateway: Gateway, inputs: RunInputs, attempt: AttemptDir, observed: Observed) -> None:
    """Fill the journal's part of `observed`; of a captured model write the tape, too.

    :raises InfraError: the gateway is dead, or gave less than it said.
    """
    _fetch(gateway, inputs.token, attempt, observed)
    observed.errors += model_failures(observed.entries)
    observed.findings.extend(drift(observed.entries))
    observed.findings.extend(limit_findings(observed.entries))
    if inputs.program.get("mode") == "capture":
        try:
            entries = LoggedEntries(attempt.path / MODEL_LOG)
            attempt.write_pieces(TAPE, dump(tape_of(entries)))
        except UsageError as problem:
            observed.findings.append(Finding(id="no-tape", message=str(problem)))


def _fetch(gateway: Gateway, token: str, attempt: AttemptDir, observed: Observed) -> None:
    """From the gateway into its file, piece by piece; then its entries from there, without their bodies."""
    journal = gateway.collect(token, lambda pieces: attempt.write_pieces(MODEL_LOG, pieces))
    observed.journal = journal
    observed.entries = LoggedEntries(attempt.path / MODEL_LOG).bare()
    observed.model_asked = any(entry.kind in ("main", "side") for entry in observed.entries)
    if journal.entries is not None and journal.entries != len(observed.entries):
        count = f"it wrote {journal.entries} entries, {len(observed.entries)} came here"
        raise InfraError(f"model gateway: {count}")
