"""Findings are bounded per id and counted all."""

from __future__ import annotations

from runner.records.findings import KEPT, MAX_WORDS, Findings
from runner.records.schema import Finding


def flood(id: str, times: int) -> list[Finding]:
    return [Finding(id=id, message=f"{id} {number}", seq=number) for number in range(times)]


def test_the_first_of_each_id_are_kept_and_all_are_counted() -> None:
    found = Findings([*flood("not-json", 300_000), *flood("oversize", 3)])
    assert found.counts == {"not-json": 300_000, "oversize": 3}
    assert len(found) == KEPT + 3
    listed = found.listed()
    assert [one.seq for one in listed[:KEPT]] == list(range(KEPT))
    assert listed[KEPT - 1].message == f"not-json {KEPT - 1} (and {300_000 - KEPT:,} more of this kind)"
    assert [one.message for one in listed[KEPT:]] == ["oversize 0", "oversize 1", "oversize 2"]
    assert found[KEPT - 1].message == f"not-json {KEPT - 1}"


def test_what_others_kept_and_counted_is_added() -> None:
    found = Findings(flood("not-json", 5))
    found.extend(Findings(flood("not-json", 1000)))
    found.more("not-json", 7)
    found.more("late-update", 0)
    assert found.counts == {"not-json": 1012}
    assert len(found) == KEPT
    assert found.listed()[-1].message.endswith(f"(and {1012 - KEPT} more of this kind)")


def test_exactly_as_many_as_are_kept_need_no_words() -> None:
    found = Findings(flood("blank-line", KEPT))
    assert found.listed() == list(found) == flood("blank-line", KEPT)


def test_a_message_is_cut() -> None:
    (one,) = Findings([Finding(id="x", message="y" * 10 * MAX_WORDS)]).listed()
    assert len(one.message) == MAX_WORDS


def test_what_is_added_in_place_is_bounded_and_counted_too() -> None:
    found = Findings()
    found += flood("not-json", KEPT + 7)
    assert isinstance(found, Findings)
    assert len(found) == KEPT
    assert found.counts == {"not-json": KEPT + 7}
