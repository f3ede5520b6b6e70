"""The real adapter under faults of the model, a rejection and an answer that is cut short: from script to metrics."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from runner.config.catalog import Catalog
from runner.gateway.journal import parse_journal
from tests.engine.lab import REPOSITORY, Lab, attempt

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(300)]

ADAPTER = "claude-agent-acp@0.64.0"
#: Step of fix-semver -> what it meets first.
FAULTS: dict[int, dict[str, Any]] = {
    1: {"kind": "rate-limit"},
    2: {"kind": "server-error"},
    3: {"kind": "overloaded"},
    4: {"kind": "reset"},
    5: {"kind": "malformed"},
    6: {"kind": "stall", "delay_ms": 300.0},
    7: {"kind": "slow-start", "delay_ms": 300.0},
}


@pytest.fixture
def real(lab: Lab) -> Lab:
    shutil.copy(REPOSITORY / "configs/adapters/claude-agent-acp-0.64.0.yaml", lab.root / "configs/adapters")
    return lab


def test_an_agent_gets_over_every_fault_and_it_is_told_what_that_took(real: Lab) -> None:
    steps = Catalog(REPOSITORY).loaded_script("fix-semver").source.data["steps"]
    spoilt = [{**step, "faults": [FAULTS[n]]} if n in FAULTS else step for n, step in enumerate(steps)]
    real.write("models", {"id": "faulty", "steps": spoilt})
    result, (record,) = real.sweep(ADAPTER, script="faulty")
    assert (record.outcome, record.reason) == ("passed", "")
    assert record.exact["faults.met"] == 7
    # the two that only hold the answer up need no retry
    assert record.exact["faults.retries"] == 5
    assert record.exact["faults.outcome"] == "recovered"
    assert record.exact["model_requests"] == len(steps)
    lost, turn = record.sampled["fault_lost_ms"], record.sampled["turn_ms"]
    assert lost is not None
    assert turn is not None
    # Retry-After of one second, and two delays
    assert 1600 < lost < turn
    lines = (attempt(result, record) / "model.jsonl").read_bytes().split(b"\n")
    found = [(entry.fault, entry.step) for entry in parse_journal(lines) if entry.fault is not None]
    assert found == [(fault["kind"], step) for step, fault in FAULTS.items()]


@pytest.mark.parametrize(
    ("policy", "said", "left_out"), [("reject_once", "Then I stop.", 2), ("allow_once", "They fail.", 1)]
)
def test_a_script_follows_what_became_of_its_call(real: Lab, policy: str, said: str, left_out: int) -> None:
    steps = [
        {"run": {"command": "node --test"}},
        {"when": "rejected", "say": "Then I stop."},
        {"when": "failed", "say": "They fail."},
    ]
    real.write("models", {"id": "branches", "steps": steps})
    result, (record,) = real.sweep(ADAPTER, script="branches", policies=[policy], expect="task-failed")
    assert record.outcome == "task-failed", record.reason
    lines = (attempt(result, record) / "model.jsonl").read_bytes().split(b"\n")
    last = parse_journal(lines)[-1]
    assert said in "".join(_texts(last.response.text))
    assert last.step == 3 - left_out


def test_an_agent_goes_on_after_an_answer_that_was_cut_short(real: Lab) -> None:
    steps = [{"run": {"command": "ls"}}, {"say": "A long wo", "stop": "max_tokens"}, {"say": "rd."}]
    real.write("models", {"id": "short", "steps": steps})
    _, (record,) = real.sweep(ADAPTER, script="short", expect="task-failed")
    assert (record.outcome, record.exact["stop_reason"]) == ("task-failed", "end_turn")
    assert record.exact["model_requests"] == 3


def _texts(body: str) -> list[str]:
    """The pieces of text of a streamed answer."""
    events = [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: ")]
    return [event["delta"]["text"] for event in events if "text" in event.get("delta", {})]
