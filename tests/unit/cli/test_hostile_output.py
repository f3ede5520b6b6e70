"""Every verb over a sweep whose agent wrote, wherever it may, what a terminal, an eye or a CI service would obey."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runner.cli import main as cli
from runner.report.render import REPORT_FORMS
from tests.unit.cli import damage
from tests.unit.report.test_hostile_text import shown

EVIL = [
    "\x1b]52;c;ZXZpbA==\x07\x1b[2J", "::error::obey\n::add-mask::me\r::set-output name=a::b",
    "\u202egpj\u2066\u200b\u2028",
    "##[error]x ##vso[task.complete]y ##teamcity[z]", "=cmd|' /C calc'!A1",
    "| a | b |\n|---|---|\n<img src=x> [l](http://e)",
    "section_start:1:x\r\x1b[0K", "[red]:x:[/red]", "\x9b31m\x00\x7f", "y" * 200_000,
]  # fmt: skip


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    folder = damage.sweep(tmp_path / "hostile")
    for number, path in enumerate(sorted(folder.glob("runs/*/1"))):
        evil = EVIL[number % len(EVIL)]
        _record(path / "record.json", number, evil)
        _frames(path / "frames.jsonl", evil)
        _journal(path / "model.jsonl", evil)
    answers = folder / "adapters-check.json"
    value = json.loads(answers.read_text())
    for package in value["packages"]:
        package |= {"deprecated": EVIL[1], "renamed": EVIL[2], "newest": EVIL[0]}
    answers.write_text(json.dumps(value))
    return folder


def _record(path: Path, number: int, evil: str) -> None:
    value: dict[str, Any] = json.loads(path.read_text())
    value |= {"reason": evil, "pristine": False, "found_at_start": [{"kind": "untracked", "path": evil}]}
    value["exact"] |= {"stop_reason": evil, f"updates.{evil[:500]}": number, f"names_tried.{evil[:500]}": True}
    value["exact"] |= {f"findings.{evil[:500]}": 1}
    if number % 2:
        value["outcome"] = "agent-error"
    path.write_text(json.dumps(value))


def _frames(path: Path, evil: str) -> None:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    last = max((line["seq"] or 0 for line in lines), default=0)
    said: list[Any] = [
        {"jsonrpc": "2.0", "id": evil, "method": evil, "params": {"path": evil}},
        {"jsonrpc": "2.0", "method": "session/update", "params": {"update": {"sessionUpdate": evil, "title": evil}}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": evil, "message": evil}},
        {"type": evil, "subtype": evil},
    ]
    texts = [*(json.dumps(one, ensure_ascii=False) for one in said), evil]
    for seq, text in enumerate(texts, start=last + 1):
        head = {"seq": seq, "t_ns": 10**12, "direction": "a2c", "channel": "stdout", "length": len(text.encode())}
        lines.append({**head, "text": text, "flags": [evil]})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def _journal(path: Path, evil: str) -> None:
    if not path.exists():
        return
    entries = [json.loads(line) for line in path.read_text().splitlines() if line]
    for entry in entries:
        entry |= {"model": evil, "path": evil, "method": evil, "reason": evil, "nearest": evil, "rule": evil}
        for call in entry["calls"]:
            call["tool"] = evil
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))


def test_no_verb_prints_what_is_obeyed(
    hostile: Path, tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = sorted(hostile.glob("runs/*/1"))
    verbs = [args for args in damage.verbs(hostile, hostile, tmp_path) if args[0] != "frames"]
    verbs += [["report", str(hostile), "--format", form] for form in REPORT_FORMS]
    verbs += [
        [name, str(hostile), "--format", form] for name in ("findings", "permissions") for form in ("markdown", "json")
    ]
    verbs += [["permissions", str(hostile), "--arm", "*--boundary--allow*"]]
    for run in runs:
        last = json.loads((run / "frames.jsonl").read_text().splitlines()[-1])["seq"]
        verbs += [["frames", str(run)], ["frames", str(run), "--with-model"], ["frames", str(run), "--record", ""]]
        verbs += [["frames", str(run), "--seq", str(last - back)] for back in range(5)]
        verbs += [["frames", str(run), "--model", "0"]]
    verbs += [["frames", str(hostile), "--record", "packages"], ["report", f"{hostile}\x1b[2J\u202e"]]
    verbs += [
        ["history", "stop_reason", "--history", str(tmp_path / "history")],
        ["compare", str(hostile), "--base", EVIL[0]],
    ]
    ended: dict[int, int] = {}
    for args in verbs:
        code = cli.run(["--root", str(root), *args])
        said = capsys.readouterr()
        assert code in ((64,) if args[1].endswith("\u202e") or args[-1] == EVIL[0] else (0, 1, 2, 64)), (args, said.err)
        ended[code] = ended.get(code, 0) + 1
        kept = "\n\r\t" if args[-1] == "csv" else "\n"
        shown(said.out, kept)
        shown(said.err)
        # Whole frames and members are asked for as they are; a summary is a page.
        if args[0] != "frames" and args[-1] not in ("json", "csv"):
            assert len(said.out) < 300_000, args
        assert len(said.err) < 10_000
    assert ended[0] > 80, ended
