"""Patches replace whole lines: applied to a file they give what the edit would give."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.gateway import patch

LINES = st.lists(st.text(alphabet=st.characters(blacklist_characters="\n", blacklist_categories=["Cs"])), min_size=1)


def apply(body: str) -> tuple[list[str], list[str]]:
    """(lines looked for, lines put in their place): what an apply_patch tool reads."""
    head, path, at, *hunk, end = body.split("\n")
    assert (head, path, at, end) == ("*** Begin Patch", "*** Update File: a/b", "@@", "*** End Patch")
    assert all(line[0] in " -+" for line in hunk)
    return [line[1:] for line in hunk if line[0] in " -"], [line[1:] for line in hunk if line[0] in " +"]


@given(LINES, LINES, st.booleans())
def test_an_update_says_both_sides_of_the_edit(old: list[str], new: list[str], closed: bool) -> None:
    if old == new:
        return
    end = "\n" if closed else ""
    before, after = ("\n".join(lines) + end for lines in (old, new))
    if not after:
        return
    if before.endswith("\n") != after.endswith("\n"):
        with pytest.raises(ValueError, match="both end"):
            patch.update("a/b", before, after)
        return
    found = apply(patch.update("a/b", before, after))
    expected = tuple(text.removesuffix("\n").split("\n") if text else [] for text in (before, after))
    assert found == expected


def test_lines_that_stay_are_context_and_an_empty_new_text_removes() -> None:
    body = patch.update("a/b", "keep\nold\nkeep too\n", "keep\nnew\nkeep too\n")
    assert body.split("\n")[3:-1] == [" keep", "-old", "+new", " keep too"]
    assert apply(patch.update("a/b", "gone\n", "")) == (["gone"], [])


def test_a_patch_that_changes_nothing_or_half_a_line_is_refused() -> None:
    with pytest.raises(ValueError, match="the same"):
        patch.update("a/b", "x\n", "x\n")
    with pytest.raises(ValueError, match="whole lines"):
        patch.update("a/b", "x\n", "y")


def test_a_new_file_is_all_plus_lines() -> None:
    assert patch.add("c d", "one\n\ntwo\n").split("\n") == [
        "*** Begin Patch", "*** Add File: c d", "+one", "+", "+two", "*** End Patch",
    ]  # fmt: skip
