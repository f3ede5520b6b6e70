"""The real adapter against a stand-in for a model's API that wants a key: captured, then replayed without it."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient

from runner.config.catalog import Catalog
from runner.config.loaded_sweep import load_sweep
from runner.config.plan import plan
from runner.evidence.metrics import is_information
from runner.gateway.cassette import dump, read_tape
from runner.gateway.journal import JournalEntry, parse_journal
from runner.records.schema import Record
from runner.records.store import SweepDir
from runner.run.inputs import DUMMY_KEY
from runner.sweep.progress import PlainProgress
from runner.sweep.sweep import Options, SweepResult, run_sweep
from tests.engine.gateway_harness import ledger
from tests.engine.lab import REPOSITORY
from tests.engine.spy import Spy, files_with
from tests.engine.upstream import canary, scripted, stand_in

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(600)]

ADAPTER = "claude-agent-acp@0.64.0"
SURFACES = ("acp", "cli")
TTFT_MS = 60.0


@dataclass
class Ran:
    result: SweepResult
    records: list[Record]

    def entries(self, record: Record) -> list[JournalEntry]:
        path = self.result.directory / "runs" / record.cell / str(record.attempt) / "model.jsonl"
        return parse_journal(path.read_bytes().split(b"\n"))


def make_root(root: Path) -> Path:
    (REPOSITORY / ".cache").mkdir(exist_ok=True)  # nothing made it yet in a fresh clone
    for folder in ("configs/models", "configs/sweeps"):
        (root / folder).mkdir(parents=True)
    for name in ("images", "fixtures", ".cache", "configs/adapters", "configs/surfaces"):
        (root / name).symlink_to(REPOSITORY / name)
    return root


def run(root: Path, name: str, model: str, *, surfaces: tuple[str, ...] = SURFACES, jobs: int = 1, **more: Any) -> Ran:
    config = root / "configs/sweeps" / f"{name}.yaml"
    arm = {"adapters": [ADAPTER], "surfaces": list(surfaces), "fixtures": ["semver"], "models": [model]}
    config.write_text(json.dumps({"id": name, "arms": [arm], "warmup": 0, "repeat": 1, **more}))
    loaded = load_sweep(config, Catalog(root))
    result = run_sweep(loaded, plan(loaded), Options(out=root / "out" / name, jobs=jobs), PlainProgress())
    return Ran(result, list(SweepDir.read(result.directory).records()))


def exact(record: Record) -> dict[str, Any]:
    return {name: value for name, value in record.exact.items() if not is_information(name)}


@dataclass
class Captured:
    root: Path
    ran: Ran
    key: str
    spy: Spy
    asked: list[JournalEntry]
    images_before: set[str]


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory, engine: DockerClient) -> Captured:
    """One capture on two surfaces while a spy looks for the key; the stand-in is gone afterwards."""
    base = tmp_path_factory.mktemp("cassettes")
    base.chmod(0o755)
    root = make_root(base / "root")
    key = canary()
    before = {image["Id"] for image in engine.api.images()}
    with stand_in(engine, base / "socket", key, scripted(ADAPTER, ttft_ms=TTFT_MS)) as there:
        model = {
            "kind": "upstream",
            "id": "stand-in",
            "title": "A stand-in",
            "dialect": "anthropic",
            "base_url": f"unix:{there.path}",
            "key": {"env": "ACPBENCH_TEST_KEY"},
            "allow": [f"unix:{there.path}"],
            "budget": {"requests": 100, "tokens": 10_000_000, "money": 100},
            "prices": {"claude-*": {"input": 1, "output": 2}},
        }
        (root / "configs/models/stand-in.yaml").write_text(json.dumps(model))
        spy = Spy(engine, {"key": key, "control": DUMMY_KEY})
        spy.start()
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("ACPBENCH_TEST_KEY", key)
                ran = run(root, "capture", "capture/stand-in")
        finally:
            spy.stop()
        asked = ledger(there.gateway, key).entries
    return Captured(root, ran, key, spy, asked, before)


@pytest.fixture(scope="module")
def replayed(captured: Captured) -> Ran:
    """Ten replays on the first surface, two at a time, with the upstream stopped and no key."""
    return run(captured.root, "replay", "replay/stand-in", surfaces=SURFACES[:1], repeat=10, jobs=2)


def test_the_upstream_was_asked_with_the_key_and_the_run_passed(captured: Captured) -> None:
    assert [record.outcome for record in captured.ran.records] == ["passed"] * 2
    assert captured.ran.result.exit_code == 0
    # Whoever does not show the key is no run of the stand-in.
    assert [entry.kind for entry in captured.asked].count("main") == 22
    for record in captured.ran.records:
        main = [entry for entry in captured.ran.entries(record) if entry.kind == "main"]
        assert len(main) == record.exact["model_requests"] == 11
        waits = [(entry.t_first_byte_ns - entry.t_request_end_ns) / 1e6 for entry in main]
        assert min(waits) >= TTFT_MS
        assert record.exact["tokens_served"] == record.exact["tokens_reported"] > 0
        assert all(entry.request.headers["x-api-key"] == "***" for entry in main)


def test_ten_replays_match_and_have_the_exact_metrics_of_the_capture(captured: Captured, replayed: Ran) -> None:
    (recorded,) = [record for record in captured.ran.records if record.surface == SURFACES[0]]
    assert [(record.outcome, record.reason) for record in replayed.records] == [("passed", "")] * 10
    for record in replayed.records:
        assert exact(record) == exact(recorded)
        assert [finding.id for finding in record.findings if finding.id == "replay-drift"] == []
        used = [entry.tape.entry for entry in replayed.entries(record) if entry.tape is not None]
        assert sorted(number for number in used if number is not None) == list(range(11))
    (arm,) = replayed.result.report.arms
    assert [warning.id for warning in arm.warnings if warning.id == "nondeterministic"] == []
    # As fast as it goes: the recorded waiting for the first byte is gone.
    assert max(record.sampled["model_ms"] or 0 for record in replayed.records) < 11 * TTFT_MS
    lock = replayed.result.report.lock["models"]["replay/stand-in"]
    assert lock["timing"] == "fast"
    assert len(lock["tapes"]) == 2


def test_the_command_line_replays_too_and_at_the_recorded_pace(captured: Captured) -> None:
    ran = run(
        captured.root, "paced", "replay/stand-in", surfaces=("cli",), knobs={"replay_timing": "recorded"}
    )  # fmt: skip
    (record,) = ran.records
    (recorded,) = [one for one in captured.ran.records if one.surface == "cli"]
    assert (record.outcome, exact(record)) == ("passed", exact(recorded))
    assert (record.sampled["model_ms"] or 0) >= 11 * TTFT_MS
    assert ran.result.report.lock["models"]["replay/stand-in"]["timing"] == "recorded"


def test_one_changed_byte_of_a_tool_result_fails_there_and_shows_it(captured: Captured, tmp_path: Path) -> None:
    root = make_root(tmp_path / "root")
    folder = root / "configs/cassettes/stand-in"
    shutil.copytree(captured.root / "configs/cassettes/stand-in", folder)
    (path,) = folder.glob("*--acp--*.jsonl")
    tape = read_tape(path)
    # From the third tool call on, every request holds the failing tests; the third entry is the first to.
    for line in tape:
        text = json.dumps(line["request"], ensure_ascii=False)
        line["request"] = json.loads(text.replace(" pass 1", " pass 7"))
    path.write_bytes(b"".join(dump(tape)))
    ran = run(root, "mutated", "replay/stand-in", surfaces=("acp",))
    (record,) = ran.records
    assert record.outcome == "model-script"
    assert ran.result.exit_code == 1
    (miss,) = {entry.nearest: entry for entry in ran.entries(record) if entry.kind == "miss"}.values()
    assert miss.nearest is not None
    assert " pass 7" in miss.nearest
    assert " pass 1" in miss.nearest
    assert miss.nearest.startswith("entry 3 differs at body.messages[7].content[0].content, character ")
    assert "nearest: entry 3 differs at body.messages[7]" in record.reason
    served = [entry.tape.entry for entry in ran.entries(record) if entry.kind == "main" and entry.tape is not None]
    assert served == [0, 1, 2]


def test_the_key_is_nowhere(captured: Captured, engine: DockerClient) -> None:
    spy = captured.spy
    # It did look, in every kind of place, and would have found: an agent's environment holds a key that opens nothing.
    for role in ("process", "inspect", "logs", "agent", "volume"):
        assert spy.searched.get(role, 0) > 0, role
    assert any("/environ" in place for place in spy.found["control"])
    # One file holds it, from before the gateway starts until it listens; no agent is there then, or ever mounts it.
    (private,) = {f"volume:/v/acpbench-{name}-private/policy.json" for name in spy.sweeps}
    assert spy.found["key"] <= {private}
    assert all("-private" not in mounted for mounted in spy.mounted["agent"])
    assert any("-private" in mounted for mounted in spy.mounted["gateway"])
    assert files_with(captured.root, captured.key) == []
    assert files_with(captured.root, DUMMY_KEY) != []
    # No image was made or changed while the key was there, and none in use mentions it.
    for pin in captured.ran.result.report.lock["images"].values():
        assert pin["id"] in captured.images_before
        told = json.dumps([engine.images.get(pin["id"]).attrs, engine.images.get(pin["id"]).history()])
        assert captured.key not in told


def test_only_a_gateway_could_have_a_network(captured: Captured) -> None:
    assert captured.spy.networks["agent"] == {"none"}
    # The upstream is a socket of the host: nothing of this sweep had any network.
    assert captured.spy.networks["gateway"] == {"none"}


def test_a_cassette_is_portable_and_says_nothing_of_anyone(captured: Captured) -> None:
    folder = captured.root / "configs/cassettes/stand-in"
    assert sorted(path.suffix for path in folder.iterdir()) == [".jsonl", ".jsonl", ".yaml"]
    text = b"".join(path.read_bytes() for path in folder.iterdir()).decode()
    tokens = {entry.run for record in captured.ran.records for entry in captured.ran.entries(record)}
    assert tokens == {"<run>"}
    for word in (str(captured.root), "device_id", "session_id", "user-agent", "x-api-key", "anthropic-beta", "/r/"):
        assert word not in text, word
    for path in folder.glob("*.jsonl"):
        tape = read_tape(path)
        assert [line["entry"] for line in tape] == list(range(11))
        assert all(set(line["response"]["headers"]) <= {"content-type"} for line in tape)
        assert all(set(line["hashed"]) >= {"system", "tools", "features", "reminders"} for line in tape)
        assert b"".join(dump(tape)) == path.read_bytes()
        # What a reviewer reads: each message once.
        assert path.read_text().count("Two of three tests fail") == 2  # said by the model, and once in the history
