"""One container for an arm's runs: made once, ended between runs, never silently replaced."""

from __future__ import annotations

from typing import Any

import pytest

from runner.errors import InfraError
from runner.sandbox.reused import ReusedContainer


class FakeContainer:
    def __init__(self, *, hangs: bool = False) -> None:
        self.calls: list[str] = []
        self._hangs = hangs

    def wait(self, timeout_s: int) -> int:
        self.calls.append("wait")
        if self._hangs and "kill" not in self.calls:
            raise InfraError("timed out")
        return 0

    def kill(self) -> None:
        self.calls.append("kill")

    def remove(self) -> None:
        self.calls.append("remove")


def make(container: FakeContainer) -> Any:
    return lambda: container


def test_every_run_gets_the_same_container() -> None:
    first, kept = FakeContainer(), ReusedContainer()
    for runs in range(3):
        assert kept.runs == runs
        taken: Any = kept.take(make(first if runs == 0 else FakeContainer()))
        assert taken is first
        kept.give_back()
    kept.discard()
    kept.discard()
    assert first.calls == ["wait", "wait", "wait", "remove"]


def test_a_container_that_does_not_end_is_killed() -> None:
    container, kept = FakeContainer(hangs=True), ReusedContainer()
    kept.take(make(container))
    kept.give_back()
    assert container.calls == ["wait", "kill", "wait"]


def test_the_first_run_may_begin_anew_later_ones_may_not() -> None:
    first, second, kept = FakeContainer(), FakeContainer(), ReusedContainer()
    kept.take(make(first))
    kept.discard()
    taken: Any = kept.take(make(second))
    assert taken is second
    kept.give_back()
    kept.discard()
    with pytest.raises(InfraError, match="lost after run 1; a new one would start pristine"):
        kept.take(make(FakeContainer()))
