"""Sweeps with a live model that go wrong or may not start: a puppet as agent, an API that does as it is told."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient

from runner.config.catalog import Catalog
from runner.config.loaded_sweep import load_sweep
from runner.config.plan import plan
from runner.errors import UsageError
from runner.gateway.cassette import read_tape
from runner.sandbox.labels import LABEL, Owner
from runner.sweep.progress import PlainProgress
from runner.sweep.sweep import Options, run_sweep
from tests.engine.api import Api, Reply, answer, serving
from tests.engine.lab import Lab, attempt, frames, repaired
from tests.engine.test_sweep import ORPHAN, command, the_gateway_killed
from tests.engine.upstream import canary

pytestmark = pytest.mark.engine

MODEL: dict[str, Any] = {"do": "model"}
REPAIR = {"do": "write", "path": "src/semver.js", "text": repaired()}


class Live:
    """A lab with a live model `api`, whose key is `key`."""

    def __init__(self, lab: Lab, api: Api, socket: Path) -> None:
        self.lab, self.api, self.socket = lab, api, socket
        self.key = canary()
        (lab.root / "key").write_text(self.key)
        self.model()

    def model(self, **more: Any) -> None:
        address = f"unix:{self.socket}"
        given = {
            "kind": "upstream",
            "id": "api",
            "dialect": "anthropic",
            "base_url": address,
            "allow": [address],
            "key": {"file": "key"},
            "budget": {"requests": 100},
        }
        self.lab.write("models", {**given, **more})


@pytest.fixture
def live(lab: Lab, tmp_path: Path) -> Iterator[Live]:
    with serving(tmp_path / "api") as api:
        yield Live(lab, api, tmp_path / "api/api.sock")


def test_a_spent_budget_stops_the_sweep_and_keeps_everything(live: Live, engine: DockerClient) -> None:
    live.model(budget={"tokens": 150})  # an answer has 110
    adapter = live.lab.puppet("spender", [MODEL, REPAIR])
    result, records = live.lab.sweep(adapter, model="capture/api", repeat=5)
    assert [record.outcome for record in records] == ["passed", "passed", "aborted"]
    assert records[2].reason == "budget of api: tokens: 220 of 150 are spent"
    assert result.exit_code == 1
    (arm,) = result.report.arms
    assert arm.outcomes == {"aborted": 1, "missing": 2, "passed": 2}
    assert len(live.api.asked) == 2
    assert (attempt(result, records[2]) / "model.jsonl").is_file()
    # What was good before it stopped is a cassette.
    assert len(Catalog(live.lab.root).cassette("api").tapes) == 1
    owner = {"label": f"{LABEL}.owner={Owner.me()}"}
    assert engine.api.networks(filters=owner) == []


def test_an_upstream_that_is_not_there_is_infra_and_tried_again(live: Live) -> None:
    live.socket.unlink()
    # It ends at once, though the agent would ask until the turn's deadline: each request fails, and none is counted.
    adapter = live.lab.puppet("lost", [{**MODEL, "stubborn": True}, REPAIR])
    result, records = live.lab.sweep(adapter, model="live/api", infra_attempts=2)
    assert [record.outcome for record in records] == ["infra", "infra"]
    assert records[0].reason.startswith("model gateway: upstream api: connect ENOENT")
    assert result.exit_code == 1


def test_a_key_that_is_refused_is_infra_not_the_agents(live: Live) -> None:
    live.api.replies = [Reply(b'{"error": "no such key"}', status=401)]
    adapter = live.lab.puppet("refused", [MODEL, REPAIR])
    _, (record,) = live.lab.sweep(adapter, model="capture/api", infra_attempts=1)
    told = 'model gateway: upstream api: status 401, it refuses the key: {"error": "no such key"}'
    assert (record.outcome, record.reason) == ("infra", told)
    assert not (live.lab.root / "configs/cassettes").exists()


def test_a_killed_capture_leaves_no_cassette_and_is_resumed_to_a_whole_one(
    live: Live, engine: DockerClient, tmp_path: Path
) -> None:
    adapter = live.lab.puppet("killed", [MODEL, REPAIR])
    live.api.replies = [Reply(), Reply(silent=True)]
    process = command(
        live.lab, adapter, tmp_path / "out", 1, model="capture/api", surfaces=("acp", "cli")
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while len(live.api.asked) < 2:
        assert time.monotonic() < deadline, "the second run did not ask"
        time.sleep(0.05)
    with pytest.raises(UsageError, match="another sweep is capturing the cassette 'api'; wait for it"):
        live.lab.sweep(adapter, model="capture/api")
    process.kill()
    process.communicate(timeout=30)
    assert not (live.lab.root / "configs/cassettes").exists()

    live.api.replies = [Reply()]
    loaded = load_sweep(live.lab.root / "configs/sweeps/cut.yaml", Catalog(live.lab.root))
    result = run_sweep(loaded, plan(loaded), Options(tmp_path / "out", 1, resume=True), PlainProgress())
    assert result.exit_code == 0
    tapes = Catalog(live.lab.root).cassette("api").tapes
    assert sorted((tape.surface, tape.entries) for tape in tapes) == [("acp", 1), ("cli", 1)]
    live.socket.unlink()
    _, records = live.lab.sweep(adapter, surfaces=("acp", "cli"), model="replay/api")
    assert [(record.outcome, record.reason) for record in records] == [("passed", "")] * 2


def test_a_capture_whose_gateway_dies_keeps_the_run_that_came_to_its_end(
    live: Live, engine: DockerClient, tmp_path: Path
) -> None:
    live.api.replies = [Reply(answer("lost")), Reply(answer("kept"))]
    adapter = live.lab.puppet("orphan", ORPHAN)
    with the_gateway_killed(engine, tmp_path / "out"):
        result, records = live.lab.sweep(adapter, model="capture/api", out=tmp_path / "out")
    assert [record.outcome for record in records] == ["infra", "passed"]
    assert result.exit_code == 0
    (tape,) = (live.lab.root / "configs/cassettes/api").glob("*.jsonl")
    (line,) = read_tape(tape)
    assert "kept" in json.dumps(line["response"])


def test_nothing_starts_without_its_key_or_over_a_cassette(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = live.lab.puppet("early", [MODEL, REPAIR])
    monkeypatch.delenv("ACPBENCH_NO_SUCH_KEY", raising=False)
    live.model(key={"env": "ACPBENCH_NO_SUCH_KEY"})
    with pytest.raises(UsageError, match=r"api.yaml:1: model 'api': .* ACPBENCH_NO_SUCH_KEY is empty or not set"):
        live.lab.sweep(adapter, model="live/api")
    live.model(cassette="mine")
    folder = live.lab.root / "configs/cassettes/mine"
    folder.mkdir(parents=True)
    with pytest.raises(UsageError, match="configs/cassettes/mine is there already"):
        live.lab.sweep(adapter, model="capture/api")
    assert live.api.asked == []
    folder.rmdir()
    live.lab.sweep(adapter, model="capture/api")
    assert Catalog(live.lab.root).cassette("mine").id == "mine"


def test_a_key_that_comes_back_is_struck_out_of_everything_that_is_kept(live: Live) -> None:
    other = canary()
    live.api.replies = [Reply(answer(f"the keys are {live.key} and {other}"))]
    # In pieces: no configuration may hold a key.
    said = {"do": "say", "text": ["I know ", other[:9], other[9:]]}
    result, records = live.lab.sweep(live.lab.puppet("parrot", [MODEL, said, REPAIR]), model="capture/api")
    (record,) = records
    assert record.outcome == "passed"
    for path in (live.lab.root / "out").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert live.key.encode() not in data, path
            assert other.encode() not in data, path
    (tape,) = (live.lab.root / "configs/cassettes/api").glob("*.jsonl")
    assert "the keys are *** and ***" in json.dumps(read_tape(tape))
    assert [finding.message for finding in record.findings if finding.id == "redacted"] == [
        "frames.jsonl held what looks like a key"
    ]
    assert any(b"I know ***" in (frame.raw or b"") for frame in frames(result, record))


def test_a_replay_that_asks_less_or_something_else_fails_as_its_model(live: Live) -> None:
    again = json.loads(answer())
    again["content"] = [{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}]
    live.api.replies = [Reply(json.dumps(again).encode()), Reply()]
    live.lab.sweep(live.lab.puppet("curious", [MODEL, REPAIR]), model="capture/api")
    (path,) = (live.lab.root / "configs/cassettes/api").glob("*.jsonl")
    assert len(read_tape(path)) == 2
    live.socket.unlink()
    (live.lab.root / "key").unlink()
    _, records = live.lab.sweep("curious@1", model="replay/api")
    assert [(record.outcome, record.reason) for record in records] == [("passed", "")]
    # The same agent in another version plays the same tape; it does not ask at all.
    live.lab.puppet("curious", [REPAIR])
    result, records = live.lab.sweep("curious@1", model="replay/api")
    assert [record.outcome for record in records] == ["model-script"]
    assert records[0].reason == "2 of 2 recorded requests were not asked for: 0 (main), 1 (main)"
    assert result.exit_code == 1
