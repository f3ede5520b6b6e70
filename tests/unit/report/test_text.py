from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.report.text import printable, shortened


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tests pass \u2713", "tests pass \u2713"),
        ("\x1b[2J", "\\u001b[2J"),
        ("a\x07\x7f\x9b", "a\\u0007\\u007f\\u009b"),
        ("user\u202egpj.exe", "user\\u202egpj.exe"),
        ("\udcff", "\\udcff"),
        ("\U000e0001", "\\U000e0001"),
        ("two\nlines", "two\nlines"),
    ],
)
def test_printable(text: str, expected: str) -> None:
    assert printable(text) == expected


@given(st.text(), st.integers(3, 40))
def test_shortened_is_one_safe_line_within_its_limit(text: str, limit: int) -> None:
    line = shortened(text, limit)
    assert len(line) <= limit
    assert line.isprintable()


def test_shortened_keeps_what_fits() -> None:
    assert shortened("abcdef", 6) == "abcdef"
    assert shortened("abcdefg", 6) == "abc..."
    assert shortened("a\nb\tc", 10) == "a b c"
