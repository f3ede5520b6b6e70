"""A record of bounded size, whatever the agent did: lists and texts of its making are cut, and `cut` counts it.

What is counted in metrics is counted before; what was cut away is in no list of the record.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from runner.records.schema import Record

#: Entries of a list, and characters of a text.
ENTRIES: Final = 1000
WORDS: Final = 500
#: Characters of what the tests printed, or git said.
_OUTPUT: Final = 64_000
#: Characters of an object that an agent sent, as JSON.
_SENT: Final = 16_000

T = TypeVar("T")


class _Cut:
    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def list(self, name: str, values: Sequence[T], most: int = ENTRIES) -> list[T]:
        if len(values) > most:
            self.counts[name] = len(values) - most
        return list(values[:most])

    def text(self, name: str, text: str, most: int = WORDS) -> str:
        if len(text) <= most:
            return text
        self.counts[name] = self.counts.get(name, 0) + len(text) - most
        return text[: most - 3] + "..."

    def sent(self, name: str, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is None or (length := len(json.dumps(value))) <= _SENT:
            return value
        self.counts[name] = self.counts.get(name, 0) + length
        return {"cut": length}


def bounded(record: Record) -> Record:
    """The record with every list and text of an agent's making within bounds; `cut` says what each was longer by."""
    cut = _Cut()
    update: dict[str, Any] = {
        "ledger": cut.list("ledger", record.ledger),
        "found_at_start": cut.list("found_at_start", record.found_at_start),
        "agent_info": cut.sent("agent_info", record.agent_info),
        "turns": [
            turn.model_copy(
                update={
                    "usage": cut.sent("usage", turn.usage),
                    "stop_reason": None if turn.stop_reason is None else cut.text("stop_reason", turn.stop_reason),
                }
            )
            for turn in record.turns
        ],
        "probes": [
            probe.model_copy(update={"error": cut.text("probes", probe.error)}) if probe.error else probe
            for probe in record.probes
        ],
    }
    if record.agent is not None:
        survivors = cut.list("survivors", record.agent.survivors, 100)
        shortened = [cut.text("survivor_words", words) for words in survivors]
        update["agent"] = record.agent.model_copy(update={"survivors": shortened})
    if record.verdict is not None:
        verdict = record.verdict
        # Edits of protected files first: they decide.
        changes = sorted(verdict.changes, key=lambda change: not change.protected)
        long = len(changes) > ENTRIES
        update["verdict"] = verdict.model_copy(
            update={
                "changes": cut.list("changes", changes) if long else verdict.changes,
                "status": cut.text("status", verdict.status, _OUTPUT),
                "output": cut.text("output", verdict.output, _OUTPUT),
            }
        )
    return record.model_copy(update={**update, "cut": {**record.cut, **cut.counts}})
