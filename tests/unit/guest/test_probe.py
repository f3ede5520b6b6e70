"""The probe on this host, where it is let do what it must be refused in a container; there: tests/engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from runner.guest import probe


def test_our_own_processes_are_in_reach_and_told() -> None:
    """The control: what is refused in the sandbox is found where it is not."""
    with subprocess.Popen(["sleep", "60"]) as child:
        told = probe.reached([child.pid])
        child.kill()
    whats = {line.partition(" can be ")[2] for line in told}
    assert {"signalled", "limited", "scheduled", "slowed", "bound", "looked into (fd)"} <= whats


def test_who_is_gone_is_not_out_of_reach() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert f"process {child.pid}: not refused but ESRCH: signalled" in probe.reached([child.pid])


def test_it_runs_as_it_is_started_in_a_container() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", probe.__file__], capture_output=True, text=True, check=True, env={}, cwd="/"
    )
    found = json.loads(done.stdout)
    assert found["status"]["Uid"].split() == [str(os.geteuid())] * 4
    assert found["reached"] == []
    assert isinstance(found["network"], list)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reaches all")
def test_others_are_out_of_reach() -> None:
    assert probe.reached([1]) == []
