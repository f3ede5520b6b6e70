from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from runner.analysis.aggregate import build
from runner.report import to_json
from tests.unit.report.sample_reports import LOCK, SWEEP, cell, golden, plain, run, troubled

#: The names that scripts rely on.
CONTRACT = {
    "name",
    "adapter",
    "surface",
    "fixture",
    "policy",
    "model",
    "reset",
    "n",
    "outcomes",
    "unexpected",
    "exact",
    "sampled",
    "warnings",
}


def test_golden() -> None:
    planned = [cell(surface, number) for surface in ("acp", "cli") for number in (1, 2)]
    assert to_json.render(build(SWEEP, LOCK, planned, [run(each) for each in planned[:3]])) == golden("two.json")


def test_the_contracts_names() -> None:
    body = json.loads(to_json.render(troubled()))
    assert set(body) == {"schema_version", "sweep", "lock", "arms"}
    for arm in body["arms"]:
        assert set(arm) >= CONTRACT
        assert all(set(found) == {"values", "value"} for found in arm["exact"].values())
        assert all(
            set(found) == {"n", "median", "min", "max", "coverage", "values"} for found in arm["sampled"].values()
        )


def test_not_applicable_is_null_in_json() -> None:
    cli = json.loads(to_json.render(plain()))["arms"][2]
    assert cli["exact"]["permission_requests"] == {"values": [None, None, None], "value": None}
    assert cli["sampled"]["handshake_ms"]["median"] is None


def test_what_is_written_can_be_read() -> None:
    assert to_json.load(to_json.render(troubled())) == troubled()
    with pytest.raises(ValidationError):
        to_json.load('{"sweep": "x"}')
