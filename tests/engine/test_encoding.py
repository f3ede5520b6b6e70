"""Text that is no Unicode, said and written wherever an agent can: the run is as good as any, and is paid once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

import runner.run.record
from runner.cli.findings import Format
from runner.cli.main import run
from runner.records.store import SweepDir
from runner.report.render import REPORT_FORMS
from runner.text.encoding import original
from tests.engine.api import Reply, answer, serving
from tests.engine.lab import Act, Lab, attempt, packed, repaired
from tests.engine.test_live_sweeps import REPAIR, Live

pytestmark = pytest.mark.engine

ODD = ["\ud800", "caf\udce9 \udc80", "\ude00\ud83d", r"\udcff", "a\udcff", "\uffff\x01", "x" * 5000 + "\udfff"]
#: Those that Linux takes as a file's name: bytes that are no UTF-8, and what only looks like such bytes.
NAMES = ["caf\udce9", "\udcff", r"\udcff", "\udc80\udc81.bin"]
#: A process that outlives the agent, by a name that is no UTF-8.
LEFT_BEHIND = """python3 -c 'import os; os.execv("/bin/sleep", [bytes([99, 233]), b"60"])' & sleep 0.5"""
MODEL: Act = {"do": "model"}


def odd_acts() -> list[Act]:
    acts: list[Act] = []
    for text in ODD:
        call = {"toolCallId": text, "title": text, "kind": text, "status": text, "rawInput": {text: text}}
        acts += [
            {"do": "say", "text": text},
            {"do": "update", "update": {"sessionUpdate": "tool_call", **call}},
            {"do": "update", "update": {"sessionUpdate": text}},
            {"do": "update", "update": {"sessionUpdate": "current_mode_update", "currentModeId": text}},
            {"do": "ask", "tool_call": {**call, "kind": "execute"}},
            {"do": "call", "method": text, "params": {text: text}},
            {"do": "call", "method": "fs/write_text_file", "params": {"path": "/workspace/semver/t", "content": text}},
            {"do": "call", "method": "fs/read_text_file", "params": {"path": f"/workspace/semver/{text[:100]}"}},
        ]
    for name in NAMES:
        acts += [
            {"do": "write", "path": name, "text": name},
            {"do": "write", "path": f"src/{name}", "text": name},
            {"do": "write", "path": f"/home/agent/{name}", "text": name},
            {"do": "raw", "to": "stderr", "text": name},
            {"do": "raw", "text": f"{name}\n"},
        ]
    return [*acts, {"do": "shell", "command": LEFT_BEHIND}]


@pytest.fixture
def live(lab: Lab, tmp_path: Path) -> Iterator[Live]:
    with serving(tmp_path / "api") as api:
        yield Live(lab, api, tmp_path / "api/api.sock")


@pytest.mark.timeout(300)
def test_a_night_with_text_that_is_no_unicode_is_whole(
    live: Live, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = live.lab
    said = json.loads(answer())
    said["content"][0]["text"] = "".join(ODD[:2])
    live.api.replies = [Reply(json.dumps(said).encode())]
    acts = [MODEL, packed(odd_acts()), REPAIR]
    matrix = {
        "adapters": [lab.puppet(name, acts) for name in ("odd", "as-odd")],
        "surfaces": ["acp"],
        "fixtures": ["semver"],
        "models": ["live/api"],
    }
    compare = {"base": "odd-*", "new": "as-odd-*"}
    lab.write("sweeps", {"id": "night", "arms": [matrix], "repeat": 1, "warmup": 0, "compare": compare})
    root, out, kept = ["--root", str(lab.root)], tmp_path / "out", tmp_path / "history"
    config = str(lab.root / "configs/sweeps/night.yaml")
    assert run([*root, "nightly", config, "--out", str(out), "--history", str(kept)]) == 0, capsys.readouterr().err
    records = list(SweepDir.read(out).records())
    assert [(record.outcome, record.attempt) for record in records] == [("passed", 1)] * 2
    assert len(live.api.asked) == 2
    for record in records:
        names = {original(name) for name in record.exact if name.startswith("files_changed.")}
        assert {f"files_changed.{name}" for name in NAMES} <= names
        assert r"files_changed.caf\udce9" in record.exact
        assert record.agent is not None
        assert record.agent.survivors == [r"c\udce9 60"]
    for verb, forms in {
        "report": REPORT_FORMS,
        "findings": tuple(Format),
    }.items():
        for form in forms:
            file = out / f"{verb}.{form}"
            assert run([*root, verb, str(out), "--format", form, "-o", str(file)]) == 0
            file.read_text("utf-8")
            if form == "json":
                assert r"files_changed.caf\\udce9" in file.read_text() or verb == "findings"
    assert run([*root, "compare", str(out), str(out)]) == 0
    assert run([*root, "history", "--add", str(out), "--history", str(tmp_path / "again")]) == 0
    assert run([*root, "history", "to_result_ms", "--history", str(kept), "--plot", str(tmp_path / "a.png")]) == 0
    for folder in (out / "runs").glob("*/1"):
        assert run([*root, "frames", str(folder), "--with-model"]) == 0
    (table,) = (pyarrow.parquet.read_table(file) for file in (tmp_path / "again").iterdir())
    assert r"files_changed.caf\udce9" in table.column("metric").to_pylist()


def test_a_run_that_only_we_cannot_keep_is_not_paid_again(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise ValueError("a fault of ours")

    monkeypatch.setattr(runner.run.record, "compute", fails)
    adapter = live.lab.puppet("paid", [MODEL, {"do": "write", "path": "src/semver.js", "text": repaired()}])
    result, records = live.lab.sweep(adapter, model="live/api", infra_attempts=3)
    assert [record.outcome for record in records] == ["infra"]
    where = r"\(runner/run/record\.py:\d+, see traceback\.txt\)"
    reason = f"internal error: no record could be made: ValueError: a fault of ours {where}"
    assert re.fullmatch(reason, records[0].reason)
    assert len(live.api.asked) == 1
    assert result.exit_code == 1
    assert (attempt(result, records[0]) / "frames.jsonl").stat().st_size > 0
    # A script costs nothing.
    _, records = live.lab.sweep(adapter, infra_attempts=2)
    assert [record.outcome for record in records] == ["infra", "infra"]


def test_a_fault_of_ours_before_anything_was_asked_is_tried_again(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise ValueError("a fault of ours")

    monkeypatch.setattr(runner.run.record, "compute", fails)
    _, records = live.lab.sweep(live.lab.puppet("mute", [REPAIR]), model="live/api", infra_attempts=2)
    assert [record.outcome for record in records] == ["infra", "infra"]
    assert live.api.asked == []
