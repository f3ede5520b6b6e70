"""A secret is found however its characters are written, mixed and interrupted; nothing else is."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.redaction.forms import EDGE, Forms, literals, merged, struck

#: Printable ASCII without a blank, as keys are read.
KEYS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=8, max_size=40)
#: Of which keys are made. (A `%`, `&` or backslash of its own makes a key look like another one's escape.)
CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./+=~:!$*()@,;"
#: How a character may be written.
ESCAPES: list[Callable[[str], str]] = [
    lambda c: f"%{ord(c):02x}", lambda c: f"%{ord(c):02X}", lambda c: f"%25{ord(c):02X}",
    lambda c: f"\\u{ord(c):04x}", lambda c: f"\\\\u{ord(c):04X}", lambda c: f"\\U{ord(c):08x}",
    lambda c: f"\\u{{{ord(c):X}}}", lambda c: f"\\x{ord(c):02x}", lambda c: f"\\\\\\{ord(c):03o}",
    lambda c: f"&#{ord(c)};", lambda c: f"&#x{ord(c):x};", lambda c: f"&#000{ord(c)};",
    lambda c: c if c.isalnum() else f"\\{c}",
]  # fmt: skip
BETWEEN = ["\n", "\r\n  ", "\\n", "\\r\\n    ", "\x1b[0m", "\x1b[38;5;12m", "\x1b(B", "\0", "\\u0000", "\\u001b[1m"]


@pytest.mark.parametrize("seed", range(300))
def test_every_mixture_of_forms(seed: int) -> None:
    choose = random.Random(seed)
    key = "".join(choose.choices(CHARACTERS, k=choose.randrange(8, 60)))
    forms = Forms([key])
    for core in (form.decode() for form in literals(key.encode()) if b" " not in form):
        said = "".join(
            (choose.choice(BETWEEN) if n and choose.random() < 0.1 else "")
            + (choose.choice(ESCAPES)(c) if choose.random() < 0.4 else c)
            for n, c in enumerate(core)
        ).encode()
        data = choose.randbytes(20) + b" <" + said + b"> " + choose.randbytes(20)
        spans = forms.spans(data)
        assert any(start <= 22 and 22 + len(said) <= end for start, end in spans), said
        assert forms.spans(struck(data, spans)) == []


@given(st.binary(max_size=300))
def test_nothing_is_found_where_nothing_is(data: bytes) -> None:
    assert Forms(["a-key-that-nobody-says"]).spans(data) == []


@given(st.binary(max_size=40), st.binary(max_size=40), KEYS)
@settings(deadline=None)
def test_base64_of_something_larger(before: bytes, after: bytes, key: str) -> None:
    whole = base64.b64encode(before + key.encode() + after)
    left = struck(whole, Forms([key]).spans(whole))
    # Six bits at either end belong to a neighbour too.
    assert len(left) <= len(whole) - len(key) * 8 // 6 + 2 + 3


def test_several_secrets_one_within_the_other() -> None:
    forms = Forms(["plain-old-key", "plain-old-key-2", "another-key"])
    data = b"plain-old-key-2, plain-old-key, another-keyplain-old-key."
    assert struck(data, forms.spans(data)) == b"***, ***, ***."


def test_a_secret_must_be_text_without_more() -> None:
    with pytest.raises(ValueError, match="empty"):
        Forms([""])
    with pytest.raises(UnicodeEncodeError):
        Forms(["schlüssel"])
    assert Forms([]).spans(b"anything") == []


def test_edges() -> None:
    key = "abcdefghijklmnopqrstuvwxyz"
    forms = Forms([key])
    assert forms.edges(f"x {key[:EDGE]}".encode()) == [(2, 2 + EDGE)]
    assert forms.edges(f"x {key[: EDGE - 1]}".encode()) == []
    assert forms.edges(f"{key[-EDGE:]} x".encode()) == [(0, EDGE)]
    assert forms.edges(f"{key[5:25]} x".encode()) == []
    assert forms.edges(key[:20].encode()) == [(0, 20)]


def test_merged() -> None:
    assert merged([(5, 7), (1, 3), (2, 4), (7, 8)]) == [(1, 4), (5, 8)]


@pytest.mark.parametrize("part", [b"\\", b"%7", b"\x1b[", b"&#", b"sk-a", b"\n", b"\\n", b"%41", b"\\u0061", b"6b"])
def test_floods_take_time_in_proportion(part: bytes) -> None:
    """Each of a megabyte: a search that looked at them twice for every byte would not end."""
    assert Forms(["sk-a-key-that-nobody-says"]).spans(part * (1_000_000 // len(part))) == []
