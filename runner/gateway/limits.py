"""What a run may ask of the gateway, which serves all runs of a sweep, and what came of an agent that asked for more.

The bounds themselves stand in images/gateway/limits.mjs: connections, requests, bytes and time of each run. What goes
over one is refused, never reaches a model, and is that agent's own doing: a finding, never `infra`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from runner.config.knobs import Knobs
from runner.gateway.journal import JournalEntry
from runner.records.schema import Finding

GATEWAY_LIMIT = "gateway-limit"
_MB = 10**6
#: A request that names no run at all: agents look for other addresses on their model's host. Recorded, and no finding.
_UNNAMED = "unnamed"


def limits_of(knobs: Knobs) -> dict[str, int]:
    """The bounds that a user sets, as the gateway names them."""
    return {"request_bytes": knobs.model_request_mb * _MB, "journal_bytes": knobs.model_cap_mb * _MB}


def limit_findings(entries: Iterable[JournalEntry]) -> list[Finding]:
    """One finding for each bound that the run met, with the words of its first refusal."""
    counts: Counter[str] = Counter()
    first: dict[str, JournalEntry] = {}
    for entry in entries:
        if entry.limit is not None and entry.limit != _UNNAMED:
            counts[entry.limit] += 1
            first.setdefault(entry.limit, entry)
    return [
        Finding(
            id=GATEWAY_LIMIT,
            message=f"{name}: {count} requests to the model, the first of them number {first[name].seq}: "
            f"{first[name].reason}",
        )
        for name, count in counts.items()
    ]
