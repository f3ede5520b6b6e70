"""Rules over runs whose logs are not as they were recorded: what they rely on may be gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from runner.errors import AcpbenchError, UsageError
from runner.study.runs import LoadedRun

T = TypeVar("T")


def told(runs: Iterable[LoadedRun], rule: Callable[[], T]) -> T:
    """What `rule` says of `runs`.

    A rule relies on what a run's record, frames and journal say of each other. Where it fails, and a log is not what
    its record counted, the log is to blame. Raises UsageError then; else the failure is ours, and raised as it is.
    """
    try:
        return rule()
    except AcpbenchError:
        raise
    except Exception:
        for run in runs:
            if (how := run.altered) is not None:
                problem = f"the logs are not as they were recorded ({how}): bring them back, or leave the run out"
                raise UsageError(f"{run.folder}: {problem}") from None
        raise
