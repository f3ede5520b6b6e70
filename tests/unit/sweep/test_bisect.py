"""The search, over versions whose values are made up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.config.catalog import Catalog
from runner.errors import AcpbenchError, BuildError, EngineUnavailable, InfraError, Interrupted, UsageError
from runner.sweep import bisect as searching
from runner.sweep.bisect import Bench, FirstDifference, MeasuredVersion, bisect, scratch, stretch

VERSIONS = [f"0.{n}.0" for n in range(40)]


class Table:
    """A probe over a table; `odd`: what a second run of a version says instead."""

    def __init__(self, values: Mapping[str, Any], broken: set[str], odd: Mapping[str, Any]) -> None:
        self.values, self.broken, self.odd = values, broken, odd
        self.asked: list[str] = []

    def __call__(self, version: str, *, again: bool = False) -> MeasuredVersion:
        self.asked.append(version)
        if version in self.broken:
            return MeasuredVersion(version, problem="no lock could be made")
        value = self.odd.get(version, self.values[version]) if again else self.values[version]
        return MeasuredVersion(version, value, "passed")


def search(
    change: int, broken: set[str] | None = None, odd: Mapping[str, Any] | None = None
) -> tuple[FirstDifference, Table]:
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


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        ("banana", "1.2.0", r"tiny has no release 'banana'; valid: 1\.10\.0, 1\.2\.0, 1\.0\.0"),
        ("1.0.0", "9.9.9", r"tiny has no release '9\.9\.9'"),
        ("1.2", "1.10.0", r"tiny has no release '1\.2'; did you mean '1\.2\.0'\?"),
        ("1.2.0", "1.2.0", r"--good and --bad are both 1\.2\.0"),
        ("1.10.0", "1.2.0", r"--good 1\.10\.0 is newer than --bad 1\.2\.0: swap them"),
    ],
)
def test_ends_that_are_none_are_told_apart(good: str, bad: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        stretch("tiny", ["1.0.0", "1.2.0", "1.10.0"], good, bad)


def test_both_ends_are_searched() -> None:
    assert stretch("tiny", ["1.0.0", "1.2.0", "1.10.0", "2.0.0"], "1.2.0", "2.0.0") == ["1.2.0", "1.10.0", "2.0.0"]


@pytest.mark.parametrize(
    ("problem", "passed_over"),
    [
        (BuildError("no lock"), True),
        (InfraError("no room"), False),
        (Interrupted("interrupted"), False),
        (EngineUnavailable("no engine"), False),
        (UsageError("no such metric"), False),
    ],
)
def test_what_is_no_versions_fault_ends_the_search(
    problem: AcpbenchError, passed_over: bool, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise problem

    monkeypatch.setattr(searching, "pin", fails)
    where, held = scratch(Catalog(root), "tiny")
    nobody: Any = None
    bench = Bench("tiny", "default_mode", "acp", nobody, nobody, where, held, lambda _: None)
    if passed_over:
        assert bench("1.1.0").problem == str(problem)
    else:
        with pytest.raises(type(problem)):
            bench("1.1.0")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for below in ("configs/adapters", "configs/surfaces", "configs/models", "images/tiny-1.0.0", "fixtures"):
        (tmp_path / below).mkdir(parents=True)
    (tmp_path / "configs/adapters/tiny-1.0.0.yaml").write_text(
        "id: tiny@1.0.0\ntitle: Tiny\nimage: tiny-1.0.0\ndialect: anthropic\ntools: {}\n"
        "packages: [{ registry: npm, name: tiny, version: 1.0.0 }]\n"
        "programs: [{ name: own, command: [own], expect: 1.0.0 }]\n"
        "acp: { command: [own], binary: /own }\n"
    )
    (tmp_path / "images/tiny-1.0.0/Dockerfile").write_text("FROM acpbench/node\n")
    return tmp_path


def test_two_searches_of_one_adapter_do_not_share_a_folder(root: Path) -> None:
    _, held = scratch(Catalog(root), "tiny")
    with pytest.raises(UsageError, match="another acpbench is searching the versions of tiny"):
        scratch(Catalog(root), "tiny")
    held.close()
    scratch(Catalog(root), "tiny")[1].close()


def test_a_search_goes_on_from_what_was_made_of_the_same(root: Path) -> None:
    where, held = scratch(Catalog(root), "tiny")
    made = [where / "configs/adapters/tiny-1.1.0.yaml", where / "images/tiny-1.1.0/Dockerfile"]
    for path in made:
        path.parent.mkdir(exist_ok=True)
        path.write_text("made")
    held.close()
    scratch(Catalog(root), "tiny")[1].close()
    assert all(path.exists() for path in made)
    (root / "images/tiny-1.0.0/Dockerfile").write_text("FROM acpbench/node\nRUN true\n")
    scratch(Catalog(root), "tiny")[1].close()
    assert not any(path.exists() for path in made)


def test_what_the_checkout_no_longer_has_is_no_longer_in_the_search(root: Path) -> None:
    extra = root / "configs/adapters/other-1.0.0.yaml"
    extra.write_text((root / "configs/adapters/tiny-1.0.0.yaml").read_text().replace("id: tiny", "id: other"))
    where, held = scratch(Catalog(root), "tiny")
    held.close()
    extra.unlink()
    scratch(Catalog(root), "tiny")[1].close()
    assert [one.value.id for one in Catalog(where).adapters()] == ["tiny@1.0.0"]


def test_an_adapter_that_is_not_there_leaves_no_folder(root: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no adapter 'tiny@1\.0\.0' in any version; did you mean 'tiny'\?"):
        scratch(Catalog(root), "tiny@1.0.0")
    assert not (root / ".cache").exists()
