"""The search, over versions whose values are made up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.errors import BuildError, UsageError
from runner.packages.bisect import Found, Measured, bisect

VERSIONS = [f"0.{n}.0" for n in range(40)]


class Table:
    """A probe over a table; `odd`: what a second run of a version says instead."""

    def __init__(self, values: Mapping[str, Any], broken: set[str], odd: Mapping[str, Any]) -> None:
        self.values, self.broken, self.odd = values, broken, odd
        self.asked: list[str] = []

    def __call__(self, version: str, *, again: bool = False) -> Measured:
        self.asked.append(version)
        if version in self.broken:
            return Measured(version, problem="no lock could be made")
        value = self.odd.get(version, self.values[version]) if again else self.values[version]
        return Measured(version, value, "passed")


def search(change: int, broken: set[str] | None = None, odd: Mapping[str, Any] | None = None) -> tuple[Found, Table]:
    table = Table({v: "old" if n < change else "new" for n, v in enumerate(VERSIONS)}, broken or set(), odd or {})
    return bisect(VERSIONS, table, lambda _: None), table


@given(st.integers(min_value=1, max_value=len(VERSIONS) - 1))
def test_it_finds_the_first_version_in_log2_steps(change: int) -> None:
    found, table = search(change)
    assert (found.first.version, found.last_good.version) == (VERSIONS[change], VERSIONS[change - 1])
    assert found.confirmed
    # Two ends, the search, two second runs.
    assert len(table.asked) <= 2 + math.ceil(math.log2(len(VERSIONS))) + 2


@given(st.integers(min_value=1, max_value=38), st.sets(st.sampled_from(VERSIONS[1:-1]), max_size=20))
def test_versions_that_cannot_be_run_are_passed_over_and_named(change: int, broken: set[str]) -> None:
    found, _ = search(change, broken)
    first, last = VERSIONS.index(found.first.version), VERSIONS.index(found.last_good.version)
    assert last < change <= first
    assert list(found.skipped) == VERSIONS[last + 1 : first]
    assert set(found.skipped) <= broken


def test_a_neighbour_that_says_otherwise_the_second_time() -> None:
    assert not search(7, odd={VERSIONS[6]: "new"})[0].confirmed
    assert not search(7, odd={VERSIONS[7]: "old"})[0].confirmed


def test_nothing_changed() -> None:
    with pytest.raises(UsageError, match=r'0.0.0 and 0.39.0 have the same value, "old": nothing changed'):
        search(40)


def test_an_end_that_cannot_be_run() -> None:
    with pytest.raises(BuildError, match=r"0.39.0 cannot be run.*no lock could be made"):
        search(7, broken={VERSIONS[-1]})


def test_two_versions_are_enough() -> None:
    table = Table({"1": 1, "2": 2}, set(), {})
    found = bisect(["1", "2"], table, lambda _: None)
    assert (found.first.value, found.last_good.value, found.confirmed) == (2, 1, True)
    assert found.as_json("a", "m")["steps"][0] == {"version": "1", "value": 1, "outcome": "passed", "problem": None}
