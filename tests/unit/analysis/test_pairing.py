from __future__ import annotations

import pytest

from runner.analysis.pairing import Paired, pair_across, pair_within
from runner.errors import UsageError
from tests.unit.arms import arm, report

OLD = [arm(adapter="a@1", surface=surface) for surface in ("acp", "cli")]
NEW = [arm(adapter="a@2", surface=surface) for surface in ("acp", "cli")]
SWEEP = report(*OLD, *NEW)


def names(paired: Paired) -> list[tuple[str, str]]:
    return [(pair.base.name, pair.new.name) for pair in paired.pairs]


def test_each_surface_is_held_against_its_own() -> None:
    paired = pair_within(SWEEP, "a-1--*", "a-2--*")
    assert names(paired) == [(old.name, new.name) for old, new in zip(OLD, NEW, strict=True)]
    assert (paired.missing, paired.warnings) == (0, [])


def test_two_single_arms_are_a_pair_whatever_they_are() -> None:
    (pair,) = pair_within(SWEEP, "a-1--acp*", "a-2--cli*").pairs
    assert len(pair.likeness.refused) == 2


def test_a_twin() -> None:
    twins = report(OLD[0], arm(adapter="a@1", twin=True))
    (pair,) = pair_within(twins, "*--container", "*--twin").pairs
    assert (pair.base.twin, pair.new.twin, pair.likeness.refused) == (False, True, [])


def test_an_arm_of_the_base_without_a_partner_is_missing() -> None:
    paired = pair_within(report(*OLD, NEW[0]), "a-1--*", "a-2--*")
    assert (len(paired.pairs), paired.missing, [warning.id for warning in paired.warnings]) == (1, 1, ["missing-arm"])
    more = pair_within(report(OLD[0], *NEW), "a-1--*", "a-2--*")
    assert (len(more.pairs), more.missing, [warning.id for warning in more.warnings]) == (1, 0, ["unpaired"])


@pytest.mark.parametrize(
    ("base", "new", "said"),
    [
        ("x", "a-2--*", "--base 'x' fits no arm"),
        ("a-1--*", "y", "--new 'y' fits no arm"),
        ("*", "a-2--*", "both fit a-2--acp"),
        ("a-1--*", "a-2--opencode*", "fits no arm"),
    ],
)
def test_globs_that_make_no_pairs(base: str, new: str, said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("*", r"\*")):
        pair_within(SWEEP, base, new)


def test_an_arm_that_could_be_held_against_two() -> None:
    three = report(*OLD, arm(adapter="a@1", surface="acp-nocaps"))
    with pytest.raises(UsageError, match=r"could be held against .*; give narrower globs"):
        pair_within(three, "a-1--*acp*", "a-1--cli*")


def test_two_sweeps_by_name_or_by_what_differs() -> None:
    assert names(pair_across(report(*OLD), report(*OLD))) == [(old.name, old.name) for old in OLD]
    assert names(pair_across(report(*OLD), report(*NEW))) == [(o.name, n.name) for o, n in zip(OLD, NEW, strict=True)]
    with pytest.raises(UsageError, match="nothing can be compared"):
        pair_across(report(OLD[0]), report(NEW[1]))
