"""Whatever looks like a key is struck out; what only resembles one stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.redaction.redact import Redactor

#: One of each shape; none was ever a key.
CANARIES = [
    "sk-" + "Zz9" * 12,
    "sk-ant-api03-" + "Ab_-" * 10,
    "AIza" + "q" * 35,
    "AKIA" + "Q7" * 8,
    "ASIA" + "Q7" * 8,
    "ghp_" + "a1" * 18,
    "github_pat_" + "a1" * 20,
    "dtn_" + "0f" * 20,
]


@pytest.mark.parametrize("word", CANARIES)
@pytest.mark.parametrize("frame", ["{}", '{{"key": "{}"}}', "KEY={}", "a {} b", "{}\\n", "x-api-key: {}"])
def test_every_shape_goes(word: str, frame: str) -> None:
    assert Redactor().text(frame.format(word)) == frame.format("***")


@pytest.mark.parametrize("head", ["Authorization: Bearer ", "bearer  ", "BEARER "])
def test_what_follows_bearer_goes(head: str) -> None:
    assert Redactor().text(head + "t0k." * 8 + '"') == f'{head}***"'


@pytest.mark.parametrize(
    "text",
    [
        "task-management-is-a-long-word-with-dashes", "risk-assessment-of-everything-we-know", "sk-short",
        "sk-acpbench-no-key", "AKIA", "the bearer of this letter", "AIzaTooShort", "ghp_short", "adtn_" + "0f" * 20,
        "1fba6e603933d0adfb1931b8d5d0b2f637016295",
    ],
)  # fmt: skip
def test_what_only_resembles_one_stays(text: str) -> None:
    assert Redactor().text(text) == text


def test_the_sweeps_own_keys_go_whatever_they_look_like() -> None:
    redactor = Redactor(["plain-old-key", "plain-old-key-2", "short"])
    assert redactor.text("plain-old-key-2, plain-old-key, short") == "***, ***, short"


@given(st.binary())
def test_a_second_time_changes_nothing(data: bytes) -> None:
    once = Redactor()(data)
    assert Redactor()(once) == once


def test_files_that_hold_one_are_named_and_rewritten(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "frames.jsonl").write_text("nothing\n")
    (tmp_path / "blobs/1.bin").write_bytes(b"\xff" + CANARIES[0].encode() + b"\xfe")
    (tmp_path / "outside").symlink_to("/etc/hostname")
    assert Redactor().files(tmp_path) == ["blobs/1.bin"]
    assert (tmp_path / "blobs/1.bin").read_bytes() == b"\xff***\xfe"
    assert Redactor().files(tmp_path) == []
