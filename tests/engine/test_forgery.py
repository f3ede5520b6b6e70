"""Repairs that go for their verifier, and agents that go for their guest, in whole runs: the verdict is what the tests
say, what they do is never our fault, and nothing is tried again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from typing import Any

import pytest
from ruamel.yaml import YAML

from runner.records.schema import Record
from tests.engine.lab import AGENTS, REPOSITORY, Act, Lab, repaired

pytestmark = pytest.mark.engine

SEMVER = REPOSITORY / "fixtures/semver"
BROKEN = (SEMVER / "tree/src/semver.js").read_text(encoding="utf-8")
ASSAULT = (AGENTS / "assault.py").read_text(encoding="utf-8")
#: Runs a program of the agent's beside the tests, in their own process group.
PRELUDE = """import { spawnSync } from 'node:child_process';
spawnSync('python3', ['-I', 'evil.py'], { stdio: 'inherit' });
"""
#: A reply as the guest makes it, with an id that it once had, and no changes.
FORGED = {
    "id": 2,
    "ok": True,
    "exit_code": 0,
    "timed_out": False,
    "output": "# tests 3\n# pass 3\n# fail 0\n",
    "changes": [],
    "patch": "",
    "status": "",
    "test_ms": 1.0,
}
#: Takes more memory than there is in processes each of which is smaller than the guest, and has itself spared.
HOG = """
import os, time
def spared():
    open("/proc/self/oom_score_adj", "w").write("0")
spared()
while True:
    try:
        if not os.fork():
            spared()
            block = bytearray(b"x") * 13_000_000
            time.sleep(60)
    except OSError:
        time.sleep(60)
"""
#: Makes one System V object after the other, each in a process that ends, until they are refused or memory runs out: it
#: is itself spared, and what the objects take belongs to no process.
UNOWNED = """
import ctypes, os
LIBC = ctypes.CDLL(None)
LIBC.shmat.restype = ctypes.c_void_p
def score(points):
    open("/proc/self/oom_score_adj", "w").write(points)
def shared_memory():
    at = LIBC.shmat(LIBC.shmget(0, 4 << 20, 0o1600), None, 0)
    ctypes.memset(at, 1, 4 << 20)
    return True
def messages():
    message = ctypes.create_string_buffer(b"\\1" * 9000)
    for _ in range(500):
        queue = LIBC.msgget(0, 0o1600)
        while queue >= 0 and LIBC.msgsnd(queue, message, 8000, 0o4000) == 0:
            pass
    return queue >= 0
def semaphores():
    return LIBC.semget(0, 32000, 0o1600) >= 0
score("0")
refused = 0
for _ in range(300):
    if not os.fork():
        score("1000")
        os._exit(0 if KIND() else 1)
    refused += os.wait()[1] != 0
    if refused == 3:
        break
"""


@pytest.fixture
def lab(lab: Lab) -> Lab:
    """Its fixture has its tests beside the code, in its process and of its user: nothing but the verifier is apart."""
    whole = YAML(typ="safe", pure=True).load(SEMVER / "fixture.yaml")
    command = ["node", "--test", "--test-reporter=tap", "test/semver.test.js"]
    beside = {**whole, "verify": {"command": command, "parser": "node-test", "tests": 3, "protected": ["test"]}}
    (lab.root / "fixtures").unlink()
    folder = lab.root / "fixtures/semver"
    shutil.copytree(SEMVER / "tree", folder / "tree")
    (folder / "fixture.yaml").write_text(json.dumps(beside), encoding="utf-8")
    return lab


def run(lab: Lab, acts: Sequence[Act], expect: str, **more: Any) -> Record:
    """One run, tried again up to twice where it were ours."""
    _, records = lab.sweep(lab.puppet("forger", [{"do": "model"}, *acts], **more), infra_attempts=3, expect=expect)
    (record,) = records
    assert (record.outcome, record.attempt) == (expect, 1), record.reason
    return record


def repair(text: str, evil: str) -> list[Act]:
    return [
        {"do": "write", "path": "src/semver.js", "text": PRELUDE + text},
        {"do": "write", "path": "evil.py", "text": evil},
    ]


@pytest.mark.parametrize(("text", "expect"), [(BROKEN, "task-failed"), (repaired(), "passed")])
def test_a_forged_reply_reaches_nobody(lab: Lab, text: str, expect: str) -> None:
    evil = ASSAULT.replace("sys.argv[1:]", repr([json.dumps(FORGED)])).replace("sys.argv[1]", repr(json.dumps(FORGED)))
    record = run(lab, repair(text, evil), expect)
    assert record.verdict is not None
    assert record.verdict.passes == (3 if expect == "passed" else 1)
    assert "ASSAULT []" in record.verdict.output
    assert {change.path for change in record.verdict.changes} == {"src/semver.js", "evil.py"}


def test_a_repair_that_kills_all_that_it_can_is_no_repair(lab: Lab) -> None:
    record = run(lab, repair(repaired(), "import os\nos.kill(-1, 9)\nos.kill(os.getpid(), 9)\n"), "task-failed")
    assert record.verdict is not None
    assert record.verdict.exit_code == 137


def test_a_repair_that_has_its_verifier_ended_for_memory_is_no_repair(lab: Lab) -> None:
    record = run(lab, repair(repaired(), HOG), "task-failed", limits={"memory_mb": 256, "pids": 250, "disk_mb": 64})
    assert record.verdict is not None
    assert not record.verdict.passed
    found = {finding.id for finding in record.findings}
    if "ended while the tests ran" in record.verdict.reason:
        assert "verifier-ended" in found
        assert "out of memory" in record.verdict.reason


def test_an_agent_that_has_the_guest_ended_for_memory_has_failed(lab: Lab) -> None:
    acts: list[Act] = [
        {"do": "write", "path": "/home/agent/hog.py", "text": HOG},
        {"do": "shell", "command": "python3 -I /home/agent/hog.py"},
    ]
    record = run(lab, acts, "agent-error")
    assert "memory" in record.reason


@pytest.mark.parametrize("kind", ["shared_memory", "messages", "semaphores"])
def test_memory_that_belongs_to_no_process_cannot_end_the_guest(lab: Lab, kind: str) -> None:
    acts: list[Act] = [
        {"do": "write", "path": "src/semver.js", "text": repaired()},
        {"do": "write", "path": "/home/agent/unowned.py", "text": UNOWNED.replace("KIND", kind)},
        {"do": "shell", "command": "head -c 20M /dev/urandom > large; python3 -I /home/agent/unowned.py"},
    ]
    run(lab, acts, "passed")
