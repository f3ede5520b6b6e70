"""Cassettes in the dialects beside Anthropic's: one real agent each, captured, then replayed without a key."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient

from runner.config.base import on_disk
from runner.config.catalog import Catalog
from runner.evidence.metrics import is_information
from runner.gateway.cassette import dump, read_tape
from runner.gateway.journal import parse_journal
from runner.records.schema import Record
from tests.engine.gateway_harness import ledger
from tests.engine.lab import REPOSITORY, Lab, attempt
from tests.engine.spy import files_with
from tests.engine.upstream import canary, scripted, stand_in

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(300)]

#: Adapter -> the header in which its API wants the key.
ADAPTERS = {
    "opencode@1.18.33": "authorization",
    "zed-codex-acp@0.16.0": "authorization",
    "gemini-cli@0.61.0": "x-goog-api-key",
}


def settled(record: Record) -> dict[str, Any]:
    """The exact metrics, but for how often an agent tells of a command's growing output: the machine's doing."""
    left_out = "updates.tool_call_update"
    return {name: value for name, value in record.exact.items() if not is_information(name) and name != left_out}


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_a_real_agent_is_captured_and_replayed(
    adapter: str, lab: Lab, engine: DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(REPOSITORY / f"configs/adapters/{on_disk(adapter)}.yaml", lab.root / "configs/adapters")
    key = canary()
    monkeypatch.setenv("ACPBENCH_TEST_KEY", key)
    tmp_path.chmod(0o755)
    with stand_in(engine, tmp_path / "socket", key, scripted(adapter)) as there:
        model = {
            "kind": "upstream",
            "id": "stand-in",
            "dialect": Catalog(REPOSITORY).adapter(adapter).dialect,
            "base_url": f"unix:{there.path}",
            "key": {"env": "ACPBENCH_TEST_KEY"},
            "allow": [f"unix:{there.path}"],
            "budget": {"requests": 100, "tokens": 10_000_000},
        }
        lab.write("models", model)
        result, (recorded,) = lab.sweep(adapter, model="capture/stand-in")
        assert (recorded.outcome, recorded.reason) == ("passed", "")
        asked = ledger(there.gateway, key).entries
    assert {entry.request.headers[ADAPTERS[adapter]] for entry in asked} == {"***"}
    assert recorded.exact["tokens_served"] > 0
    (path,) = (lab.root / "configs/cassettes/stand-in").glob("*.jsonl")
    tape = read_tape(path)
    assert len(tape) == len(asked) == recorded.exact["model_requests"] + recorded.exact["side_requests"]
    assert b"".join(dump(tape)) == path.read_bytes()
    entries = parse_journal((attempt(result, recorded) / "model.jsonl").read_bytes().split(b"\n"))
    calls = [call.tool for entry in entries for call in entry.calls]
    assert len(calls) == recorded.exact["tool_calls_served"] == 10

    monkeypatch.delenv("ACPBENCH_TEST_KEY")
    replay, records = lab.sweep(adapter, model="replay/stand-in", repeat=2, jobs=2)
    assert [(record.outcome, record.reason) for record in records] == [("passed", "")] * 2
    for record in records:
        assert settled(record) == settled(recorded)
        assert [finding.message for finding in record.findings if finding.id == "replay-drift"] == []
    assert files_with(lab.root, key) == []

    # One byte of what a tool returned: the replay ends at the first request that holds it.
    first = next(number for number, line in enumerate(tape) if " pass 1" in json.dumps(line["request"]))
    for line in tape:
        text = json.dumps(line["request"], ensure_ascii=False)
        line["request"] = json.loads(text.replace(" pass 1", " pass 7"))
    path.write_bytes(b"".join(dump(tape)))
    _, (record,) = lab.sweep(adapter, model="replay/stand-in")
    assert record.outcome == "model-script"
    assert f"nearest: entry {first} differs at body." in record.reason
    assert " pass 7" in record.reason
    assert " pass 1" in record.reason
    assert replay.exit_code == 0
