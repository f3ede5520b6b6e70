from __future__ import annotations

from runner.config.outcome import PRECEDENCE, outcome_names


def test_every_name_is_of_the_closed_set() -> None:
    assert all(name.partition(":")[0] in PRECEDENCE for name in outcome_names())


def test_timeouts_are_written_out() -> None:
    names = outcome_names()
    assert "timeout:turn" in names
    assert "timeout:silence" in names
    assert "timeout" not in names
    assert "timeout:quiet" not in names  # the quiet window ends on purpose
