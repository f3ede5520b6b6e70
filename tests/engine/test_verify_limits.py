"""The verifier's limits and what was collected: the same files get the same verdict, and limits are named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from runner.analysis.aggregate import of_directory
from runner.cli.app import app
from runner.fixtures.pin import pin
from runner.records.schema import Record
from runner.records.store import SweepDir
from tests.engine.lab import PYTHON, REPOSITORY, Lab, attempt

pytestmark = pytest.mark.engine

MODEL: dict[str, Any] = {"do": "model"}
REPAIR: dict[str, Any] = {"do": "write", "path": "a.txt", "text": "fixed\n"}
#: Passes where the repair is there and 100 processes at a time and 300 MB can be had.
HUNGRY = """
import subprocess
assert open("a.txt").read() == "fixed\\n"
many = [subprocess.Popen(["sleep", "60"]) for _ in range(100)]
block = bytearray(b"x" * 300_000_000)
for one in many: one.kill()
"""


def own(lab: Lab, *, files: Mapping[str, bytes] | None = None, **verify: Any) -> Path:
    """A fixture `own` in the lab, with its pins. `verify`: more than its command, which by default wants the repair."""
    folder = lab.root / "fixtures"
    if folder.is_symlink():
        folder.unlink()
        shutil.copytree(REPOSITORY / "fixtures", folder, symlinks=True)
    for name, content in {"a.txt": b"broken\n", "test/t.txt": b"a test\n", **(files or {})}.items():
        file = folder / "own/tree" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    told = {"command": ["grep", "-q", "fixed", "a.txt"], "parser": "exit-code", "protected": ["test"], **verify}
    body = {"id": "own", "prompt": "Repair a.txt.", "verify": told}
    (folder / "own/fixture.yaml").write_text(json.dumps(body), encoding="utf-8")
    pin(folder / "own")
    return folder / "own"


def findings(record: Record) -> dict[str, str]:
    return {finding.id: finding.message for finding in record.findings}


def test_the_same_files_get_the_same_verdict_whatever_the_adapter_may_use(lab: Lab) -> None:
    own(lab, command=[PYTHON, "-c", HUNGRY])
    for name, pids in (("small", 48), ("large", 512)):
        limits = {"memory_mb": 256, "pids": pids, "disk_mb": 64, "cpus": 0.5 if name == "small" else 2.0}
        result, (record,) = lab.sweep(lab.puppet(name, [MODEL, REPAIR], limits=limits), fixture="own")
        assert record.outcome == "passed", record.reason
        assert "verifier-limit" not in findings(record)
        verify = SweepDir.read(result.directory).lock["verify"]
        assert verify["own"]["limits"] == {"memory_mb": 2048, "cpus": 2.0, "pids": 512, "disk_mb": 1024}


@pytest.mark.parametrize(
    ("name", "verify", "said"),
    [
        (
            "memory",
            {"command": [PYTHON, "-c", HUNGRY], "limits": {"memory_mb": 150}},
            "the verifier ran out of memory (verify.limits.memory_mb: 150)",
        ),
        (
            "pids",
            {"command": [PYTHON, "-c", HUNGRY], "limits": {"pids": 64}},
            "the verifier reached its limit of processes (verify.limits.pids: 64)",
        ),
        (
            "disk",
            {"command": ["sh", "-c", "head -c 40M /dev/zero > big; sleep 30"], "limits": {"disk_mb": 10}},
            "the verifier filled its disk (verify.limits.disk_mb: 10)",
        ),
        (
            "time",
            {"command": ["sleep", "60"], "timeout_s": 0.5},
            "the verifier did not end within 0.5 s (verify.timeout_s)",
        ),
    ],
)
def test_a_limit_of_the_verifier_is_named_and_nothing_is_tried_again(
    lab: Lab, name: str, verify: dict[str, Any], said: str
) -> None:
    own(lab, **verify)
    _, records = lab.sweep(lab.puppet(name, [MODEL, REPAIR]), fixture="own", expect="task-failed", infra_attempts=3)
    (record,) = records
    assert record.outcome == "task-failed", record.reason
    assert record.reason.startswith(said)
    assert said in findings(record)["verifier-limit"]
    assert record.exact["findings.verifier-limit"] == 1


INSTALL = "mkdir -p node_modules/m; for n in 1 2 3 4 5; do head -c 1M /dev/urandom > node_modules/m/$n; done"


@pytest.mark.parametrize(("ignored", "kind"), [(True, "ignored by git"), (False, "new files")])
def test_an_install_beyond_the_cap_leaves_the_verdict_alone(lab: Lab, ignored: bool, kind: str) -> None:
    own(lab, files={".gitignore": b"node_modules/\n"} if ignored else {})
    acts = [MODEL, {"do": "shell", "command": INSTALL}, REPAIR, {"do": "write", "path": "zz/new.js", "text": "new\n"}]
    result, (record,) = lab.sweep(lab.puppet("install", acts), fixture="own", knobs={"collect_cap_mb": 2})
    assert record.outcome == "passed", record.reason
    said = findings(record)["collect-cut"]
    assert "5 entries of the workspace (5.2 MB)" in said
    assert kind in said
    assert "knobs.collect_cap_mb: 2" in said
    assert record.verdict is not None
    assert [change.path for change in record.verdict.changes] == ["a.txt", "zz/new.js"]
    left = json.loads((attempt(result, record) / "fsdiff.json").read_text(encoding="utf-8"))
    assert left["cut"]


def test_a_failed_verdict_says_which_files_it_lacks(lab: Lab) -> None:
    own(lab)
    acts = [MODEL, {"do": "shell", "command": "(echo fixed; head -c 5M /dev/urandom) > a.txt"}]
    adapter = lab.puppet("huge", acts)
    _, (record,) = lab.sweep(adapter, fixture="own", knobs={"collect_cap_mb": 2}, expect="task-failed")
    assert record.outcome == "task-failed"
    assert record.reason.endswith("1 changed or new files were not collected (knobs.collect_cap_mb: 2)")
    assert "1 changed files of the fixture" in findings(record)["collect-cut"]


def test_a_fixture_larger_than_the_cap_does_not_travel(lab: Lab) -> None:
    """It was `agent-error`, though the agent wrote one line."""
    own(lab, files={f"data/{number}": bytes([number]) * 1_000_000 for number in range(5)})
    result, (record,) = lab.sweep(lab.puppet("line", [MODEL, REPAIR]), fixture="own", knobs={"collect_cap_mb": 2})
    assert record.outcome == "passed", record.reason
    assert "collect-cut" not in findings(record)
    assert record.verdict is not None
    assert [change.path for change in record.verdict.changes] == ["a.txt"]
    left = json.loads((attempt(result, record) / "fsdiff.json").read_text(encoding="utf-8"))
    assert (left["files"], left["bytes"]) == (1, 6)


def test_a_workspace_of_hard_links_is_larger_than_its_disk(lab: Lab) -> None:
    own(lab)
    acts = [MODEL, REPAIR, {"do": "shell", "command": "head -c 5M /dev/urandom > r; for n in 1 2 3; do ln r r$n; done"}]
    adapter = lab.puppet("links", acts, limits={"memory_mb": 256, "pids": 128, "disk_mb": 8})
    _, records = lab.sweep(adapter, fixture="own", infra_attempts=3)
    assert [(record.outcome, record.attempt) for record in records] == [("passed", 1)], records[0].reason
    assert records[0].findings == []


@pytest.mark.parametrize("also", ["true", "mv /workspace/own /home/agent/away"])
def test_a_guest_that_the_agent_killed_over_a_large_workspace_is_no_infra(lab: Lab, also: str) -> None:
    own(lab)
    acts = [MODEL, {"do": "shell", "command": f"head -c 5M /dev/urandom > big; {also}; kill -9 -1"}]
    _, records = lab.sweep(
        lab.puppet("killer", acts), fixture="own", knobs={"collect_cap_mb": 2}, expect="agent-error", infra_attempts=3
    )
    assert [record.outcome for record in records] == ["agent-error"], records[0].reason


def test_pipes_and_sockets_in_the_workspace_are_named(lab: Lab) -> None:
    own(lab)
    _, (record,) = lab.sweep(
        lab.puppet("pipes", [MODEL, REPAIR, {"do": "shell", "command": "mkfifo a.pipe"}]), fixture="own"
    )
    assert record.outcome == "passed", record.reason
    assert findings(record)["collect-skipped"] == "not collected from the workspace: a.pipe (pipe)"


#: Fails every other time, by chance.
COIN = "grep -q fixed a.txt && grep -q ^[0-7] /proc/sys/kernel/random/uuid"


def test_equal_workspaces_with_different_verdicts_are_the_verifier_s(lab: Lab) -> None:
    own(lab, command=["sh", "-c", COIN])
    # That all of ten are alike happens twice in 1024 times.
    result, records = lab.sweep(lab.puppet("coin", [MODEL, REPAIR]), fixture="own", repeat=10)
    assert {record.outcome for record in records} == {"passed", "task-failed"}
    assert len({record.verdict.workspace for record in records if record.verdict is not None}) == 1
    (warning,) = [one for one in of_directory(SweepDir.read(result.directory)).arms[0].warnings if "flaky" in one.id]
    assert warning.id == "verifier-flaky"
    assert "fixture own" in warning.message
    told = CliRunner().invoke(app, ["report", str(result.directory), "--format", "junit"], standalone_mode=False)
    assert 'type="verifier-flaky"' in told.output


def check(lab: Lab, folder: Path, *args: str) -> tuple[int, str]:
    words = ["--root", str(lab.root), "fixture", "check", str(folder), *args]
    done = CliRunner().invoke(app, words, standalone_mode=False)
    assert done.exception is None, done.exception
    return int(done.return_value), done.output


def test_check_finds_a_flaky_verifier(lab: Lab) -> None:
    folder = own(lab, command=["sh", "-c", COIN])
    (folder / "solution").mkdir()
    (folder / "solution/a.txt").write_text("fixed\n")
    code, said = check(lab, folder, "--times", "10")
    assert code == 1
    assert "solution: verifier-flaky: passed " in said
    assert "untouched" in said


def test_check_of_a_sound_fixture_and_of_one_whose_tests_see_nothing(lab: Lab) -> None:
    code, said = check(lab, REPOSITORY / "fixtures/semver", "--times", "1", "--format", "json")
    found = json.loads(said[said.index("{") : said.rindex("}") + 1])
    assert (code, found["ok"], [one["state"] for one in found["states"]]) == (
        0,
        True,
        ["untouched", "solution", "wrong"],
    )
    folder = own(lab, command=["true"])
    (folder / "solution").mkdir()
    (folder / "solution/a.txt").write_text("fixed\n")
    code, said = check(lab, folder, "--times", "1")
    assert code == 1
    assert "untouched: ends passed, must end task-failed" in said
