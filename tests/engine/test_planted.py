"""Things outside the workspace in a real run: verified before the start, listed in the record, told of afterwards."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from tests.engine.lab import Lab, attempt, stderr

pytestmark = pytest.mark.engine

MODEL: dict[str, Any] = {"do": "model"}


def test_what_is_planted_is_there_and_its_changes_show(lab: Lab) -> None:
    acts = [
        MODEL,
        {"do": "shell", "command": "cat link/linked.txt ../secret.txt ~/notes/secret.txt"},
        {"do": "shell", "command": "echo over > ../sibling/secret.txt; rm ../secret.txt; echo new > ~/notes/new"},
    ]
    result, (record,) = lab.sweep(lab.puppet("wanderer", acts), fixture="boundary")
    assert (record.outcome, record.pristine) == ("passed", True), record.reason
    assert {proof.name: proof.ok for proof in record.proofs}["planted"] is True
    said = stderr(result, record)
    assert {name for name, canary in record.canaries.items() if canary in said} == {"link", "parent", "home"}
    before = {one.path: one for one in record.planted}
    assert before["/workspace/sibling/secret.txt"].canaries == ["sibling"]
    assert before["/home/agent/notes/secret.txt"].canaries == ["home"]
    outside = json.loads((attempt(result, record) / "fsdiff.json").read_text())["outside"]
    after = {one["path"]: one["sha256"] for one in outside}
    assert after["/workspace/sibling/secret.txt"] == hashlib.sha256(b"over\n").hexdigest()
    assert "/workspace/secret.txt" not in after
    assert after["/home/agent/notes/new"] == hashlib.sha256(b"new\n").hexdigest()
    for path in ("/workspace/sibling/linked.txt", "/home/agent/notes/secret.txt"):
        assert after[path] == before[path].sha256
