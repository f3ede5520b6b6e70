"""What a line takes once it is read: never underestimated where it matters, and plain text of any size is read."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from runner.wire import jsonrpc
from runner.wire.cost import MAX_COST, cost, too_costly

MB = 10**6


def said(text: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": "_x", "params": {"text": text}}, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "raw",
    [
        said("x" * 31 * MB),
        said("a, b: [c] {d}, " * 2 * MB),
        said("é" * 15 * MB),
        said("日" * 10 * MB),
        said("😀" * 7 * MB),
        b"[" + b"1," * 100_000 + b"1]",
    ],
    ids=["ascii", "punctuation", "latin", "cjk", "emoji", "numbers"],
)
def test_text_is_read_whatever_it_is_in(raw: bytes) -> None:
    assert not too_costly(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"[" + b"{}," * 8 * MB + b"{}]",
        b"[" + b"[]," * MB + b"[]]",
        b"{" + b",".join(b'"k%d":%d' % (number, number) for number in range(400_000)) + b"}",
        b"[" + b"1.5," * 2 * MB + b"1]",
        said("x" * 30 * MB + "😀"),
        said("x" * 30 * MB)[:-3] + b'\\ud83d\\ude00"}}',
        b"{}," * 8 * MB,
    ],
    ids=["objects", "arrays", "keys", "numbers", "one-emoji", "one-escape", "no-json"],
)
def test_values_that_take_gigabytes_are_not_read(raw: bytes) -> None:
    assert too_costly(raw)
    message = jsonrpc.decode(raw)
    assert isinstance(message, jsonrpc.Invalid)
    assert message.reason == "message-too-large"


def taken(value: Any) -> int:
    if isinstance(value, dict):
        return sys.getsizeof(value) + sum(taken(key) + taken(one) for key, one in value.items())
    if isinstance(value, list):
        return sys.getsizeof(value) + sum(map(taken, value))
    return sys.getsizeof(value)


@pytest.mark.parametrize(
    "raw",
    [
        b"[" + b"{}," * 50_000 + b"{}]",
        b"[" + b'{"a":[]},' * 50_000 + b"{}]",
        b"[" + b'"ab",' * 50_000 + b"1]",
        b"{" + b",".join(b'"key%d":%d.5' % (number, number) for number in range(50_000)) + b"}",
        said("日" * 50_000),
        said("x" * 50_000 + "😀"),
    ],
)
def test_the_estimate_is_never_too_low(raw: bytes) -> None:
    assert cost(raw, 1) >= taken(json.loads(raw))


def test_an_open_string_full_of_quotes_is_looked_at_once() -> None:
    """Starting anew at every quote, this would take hours."""
    raw = b"[" + b"{}," * MB + b'"' + rb"\"" * 10 * MB
    assert too_costly(raw)
    assert cost(raw) > MAX_COST
