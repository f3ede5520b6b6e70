"""Frames against the SDK's schemas: the adapter's own decides, a newer one only informs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner.evidence.validate import NEWEST_INVALID, schema_findings, tail_findings
from runner.records.findings import KEPT
from runner.wire.frames import UNTERMINATED, Frame


def schema(path: Path, required: list[str]) -> Path:
    """The smallest file that is an ACP schema: one notification of the agent's."""
    definition = {
        "type": "object",
        "required": required,
        "properties": {"update": {"type": "object"}},
        "x-side": "client",
        "x-method": "session/update",
    }
    path.write_text(json.dumps({"$defs": {"SessionNotification": definition}}), encoding="utf-8")
    return path


@pytest.fixture
def update() -> Frame:
    raw = b'{"jsonrpc":"2.0","method":"session/update","params":{"update":{}}}'
    return Frame(3, 0, "a2c", "stdout", raw)


def test_the_adapters_own_schema_comes_last_and_decides(tmp_path: Path, update: Frame) -> None:
    loose, tight = schema(tmp_path / "loose.json", []), schema(tmp_path / "tight.json", ["sessionId"])
    (found,) = schema_findings([update], {"2.0": loose, "1.0": tight})
    assert (found.id, found.seq) == ("schema-invalid", 3)
    assert "SDK 1.0" in found.message


def test_a_newer_schema_alone_only_informs(tmp_path: Path, update: Frame) -> None:
    loose, tight = schema(tmp_path / "loose.json", []), schema(tmp_path / "tight.json", ["sessionId"])
    (found,) = schema_findings([update], {"2.0": tight, "1.0": loose})
    assert found.id == NEWEST_INVALID


def test_what_both_refuse_is_said_once(tmp_path: Path, update: Frame) -> None:
    tight = schema(tmp_path / "tight.json", ["sessionId"])
    assert [found.id for found in schema_findings([update], {"2.0": tight, "1.0": tight})] == ["schema-invalid"]


def test_any_number_of_invalid_frames_is_counted_and_a_few_are_named(tmp_path: Path, update: Frame) -> None:
    loose, tight = schema(tmp_path / "loose.json", []), schema(tmp_path / "tight.json", ["sessionId"])
    found = schema_findings((update for _ in range(5000)), {"2.0": tight, "1.0": loose})
    assert found.counts == {NEWEST_INVALID: 5000}
    assert len(found) == KEPT


def test_a_stream_that_ends_inside_a_line(update: Frame) -> None:
    tail = Frame(9, 0, "a2c", "stdout", b'{"json', (UNTERMINATED,))
    assert [(found.id, found.seq) for found in tail_findings([update, tail])] == [("unterminated", 9)]
