"""Chaos in its short form: every kind of victim twice; `make chaos` is the long one."""

from __future__ import annotations

import pytest

from tests.hostile.chaos import VICTIMS, chaos, table

pytestmark = [pytest.mark.hostile, pytest.mark.long, pytest.mark.timeout(600)]


def test_whatever_is_killed_a_resumed_sweep_is_whole() -> None:
    outcomes = chaos(kills=2 * len(VICTIMS), seed=20260802)
    print(table(outcomes))
    assert [one for one in outcomes if not one.whole] == []
