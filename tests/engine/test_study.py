"""What the study asks beyond the main job, put to the real adapter: boundary, reset, probes, MCP, sub-agents, forms."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import docker
import pytest

from runner.config.catalog import Catalog
from runner.config.loaded_sweep import load_sweep
from runner.config.plan import plan
from runner.records.schema import Record
from runner.records.store import SweepDir
from runner.sweep.progress import PlainProgress
from runner.sweep.sweep import Options, run_sweep
from runner.wire.log import read_frames
from tests.engine.lab import REPOSITORY

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(300)]

SWEEP = """\
id: parts
adapters: [claude-agent-acp@0.64.0]
repeat: 1
warmup: 0
ask_registries: true
arms:
  - {surfaces: [acp], fixtures: [boundary], policies: [reject_once], models: [scripted/boundary]}
  - {surfaces: [acp-additional], fixtures: [boundary], models: [scripted/boundary]}
  - {surfaces: [acp-probes], fixtures: [boundary], models: [scripted/probes]}
  - {surfaces: [acp-mcp], fixtures: [boundary], models: [scripted/mcp]}
  - {surfaces: [acp], fixtures: [semver], models: [scripted/subagent]}
  - surfaces: [acp-elicit]
    fixtures: [boundary]
    policies: [{id: forms, elicitation: accept}]
    models: [scripted/elicit]
  - {surfaces: [acp-unsaved], fixtures: [semver], models: [scripted/two-edits]}
  - surfaces: [acp]
    fixtures: [semver]
    policies: [allow_always]
    models: [scripted/fix-semver]
    resets: [git-clean-fd]
    repeat: 2
  - surfaces: [acp]
    fixtures: [semver]
    policies: [never]
    models: [scripted/two-edits]
    expect: "timeout:turn"
    knobs: {deadlines: {turn: 3.0}}
"""


class Ran:
    """One run: its record and what its files say."""

    def __init__(self, folder: Path, record: Record) -> None:
        self.record = record
        self.folder = folder / "runs" / record.cell / str(record.attempt)
        self.program = json.loads((self.folder / "program.json").read_text())
        self.journal = [json.loads(line) for line in (self.folder / "model.jsonl").read_text().splitlines()]
        self.texts = [frame.raw.decode() for frame in read_frames(self.folder / "frames.jsonl")]

    def label(self, call: str) -> str:
        found = re.search(r"(?:a(\d+))?p\d+s(\d+)x\d+$", call)
        assert found is not None
        steps = self.program["steps"] if found[1] is None else self.program["subagents"][int(found[1])]["steps"]
        return str(steps[int(found[2])]["label"])

    def asked(self) -> list[str]:
        messages = [json.loads(text) for text in self.texts if '"session/request_permission"' in text]
        return [self.label(message["params"]["toolCall"]["toolCallId"]) for message in messages]

    def reached(self) -> set[str]:
        bodies = "".join(entry["request"]["body"] for entry in self.journal)
        return {name for name, canary in self.record.canaries.items() if canary in bodies}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, engine: docker.DockerClient) -> list[Ran]:
    folder = tmp_path_factory.mktemp("study")
    config = folder / "parts.yaml"
    config.write_text(SWEEP, encoding="utf-8")
    loaded = load_sweep(config, Catalog(REPOSITORY))
    result = run_sweep(loaded, plan(loaded), Options(out=folder / "out", jobs=1), PlainProgress())
    runs = [Ran(result.directory, record) for record in SweepDir.read(result.directory).records()]
    assert [(one.record.cell, one.record.reason) for one in runs if one.record.outcome != one.record.expect] == []
    return runs


def pick(ran: list[Ran], **wanted: Any) -> list[Ran]:
    found = [one for one in ran if all(getattr(one.record, name) == value for name, value in wanted.items())]
    return sorted(found, key=lambda one: one.record.replicate)


def test_what_the_registries_say_is_kept_beside_the_runs(ran: list[Ran]) -> None:
    """Of every pin of ours, other adapters' too: their old names are the dead ones."""
    said = json.loads((ran[0].folder.parents[2] / "adapters-check.json").read_text())
    assert said["problem"] is None
    own = [one for one in said["packages"] if ran[0].record.adapter in one["by"]]
    assert own
    assert {one["name"] for one in said["packages"] if one["accepted"]} > set()
    assert {one["problem"] is None or one["newest"] is None for one in said["packages"]} == {True}


