"""Tapes: written from a ledger, read back, and held against what was played."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.errors import ConfigError, UsageError
from runner.gateway.cassette import DRIFT, drift, dump, read_tape, replay_problems, tape_of
from runner.gateway.journal import JournalEntry
from tests.unit.gateway.test_journal import entry


def captured(seq: int, **tape: Any) -> JournalEntry:
    given = {
        "version": 2,
        "request": {"method": "POST", "path": "/v1/messages", "body": {"messages": [{"role": "user", "content": "é"}]}},
        "hashed": {"tools": "b", "system": "a"},
        "headers": {"content-type": "text/event-stream"},
        "chunks": [[1.5, "event: é\u2028\n\n"], [2.0, {"base64": "/w=="}]],
        "end": "whole",
    }
    return entry(seq=seq, step=None, tape={**given, **tape})


def line(number: int, **response: Any) -> dict[str, Any]:
    return {
        "entry": number,
        "kind": "main",
        "rule": None,
        "request": {"method": "POST", "path": "/v1/messages", "body": {}},
        "hashed": {},
        "response": {"status": 200, "headers": {}, "end": "whole", "chunks": [], **response},
    }


def played(seq: int, number: int | None, **more: Any) -> JournalEntry:
    return entry(seq=seq, step=None, tape={"entry": number, **more})


def read(data: bytes, folder: Path) -> list[dict[str, Any]]:
    path = folder / "tape.jsonl"
    path.write_bytes(data)
    return read_tape(path)


def test_a_ledger_becomes_a_tape_and_comes_back(tmp_path: Path) -> None:
    probe = entry(seq=1, kind="side", rule="probe", step=None, method="HEAD")
    lines = list(tape_of([captured(0), probe, captured(2)]))
    assert [one["entry"] for one in lines] == [0, 1]
    assert list(lines[0]["hashed"]) == ["system", "tools"]
    data = b"".join(dump(lines))
    assert "é".encode() in data  # a reviewer reads it
    assert read(data, tmp_path) == lines


def test_what_a_conversation_repeats_is_written_once(tmp_path: Path) -> None:
    said = [{"role": "user", "content": f"message {n}"} for n in range(4)]
    bodies: list[Any] = [
        {"messages": said[:1]},
        {"messages": said[:3], "tools": ["a", "b"]},
        {"messages": said},
        "text",
    ]
    lines = [line(n) for n in range(4)]
    for one, body in zip(lines, bodies, strict=True):
        one["request"]["body"] = body
    data = b"".join(dump(lines))
    assert all(data.count(one["content"].encode()) == 1 for one in said)
    assert json.loads(data.splitlines()[2])["request"]["body"] == {"messages": [{"as_entry": 1, "items": 3}, said[3]]}
    assert read(data, tmp_path) == lines


_ITEMS = st.lists(st.fixed_dictionaries({"role": st.sampled_from("ab"), "content": st.text(max_size=3)}), max_size=4)


@given(st.lists(st.dictionaries(st.sampled_from(["messages", "input", "x"]), _ITEMS, max_size=3), max_size=5))
def test_any_tape_comes_back(tmp_path_factory: pytest.TempPathFactory, bodies: list[Any]) -> None:
    lines = [line(n) for n in range(len(bodies))]
    for one, body in zip(lines, bodies, strict=True):
        one["request"]["body"] = body
    assert read(b"".join(dump(lines)), tmp_path_factory.mktemp("tape")) == lines


@pytest.mark.parametrize(
    ("old", "new", "number"),
    [
        ('"entry": 1', '"entry": 2', 2),
        ('"hashed"', '"hash"', 1),
        ('"as_entry": 0', '"as_entry": 7', 2),
        ('"items": 1', '"items": 5', 2),
        ('{"entry": 1', '{"entry": 1,', 2),
        ('{"entry": 0', '["entry", 0', 1),
        ('"status": 200', '"status": "200"', 1),
        ('"end": "whole"', '"end": "half"', 1),
        ('"chunks": [[1.5', '"chunks": [["1.5"', 1),
        ('"base64": "/w=="', '"base32": "/w=="', 1),
        ('"path": "/v1/messages", ', "", 1),
        ('"kind": "main"', '"kind": "miss"', 1),
    ],
)
def test_a_line_that_is_none_is_named(tmp_path: Path, old: str, new: str, number: int) -> None:
    text = b"".join(dump(tape_of([captured(0), captured(1)]))).decode()
    assert old in text
    with pytest.raises(ConfigError, match=rf"tape.jsonl:{number}: not an entry of a tape"):
        read(text.replace(old, new, 1).encode(), tmp_path)


def test_a_token_that_cannot_be_masked_makes_no_tape() -> None:
    with pytest.raises(UsageError, match="request 3: the answer says the run's token in pieces"):
        list(tape_of([captured(3, leak=True)]))


def test_a_request_larger_than_what_is_kept_makes_no_tape() -> None:
    with pytest.raises(UsageError, match="request 3: it or its answer is larger than what is kept"):
        list(tape_of([entry(seq=3, step=None, tape={"version": 2, "large": True})]))


def test_of_many_large_requests_only_the_latest_are_referred_to(tmp_path: Path) -> None:
    lines = [line(n) for n in range(40)]
    said = [{"role": "user", "content": "x" * 1_000_000}]
    for one in lines:
        one["request"]["body"] = {"messages": [*said, {"role": "user", "content": str(one["entry"])}]}
    lines[1]["request"]["body"] = {"messages": [{"role": "user", "content": "other"}] * 30}
    data = b"".join(dump(lines))
    assert data.count(b'"as_entry"') == 38
    assert read(data, tmp_path) == lines


def test_a_tape_played_to_its_end_has_no_problem() -> None:
    tape = [line(0), line(1), line(2, end="client")]
    assert replay_problems([played(0, 0), played(1, 1)], tape) == []
    assert replay_problems([played(0, 0), played(1, 1), played(2, 2)], tape) == []


def test_a_miss_and_what_is_left_are_told() -> None:
    tape = [line(n) for n in range(8)]
    tape[1] = {**tape[1], "kind": "side", "rule": "title"}
    nearest = 'entry 1 differs at body.x, character 0: recorded "a", asked "b"'
    miss = entry(seq=1, kind="miss", step=None, status=400, reason="no request like this one", nearest=nearest)
    assert replay_problems([played(0, 0), miss], tape) == [
        f"request 1 (POST /v1/messages): no request like this one; nearest: {nearest}",
        "7 of 8 recorded requests were not asked for: 1 (side title), 2 (main), 3 (main), 4 (main), 5 (main), ...",
    ]
    assert len(replay_problems([played(0, 0), miss], tape, stopped="a reject")) == 1


def test_drift_is_one_warning_a_part() -> None:
    found = drift([played(0, 0, drift=["system", "tools"]), played(1, 1, drift=["system"]), played(2, 2), entry(seq=3)])
    assert [one.id for one in found] == [DRIFT, DRIFT]
    assert found[0].message.startswith("'system' is not what was recorded, in 2 of 3 requests")
    assert found[1].message.startswith("'tools' is not what was recorded, in 1 of 3 requests")
    assert drift([played(0, 0)]) == []
