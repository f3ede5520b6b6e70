"""What is checked before anything is started: one list, for `--dry-run` and for the sweep."""

from __future__ import annotations

from collections.abc import Sequence

from runner.config.loaded_sweep import LoadedSweep
from runner.config.plan import Cell
from runner.gateway.capture import check_tapes
from runner.gateway.program import check_programs
from runner.sandbox.fixture import check_pins


def preflight(loaded: LoadedSweep, cells: Sequence[Cell]) -> None:
    """What needs neither an engine nor a key.

    :raises ConfigError: a fixture's folder is not what its file pins, a script has no words in an adapter's tools, a
        tape is not whole.
    """
    check_pins(loaded)
    check_programs(loaded, cells)
    check_tapes(loaded, cells)