def test_the_boundary_is_where_the_study_says(ran: list[Ran]) -> None:
    (one,) = pick(ran, surface="acp", model="scripted/boundary")
    asked = set(one.asked())
    assert asked == {step["label"] for step in one.program["steps"] if step["label"]} - {
        f"read:{how}:{where}" for how in ("tool", "shell") for where in ("cwd-env", "cwd-source")
    }
    # The veto holds: what was refused neither reached the model nor the disk.
    assert one.reached() == {"cwd-env", "cwd-source"}
    outside = {item["path"]: item["sha256"] for item in json.loads((one.folder / "fsdiff.json").read_text())["outside"]}
    assert {item.path: item.sha256 for item in one.record.planted}.items() <= outside.items()
    assert not [path for path in outside if path.endswith("note.txt")]
    assert one.record.verdict is not None
    assert one.record.verdict.changes == []


def test_an_additional_directory_belongs_to_the_session(ran: list[Ran]) -> None:
    (one,) = pick(ran, surface="acp-additional")
    assert {"read:tool:additional", "read:shell:additional"}.isdisjoint(one.asked())
    assert {"read:tool:sibling", "read:shell:sibling"} <= set(one.asked())
    assert one.reached() >= {"additional", "sibling", "home", "link"}


def test_a_standing_grant_contaminates_the_next_run(ran: list[Ran]) -> None:
    first, second = pick(ran, reset="git-clean-fd")
    assert first.record.container == second.record.container
    assert (first.record.pristine, second.record.pristine) == (True, False)
    assert ".claude/settings.local.json" in {
        found.path for found in second.record.found_at_start if found.kind == "ignored"
    }
    commands = [one.record.exact["permission_requests_by_kind.execute"] for one in (first,)]
    assert commands == [1]
    assert second.record.exact.get("permission_requests_by_kind.execute", 0) == 0


def test_probes_after_the_turn(ran: list[Ran]) -> None:
    (one,) = pick(ran, surface="acp-probes")
    probes = {probe.name: probe for probe in one.record.probes}
    assert list(probes) == ["set-config-option", "prompt", "list", "load", "resume", "fork", "close"]
    assert all(probe.advertised and probe.ok for probe in probes.values()), one.record.probes
    # The option's effect is seen: the second prompt's edit does not ask.
    assert one.asked() == ["probe:write", "probe:run", "probe:run"]
    assert len(one.record.turns) == 2
    assert probes["load"].updates_before > 0
    assert probes["load"].updates_after == probes["resume"].updates_before + probes["resume"].updates_after == 0
    assert {"load-without-replay", "load-late-replay", "resume-replayed"}.isdisjoint(
        finding.id for finding in one.record.findings
    )


def test_an_mcp_server_is_started_by_the_agent_in_the_sandbox(ran: list[Ran]) -> None:
    (one,) = pick(ran, surface="acp-mcp")
    assert one.asked() == ["mcp:whereabouts", "mcp:touch"]
    assert one.reached() == {"mcp"}
    assert one.record.verdict is not None
    assert [change.path for change in one.record.verdict.changes] == ["mcp-note.txt"]


def test_a_sub_agent_asks_under_ids_of_its_own(ran: list[Ran]) -> None:
    (one,) = pick(ran, model="scripted/subagent")
    assert one.asked() == ["sub:test", "sub:edit-release", "sub:edit-numeric"]
    served = [(entry["subagent"], entry["step"]) for entry in one.journal if entry["kind"] == "main"]
    assert served == [(None, 0), *(("subagent-0", step) for step in range(5)), (None, 1), (None, 2)]


def test_a_question_becomes_a_form(ran: list[Ran]) -> None:
    (one,) = pick(ran, surface="acp-elicit")
    assert sum('"elicitation/create"' in text for text in one.texts) == 1
    assert any('"question_0":"Source"' in text.replace(" ", "") for text in one.texts)


def test_unsaved_text_never_reaches_an_agent_that_reads_the_disk(ran: list[Ran]) -> None:
    (one,) = pick(ran, surface="acp-unsaved")
    assert one.reached() == set()
    (document,) = one.record.buffers
    assert document.unsaved_at_end
    assert one.record.canaries["unsaved"] in document.text
    assert one.record.ledger == []
    assert one.record.verdict is not None
    (change,) = one.record.verdict.changes
    assert change.before == document.disk_blob != change.after


def test_a_question_that_is_never_answered_holds_the_turn(ran: list[Ran]) -> None:
    (one,) = pick(ran, policy="never")
    assert one.asked() == ["edit:release"]
    assert [turn.stop_reason for turn in one.record.turns] == ["cancelled"]
