"""Knobs of one entry of a sweep over those of the whole."""

from __future__ import annotations

from runner.config.knobs import Deadlines, Knobs, overlay


def test_only_what_is_written_out_differs() -> None:
    base = Knobs(deadlines=Deadlines(turn=100.0, quiet=0.5), sample_ms=20)
    over = Knobs.model_validate({"deadlines": {"turn": 5.0}, "stderr_cap_mb": 1})
    both = overlay(base, over)
    assert (both.deadlines.turn, both.deadlines.quiet, both.sample_ms, both.stderr_cap_mb) == (5.0, 0.5, 20, 1)
    assert overlay(base, None) is base
    assert base.deadlines.turn == 100.0
