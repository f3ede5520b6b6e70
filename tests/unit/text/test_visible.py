from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.text.visible import error_text, json_text, one_line, printable

ODD = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tests pass \u2713 \U0001f600 \u26a0\ufe0f", "tests pass \u2713 \U0001f600 \u26a0\ufe0f"),
        ("\x1b]52;c;QQ==\x07", "\\u001b]52;c;QQ==\\u0007"),
        ("a\tb\rc\nd", "a\\u0009b\\u000dc\nd"),
        ("\u061c\u200b\u200e\u202e\u2028\u2066\ufeff", "\\u061c\\u200b\\u200e\\u202e\\u2028\\u2066\\ufeff"),
        ("\u3164\ufe01", "\\u3164\\ufe01"),
        ("::error::x", "\\u003a:error::x"),
        ("a ::error::x", "a ::error::x"),
        ("a\n   ::add-mask::x", "a\n   \\u003a:add-mask::x"),
        ("a ##[error]x ##vso[task.x]y ##teamcity[z]", "a #\\u0023[error]x #\\u0023vso[task.x]y #\\u0023teamcity[z]"),
        ("###[x]", "##\\u0023[x]"),
        ("## a heading, C# and ## [x]", "## a heading, C# and ## [x]"),
    ],
)
def test_printable(text: str, expected: str) -> None:
    assert printable(text) == expected


@given(st.text())
def test_twice_is_once_and_nothing_odd_is_left(text: str) -> None:
    for rule in (printable, one_line, json_text):
        shown = rule(text)
        assert rule(shown) == shown
        assert not any(unicodedata.category(c) in ODD for c in shown.replace("\n", ""))


@given(
    st.recursive(st.text() | st.integers() | st.none(), lambda part: st.lists(part) | st.dictionaries(st.text(), part))
)
def test_json_says_the_same(value: object) -> None:
    text = json_text(json.dumps(value, indent=2, ensure_ascii=False))
    assert json.loads(text) == value
    assert printable(text) == text


def test_an_error_of_several_lines_sets_the_others_in() -> None:
    assert error_text("broken\n::error::x\n  | quoted") == "broken\n  \\u003a:error::x\n  | quoted"
    assert error_text("a:1: wrong\nb:2: wrong", indented=False) == "a:1: wrong\nb:2: wrong"
    flooded = error_text("\n".join(["x" * 10**6] * 1000))
    assert len(flooded) < 100_000
    assert flooded.endswith("(940 more lines)")
