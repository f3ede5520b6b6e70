"""The soak in its short form; `make soak` is the long one."""

from __future__ import annotations

import pytest

from tests.hostile.soak import soak, table

pytestmark = [pytest.mark.hostile, pytest.mark.long, pytest.mark.timeout(600)]


def test_many_runs_leave_nothing_and_vary_in_nothing() -> None:
    soaked = soak(runs=16)
    print(table(soaked))
    assert soaked.passed == soaked.runs
    assert soaked.varying == []
    # Other tests of this process may hold some; the soak's own sweeps leave none.
    assert soaked.left == []
    assert (soaked.after.containers, soaked.after.volumes) == (soaked.before.containers, soaked.before.volumes)
    assert soaked.after.file_descriptors <= soaked.before.file_descriptors
    assert soaked.after.threads <= soaked.before.threads
    # What a run leaves in memory is its row of the report, not its frames.
    assert soaked.after.memory_mb < soaked.before.memory_mb + 20
