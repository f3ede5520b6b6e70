from __future__ import annotations

from typing import Any

import pytest

from runner.evidence.resilience import Incident, incidents, outcome
from tests.unit.evidence.conversations import entry


def asked(seq: int, start: float, end: float, fault: str | None = None, **more: Any) -> Any:
    delayed = fault in ("stall", "slow-start")
    kind = "fault" if fault is not None and not delayed else "main"
    return entry(start, end, kind, seq=seq, **{"step": 0, "fault": fault, "attempt": seq + 1, **more})


def test_a_run_without_faults_has_none() -> None:
    assert incidents([entry(0, 1, step=0), entry(2, 3, step=1, seq=1)]) == []
    # a step with faults of which none was due any more
    assert incidents([asked(0, 0, 1)]) == []
    assert outcome([]) is None


def test_a_retry_that_is_answered_gets_over_it() -> None:
    found = incidents([asked(1, 510, 512, "server-error"), asked(0, 0, 2, "rate-limit"), asked(2, 2000, 2010)])
    assert found == [Incident(0, ("rate-limit", "server-error"), 2, 2000.0, "recovered")]


def test_an_agent_that_asks_no_more_gives_up() -> None:
    found = incidents([asked(0, 0, 2, "overloaded"), asked(1, 300, 305, "overloaded")])
    assert found == [Incident(0, ("overloaded", "overloaded"), 1, 305.0, "gave-up")]


@pytest.mark.parametrize(("kind", "lost"), [("stall", 900.0), ("slow-start", 0.0)])
def test_a_delay_that_is_sat_out_needs_no_retry(kind: str, lost: float) -> None:
    # the builder puts the first byte at the request's end
    assert incidents([asked(0, 0, 900, kind)]) == [Incident(0, (kind,), 0, lost, "waited")]


def test_each_step_and_each_turn_is_an_incident_of_its_own() -> None:
    entries = [
        asked(0, 0, 1, "reset"),
        asked(1, 5, 6, attempt=2),
        asked(2, 10, 11, "malformed", step=3, attempt=1),
        asked(3, 20, 21, step=3, attempt=2),
        asked(4, 30, 31, "reset", attempt=1),
    ]
    found = incidents(entries)
    assert [(one.step, one.faults, one.outcome) for one in found] == [
        (0, ("reset",), "recovered"), (3, ("malformed",), "recovered"), (0, ("reset",), "gave-up"),
    ]  # fmt: skip
    assert outcome(found) == "gave-up"
    assert outcome(found[:2]) == "recovered"
