"""A record stays small, whatever an agent left behind, and says what was cut."""

from __future__ import annotations

from typing import Any

from runner.acp.buffers import MediatedWrite
from runner.records.bounds import ENTRIES, bounded
from runner.records.schema import AgentExit, Change, FoundAtStart, Turn, Verdict
from tests.unit.evidence.conversations import record


def huge() -> dict[str, Any]:
    changes = [Change(path=f"src/{number}", status="A") for number in range(200_000)]
    changes.append(Change(path="test/protected", status="M", protected=True))
    write = MediatedWrite(
        path="/w", before=None, after="a" * 40, seq=1, t_ns=1, was_unsaved=False, overwrote_unseen=False
    )
    return {
        "verdict": Verdict(passed=True, changes=changes, status="?? x\n" * 200_000, output="x" * 10**7),
        "ledger": [write] * 100_000,
        "found_at_start": [FoundAtStart(kind="untracked", path=f"u{number}") for number in range(100_000)],
        "agent_info": {"name": "n" * 10**6},
        "turns": [Turn(sent_ns=0, stop_reason="s" * 10**6, usage={str(number): number for number in range(10**5)})],
        "agent": AgentExit(spawn_ns=0, survivors=["command " * 10_000] * 5000),
    }


def test_a_huge_record_is_cut_to_less_than_a_megabyte_and_says_so() -> None:
    small = bounded(record(**huge()))
    assert len(small.model_dump_json()) < 10**6
    assert small.verdict is not None
    assert small.verdict.passed
    assert len(small.verdict.changes) == ENTRIES
    # What decides comes first.
    assert small.verdict.changes[0].path == "test/protected"
    assert small.cut["changes"] == 200_001 - ENTRIES
    assert small.cut["ledger"] == 100_000 - ENTRIES
    assert small.cut["survivors"] == 4900
    assert set(small.cut) == {
        "changes", "ledger", "survivors", "survivor_words", "found_at_start", "agent_info", "usage", "stop_reason",
        "status", "output",
    }  # fmt: skip
    assert small.turns[0].usage is not None
    assert list(small.turns[0].usage) == ["cut"]


def test_an_ordinary_record_is_as_it_was() -> None:
    before = record(turns=[Turn(sent_ns=0, stop_reason="end_turn", usage={"totalTokens": 3})], cut={"frames": 2})
    assert bounded(before) == before
