"""Finding ids are a contract: each described, kebab-case, and a flood of one costs no memory."""

from __future__ import annotations

import re

import pytest

from runner.acp import findings
from runner.acp.findings import DESCRIPTIONS, FindingLog, FrameFinding


def test_every_constant_is_described_and_every_description_has_a_constant() -> None:
    constants = {value for name, value in vars(findings).items() if name.isupper() and isinstance(value, str)}
    assert constants == set(DESCRIPTIONS)


def test_ids_and_descriptions_have_their_form() -> None:
    for id, description in DESCRIPTIONS.items():
        assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", id)
        assert description
        assert "\n" not in description


def test_a_flood_is_counted_and_not_kept() -> None:
    log = FindingLog(keep=3)
    for seq in range(1000):
        log.add("not-json", "x" * 10_000, seq)
    log.add("batch", "y", 5)
    assert [(finding.id, finding.seq) for finding in log.kept] == [
        ("not-json", 0),
        ("not-json", 1),
        ("not-json", 2),
        ("batch", 5),
    ]
    assert log.counts == {"not-json": 1000, "batch": 1}
    assert len(log.kept[0].message) == findings.MAX_WORDS


def test_an_unknown_id_is_our_fault() -> None:
    with pytest.raises(KeyError):
        FindingLog().extend([FrameFinding("made-up", "x")])
