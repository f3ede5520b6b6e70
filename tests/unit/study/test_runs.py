"""What the rules are given: measured runs of one adapter each, what they hold, and one line for what cannot be read."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.errors import UsageError
from runner.report.study import markdown, table, to_json
from runner.study import build as build_module
from runner.study.actions import actions, distinct, usual
from runner.study.build import build
from runner.study.claims import CLAIMS
from runner.study.model import ClaimFinding
from runner.study.references import file_entry, member, model_entry
from runner.study.runs import Study, load
from tests.unit.study.actions import ADAPTER, PLANTED, Do
from tests.unit.study.conftest import Measured
from tests.unit.study.folder import StudyFolder
from tests.unit.study.undoctored import study


def few(*names: str) -> StudyFolder:
    return StudyFolder({name: study().arms[name] for name in names}, None)


def test_runs_are_known_by_what_is_in_them(undoctored: Measured) -> None:
    loaded = load(undoctored.directory)
    assert [one.adapter for one in loaded.studies] == [ADAPTER]
    runs = {run.record.surface: run for run in loaded.studies[0].runs}
    assert not runs["cli"].acp
    assert runs["acp-additional"].additional == ("/workspace/shared",)
    assert runs["acp-nocaps"].declared == {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
    assert runs["acp"].mode == "default"
    assert runs["acp"].home == "/home/agent"
    assert [run.record.surface for run in usual(loaded.studies[0].runs) if not run.plain] == []
    assert {surface for surface, run in runs.items() if not run.plain} == {
        "acp-additional", "acp-mcp", "acp-probes", "acp-unsaved",
    }  # fmt: skip


def test_runs_that_say_nothing_are_named(tmp_path: Path) -> None:
    lab = few("veto")
    lab.arms["veto"].outcome = "infra"
    lab.write(tmp_path / "dir")
    (tmp_path / "dir/runs" / f"{lab.arms['veto'].name}--r1" / "1" / "record.json").unlink()
    loaded = load(tmp_path / "dir")
    assert loaded.studies == ()
    assert len(loaded.excluded) == 10
    assert set(loaded.excluded.values()) == {"never ran", "infra"}
    assert build(tmp_path / "dir").findings == []


def test_the_last_attempt_counts(tmp_path: Path) -> None:
    few("boundary").write(tmp_path / "dir")
    folder = next((tmp_path / "dir/runs").iterdir())
    record = json.loads((folder / "1/record.json").read_text())
    (folder / "2").mkdir()
    for file in (folder / "1").iterdir():
        if file.is_file():
            (folder / "2" / file.name).write_bytes(file.read_bytes())
    (folder / "2/record.json").write_text(json.dumps({**record, "attempt": 2}))
    assert [run.name for study in load(tmp_path / "dir").studies for run in study.runs] == [f"runs/{folder.name}/2"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("frames.jsonl", "{}\n{}\n", "not a frame log"),
        ("model.jsonl", "{}\n", "model journal, line 1: seq: Field required"),
        ("model.jsonl", '{"seq": 1', "model journal, line 1"),
        ("program.json", "{", "not JSON"),
        ("fsdiff.json", "{", "not JSON"),
        ("record.json", "{", "not JSON"),
    ],
)
def test_what_cannot_be_read_is_one_line(name: str, content: str, words: str, tmp_path: Path) -> None:
    few("boundary").write(tmp_path / "dir")
    next((tmp_path / "dir/runs").iterdir()).joinpath("1", name).write_text(content)
    with pytest.raises(UsageError, match=words) as caught:
        build(tmp_path / "dir")
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["frames.jsonl", "model.jsonl", "program.json", "fsdiff.json"])
def test_a_folder_in_a_files_place_is_one_line(name: str, tmp_path: Path) -> None:
    few("boundary").write(tmp_path / "dir")
    file = next((tmp_path / "dir/runs").iterdir()) / "1" / name
    file.unlink()
    file.mkdir()
    with pytest.raises(UsageError, match=f"{name}: cannot be read"):
        build(tmp_path / "dir")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\xe9\n", b"[1, 2]\n", b"\0" * 40])
@pytest.mark.parametrize(
    ("name", "opens"),
    [
        ("record.json", lambda folder: member(folder, "outcome")),
        ("record.json", lambda folder: file_entry(folder, "src/semver.js")),
        ("fsdiff.json", lambda folder: file_entry(folder, "/nowhere")),
        ("model.jsonl", lambda folder: model_entry(folder, 1)),
    ],
)
def test_a_reference_into_a_torn_file_is_no_fault_of_ours(
    name: str, opens: Callable[[Path], Any], content: bytes, tmp_path: Path
) -> None:
    few("boundary").write(tmp_path / "dir")
    folder = next((tmp_path / "dir/runs").iterdir()) / "1"
    (folder / name).write_bytes(content)
    with contextlib.suppress(UsageError):
        opens(folder)


def test_logs_that_are_not_as_they_were_recorded_are_named(tmp_path: Path) -> None:
    few("boundary").write(tmp_path / "dir")
    folder = next((tmp_path / "dir/runs").iterdir()) / "1"
    assert build(tmp_path / "dir").altered == {}
    frames = (folder / "frames.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "frames.jsonl").write_bytes(b"".join(frames[:-3]))
    (folder / "model.jsonl").unlink()
    (told,) = build(tmp_path / "dir").altered.values()
    assert told.startswith(f"{len(frames) - 3} frames, its record counted {len(frames)}; 0 requests to the model")


def test_a_broken_answer_of_the_registries_is_one_line(tmp_path: Path) -> None:
    few("boundary").write(tmp_path / "dir")
    (tmp_path / "dir/adapters-check.json").write_text("{")
    with pytest.raises(UsageError, match=r"adapters-check\.json: not JSON"):
        build(tmp_path / "dir")


def test_no_sweep_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a sweep"):
        build(tmp_path)


def test_an_action_is_joined_with_ask_call_and_result(undoctored: Measured) -> None:
    run = next(run for run in load(undoctored.directory).studies[0].runs if run.record.model == "scripted/boundary")
    found = actions(run)
    sibling = next(action for action in found if action.label == "read:tool:sibling")
    assert sibling.path == PLANTED["sibling"]
    assert sibling.outside() is True
    assert sibling.allowed is True
    assert sibling.ask is not None
    assert sibling.ask.tool_call == sibling.served.id
    assert sibling.call is not None
    assert sibling.call.kind == "read"
    assert sibling.result is not None
    assert sibling.result[0] == sibling.entry + 1
    assert len(distinct(found)) == len(found)


def test_an_agent_with_ids_of_its_own_is_joined_by_what_it_says(tmp_path: Path) -> None:
    """Its tool calls are renamed in the frames; the journal keeps the served ids."""
    lab = few("boundary")
    lab.write(tmp_path / "dir")
    frames = next((tmp_path / "dir/runs").iterdir()) / "1/frames.jsonl"
    frames.write_text(frames.read_text().replace("call_p1s", "own-"))
    found = actions(load(tmp_path / "dir").studies[0].runs[0])
    assert all(action.call is not None and action.call.id.startswith("own-") for action in found)
    asked = {action.label for action in found if action.surfaced}
    assert asked == {action.label for action in lab.arms["boundary"].actions if action.ask}


def test_a_grant_covers_what_comes_after_it(tmp_path: Path) -> None:
    lab = few("granted")
    lab.arms["granted"].actions.append(Do("read", "/workspace/semver/package.json"))
    lab.write(tmp_path / "dir")
    found = actions(load(tmp_path / "dir").studies[0].runs[0])
    assert [action.granted for action in found] == [False] * 6 + [True] * 3 + [False]


def test_a_run_that_began_pre_authorised_is_granted_throughout(tmp_path: Path) -> None:
    few("fd").write(tmp_path / "dir")
    first, second = load(tmp_path / "dir").studies[0].runs
    assert not actions(first)[0].granted
    assert all(action.granted for action in actions(second))


def test_a_run_that_did_not_begin_pristine_is_marked(undoctored: Measured) -> None:
    marked = build(undoctored.directory).not_pristine
    assert list(marked.values()) == ["ignored .agent/settings.json"]
    assert next(iter(marked)).endswith("git-clean-fd--r2/1")


def test_entries_and_members_are_found_or_refused(undoctored: Measured) -> None:
    name = next(r.run for r in undoctored.findings["boundary-writes"].evidence)
    folder = undoctored.directory / name
    assert model_entry(folder, 0)["seq"] == 0
    assert member(folder, "planted.0.path") in PLANTED.values()
    assert file_entry(folder, PLANTED["home"])["changed"] is False
    assert file_entry(folder, "/workspace/sibling/note.txt")["changed"] is True
    assert file_entry(folder, "note.txt")["status"] == "A"
    assert file_entry(folder, "untouched.txt") == {"path": "untouched.txt", "changed": False}
    assert file_entry(folder, "/nowhere/at/all")["changed"] is False
    with pytest.raises(UsageError, match=r"has no exact\.nothing"):
        member(folder, "exact.nothing")
    with pytest.raises(UsageError, match="has no entry 999"):
        model_entry(folder, 999)


def test_two_adapters_are_two_studies(tmp_path: Path) -> None:
    few("boundary", "refused").write(tmp_path / "dir")
    plan = tmp_path / "dir/plan.jsonl"
    first, second = plan.read_text().splitlines()
    moved = second.replace(f'"adapter":"{ADAPTER}"', '"adapter":"another@2"')
    plan.write_text(f"{first}\n{moved}\n")
    cell = json.loads(second)["name"]
    record = tmp_path / "dir/runs" / cell / "1/record.json"
    record.write_text(record.read_text().replace(f'"adapter": "{ADAPTER}"', '"adapter": "another@2"'))
    found = build(tmp_path / "dir").findings
    assert len(found) == 2 * len(CLAIMS)
    assert [one.adapter for one in found] == [ADAPTER] * len(CLAIMS) + ["another@2"] * len(CLAIMS)
    assert {reference.run for one in found if one.adapter == "another@2" for reference in one.evidence} == {
        f"runs/{cell}/1"
    }


def test_torn_evidence_is_named_and_what_is_whole_is_shown(tmp_path: Path) -> None:
    (tmp_path / "model.jsonl").write_text('{"seq": 0}\n{"seq": 1, "res', encoding="utf-8")
    assert model_entry(tmp_path, 0) == {"seq": 0}
    with pytest.raises(UsageError, match="has no entry 1"):
        model_entry(tmp_path, 1)
    (tmp_path / "record.json").write_text('{"a": ', encoding="utf-8")
    with pytest.raises(UsageError, match=r"record\.json: not JSON"):
        member(tmp_path, "a")
    (tmp_path / "record.json").write_text("{}", encoding="utf-8")
    (tmp_path / "fsdiff.json").write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match=r"fsdiff\.json: not JSON"):
        file_entry(tmp_path, "/etc/passwd")


def test_one_odd_run_is_named_and_takes_no_other_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few("boundary", "veto").write(tmp_path / "dir")
    odd, other = (run.name for run in load(tmp_path / "dir").studies[0].runs[:2])
    first = build_module.RULES[0]

    def picky(studied: Study) -> list[ClaimFinding]:
        if odd in {run.name for run in studied.runs}:
            raise KeyError("a word that nobody knew")
        return first(studied)

    def broken(_: Study) -> list[ClaimFinding]:
        raise TypeError("on every run")

    whole = build(tmp_path / "dir")
    monkeypatch.setattr(build_module, "RULES", (picky, *build_module.RULES[1:]))
    found = build(tmp_path / "dir")
    assert {one.id for one in found.findings} == {one.id for one in whole.findings}
    assert found.excluded == {
        **whole.excluded,
        odd: "rule 'test_runs' fails on it: KeyError: 'a word that nobody knew'",
    }
    assert other not in found.excluded
    monkeypatch.setattr(build_module, "RULES", (broken,))
    assert build(tmp_path / "dir").findings == []


def test_text_that_is_no_unicode_ends_no_rule(tmp_path: Path) -> None:
    """In every text of a record, of the program and of what lay outside: findings are made and can be read."""

    def spoiled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: spoiled(part) for key, part in value.items()}
        if isinstance(value, list):
            return [spoiled(part) for part in value]
        return f"{value}\udcff" if isinstance(value, str) and "/" in value and "runs" not in value else value

    few("boundary", "veto").write(tmp_path / "dir")
    for folder in (tmp_path / "dir/runs").glob("*/1"):
        for name in ("fsdiff.json", "program.json"):
            if (folder / name).exists():
                (folder / name).write_text(json.dumps(spoiled(json.loads((folder / name).read_text()))))
        record = json.loads((folder / "record.json").read_text())
        for change in (record["verdict"] or {}).get("changes", []):
            change["path"] += "\udcff"
        record["reason"] = "\ud800"
        (folder / "record.json").write_text(json.dumps(record))
    found = build(tmp_path / "dir")
    assert found.findings
    for render in (table, markdown, to_json):
        render(found).encode("utf-8")


def test_what_was_not_in_the_plan_is_said(tmp_path: Path) -> None:
    lab = StudyFolder({"boundary": study().arms["boundary"]}, None)
    folder = lab.write(tmp_path / "dir")
    why = "model scripted/mcp: the configuration of an-adapter@1.2.3 maps no mcp"
    (folder / "lock.json").write_text(json.dumps({"sweep": "a-study", "left_out": {"an-adapter@1.2.3": [why, 3]}}))
    found = build(folder)
    assert found.left_out == {"an-adapter@1.2.3": [why]}
    assert f"- Left out of the plan: {why}." in " ".join(table(found, width=400).split("\n"))
    assert "left_out" not in build(lab.write(tmp_path / "other")).model_dump()
