from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.config.nearest import nearest, quoted, suggest


@pytest.mark.parametrize(
    ("name", "candidates", "expected"),
    [
        ("adaptor", ["adapters", "arms"], "adapters"),
        ("ACP", ["cli", "acp"], "acp"),
        ("claude", ["gemini-cli@1", "claude-agent-acp@0.64.0"], "claude-agent-acp@0.64.0"),
        ("zzz", ["acp", "cli"], None),
        ("", ["acp"], None),
        ("acp", [], None),
    ],
)
def test_nearest(name: str, candidates: list[str], expected: str | None) -> None:
    assert nearest(name, candidates) == expected


def test_suggest_lists_when_nothing_is_near() -> None:
    assert suggest("zzz", ["acp", "cli"]) == "; valid: acp, cli"
    assert suggest("acpp", ["acp", "cli"]) == "; did you mean 'acp'?"
    assert suggest("x", []) == "; there is none"


def test_suggest_cuts_long_lists() -> None:
    assert suggest("!", [f"name{n}" for n in range(20)]).endswith("name11, ... (8 more)")


@given(st.text())
def test_quoted_is_one_short_printable_line(text: str) -> None:
    shown = quoted(text)
    assert shown.isprintable()
    assert len(shown) <= 60


@given(st.lists(st.text(min_size=1)), st.text())
def test_nearest_is_a_candidate(candidates: list[str], name: str) -> None:
    assert nearest(name, candidates) in {None, *candidates}
