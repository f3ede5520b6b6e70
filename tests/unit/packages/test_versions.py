from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.packages.versions import between, inside, key, nearest, releases

LISTED = ["0.9.0", "0.10.0", "0.10.0-beta.1", "1.0", "1.0.0.post1", "1.1.0rc1", "1.2.0", "nightly"]


def test_releases_are_ordered_by_number_and_pre_releases_are_none() -> None:
    assert releases(reversed(LISTED)) == ["0.9.0", "0.10.0", "1.0", "1.0.0.post1", "1.2.0"]


def test_between_holds_both_ends() -> None:
    assert between(LISTED, "0.10.0", "1.2.0") == ["0.10.0", "1.0", "1.0.0.post1", "1.2.0"]
    assert between(LISTED, "1.2.0", "0.10.0") == []
    assert between(LISTED, "1.2.0-beta", "1.2.0") == []


@pytest.mark.parametrize(
    ("wanted", "found"), [("0.10.1", "0.10.0"), ("0.10.0", "0.10.0"), ("0.1.0", "0.9.0"), ("9", "1.2.0")]
)
def test_the_nearest_is_the_newest_that_is_not_newer(wanted: str, found: str) -> None:
    assert nearest(wanted, LISTED) == found
    assert nearest(wanted, ["nightly"]) is None


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("2.1.220 (Claude Code)", "2.1.220"),
        ("v25.9.0", "25.9.0"),
        ("codex-cli 0.166.0\n", "0.166.0"),
        ("vibe-acp 3.0.2", "3.0.2"),
        ("tool 1.0.0-rc.1.", "1.0.0-rc.1"),
        ("exit 1", None),
    ],
)
def test_the_version_inside_a_text(text: str, version: str | None) -> None:
    assert inside(text) == version


@given(st.lists(st.integers(min_value=0, max_value=10**6), min_size=2, max_size=4))
def test_numbers_are_compared_as_numbers(numbers: list[int]) -> None:
    low = ".".join(map(str, numbers))
    high = ".".join(map(str, [numbers[0] + 1, *numbers[1:]]))
    assert (key(low) or ((0,), 0)) < (key(high) or ((0,), 0))
