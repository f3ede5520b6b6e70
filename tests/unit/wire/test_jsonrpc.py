"""What lines mean: every shape, every malformation, ids echoed as they came, encoders deterministic."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.acp.findings import DESCRIPTIONS
from runner.wire import jsonrpc
from runner.wire.jsonrpc import Batch, FloatId, Invalid, Notification, Request, Response, decode

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=12,
)
ids = st.none() | st.text() | st.integers(-(2**70), 2**70)


def body(line: bytes) -> bytes:
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    return line[:-1]


def test_a_request_a_notification_and_responses() -> None:
    assert decode(b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"b":[1]}}') == Request(1, "a", {"b": [1]})
    assert decode(b'{"jsonrpc":"2.0","method":"a"}') == Notification("a", None)
    assert decode(b'{"jsonrpc":"2.0","id":"x","result":null}') == Response("x", failed=False, result=None)
    error = {"code": -32601, "message": "no"}
    assert decode(json.dumps({"jsonrpc": "2.0", "id": 0, "error": error}).encode()) == Response(0, True, error=error)


def test_id_null_is_a_request_and_no_id_is_a_notification() -> None:
    assert decode(b'{"jsonrpc":"2.0","id":null,"method":"a"}') == Request(None, "a", None)
    assert decode(b'{"jsonrpc":"2.0","id":0,"method":"a"}') == Request(0, "a", None)


@pytest.mark.parametrize(
    "literal", ["0", "-0", "7", '""', '"0"', '"a\\u00e9"', "null", "1.0", "1.50", "1e2", "-2E+3", "1e400", "9" * 30]
)
def test_an_id_is_echoed_as_it_was_written(literal: str) -> None:
    message = decode(b'{"jsonrpc":"2.0","method":"a","x":1.25,"id":' + literal.encode() + b"}")
    assert isinstance(message, Request)
    line = jsonrpc.result(message.id, {})
    expected = {"-0": "0", '"a\\u00e9"': '"aé"'}.get(literal, literal)
    assert line == f'{{"jsonrpc":"2.0","id":{expected},"result":{{}}}}\n'.encode()


def test_a_string_id_is_not_the_number() -> None:
    one, text = decode(b'{"jsonrpc":"2.0","id":1,"result":0}'), decode(b'{"jsonrpc":"2.0","id":"1","result":0}')
    assert isinstance(one, Response)
    assert isinstance(text, Response)
    assert one.id != text.id


def test_equal_numbers_are_the_same_id() -> None:
    message = decode(b'{"jsonrpc":"2.0","id":1.0,"result":0}')
    assert isinstance(message, Response)
    assert {1: "ours"}[message.id] == "ours"  # type: ignore[index]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "blank-line"),
        (b" \t\r", "blank-line"),
        (b"\xef\xbb\xbf", "blank-line"),
        (b"Welcome to the agent!", "not-json"),
        (b"\x1b[31mred\x1b[0m", "not-json"),
        (b'{"jsonrpc":"2.0","id":1,"meth', "not-json"),
        (b'{"jsonrpc":"2.0","id":1,"result":NaN}', "not-json"),
        (b'{"jsonrpc":"2.0","id":1,"result":-Infinity}', "not-json"),
        (b'{"a":1} {"b":2}', "not-json"),
        (b'{"jsonrpc":"2.0","id":1,"result":"\x01"}', "not-json"),
        (b'{"a":"\xff"}', "not-utf8"),
        (b'{"a":"\xed\xa0\x80"}', "not-utf8"),
        (b'"text"', "not-object"),
        (b"3", "not-object"),
        (b"null", "not-object"),
        (b"true", "not-object"),
        (b"{}", "not-jsonrpc"),
        (b'{"jsonrpc":"2.0","id":1}', "not-jsonrpc"),
        (b'{"jsonrpc":"2.0","result":1}', "not-jsonrpc"),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', "not-jsonrpc"),
        (b'{"jsonrpc":"2.0","id":true,"method":"a"}', "bad-id"),
        (b'{"jsonrpc":"2.0","id":{},"method":"a"}', "bad-id"),
        (b'{"jsonrpc":"2.0","id":[1],"result":1}', "bad-id"),
        (b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"a"}', "number-out-of-range"),
        (b"[" * 100_000, "too-deep"),
    ],
)
def test_what_is_no_message_says_why(raw: bytes, reason: str) -> None:
    message = decode(raw)
    assert isinstance(message, Invalid)
    assert message.reason == reason
    assert reason in DESCRIPTIONS
    assert message.detail


@pytest.mark.parametrize(
    ("raw", "note"),
    [
        (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"result":2}', "byte-order-mark"),
        (b'{"jsonrpc":"2.0","id":9,"id":1,"result":2}', "duplicate-key"),
        (b'{"jsonrpc":"2.0","id":1,"result":2,"x":{"a":1,"a":2}}', "duplicate-key"),
        (b'{"id":1,"result":2}', "jsonrpc-version"),
        (b'{"jsonrpc":2.0,"id":1,"result":2}', "jsonrpc-version"),
        (b'{"jsonrpc":"2.0","id":1,"result":2,"error":null}', "result-and-error"),
    ],
)
def test_what_a_real_peer_would_understand_is_read_and_noted(raw: bytes, note: str) -> None:
    assert decode(raw) == Response(1, failed=False, result=2, notes=(note,))
    assert note in DESCRIPTIONS


def test_the_last_of_two_equal_keys_counts() -> None:
    message = decode(b'{"jsonrpc":"2.0","id":1.5,"id":2.50,"method":"a"}')
    assert isinstance(message, Request)
    assert isinstance(message.id, FloatId)
    assert message.id.literal == "2.50"


def test_an_error_beats_a_result() -> None:
    message = decode(b'{"jsonrpc":"2.0","id":1,"result":2,"error":{"code":1,"message":"m"}}')
    assert message == Response(1, True, error={"code": 1, "message": "m"}, notes=("result-and-error",))


@pytest.mark.parametrize(
    "error", [b'"text"', b"null", b"{}", b'{"code":"1","message":"m"}', b'{"code":true,"message":"m"}']
)
def test_a_malformed_error_is_a_failure_all_the_same(error: bytes) -> None:
    message = decode(b'{"jsonrpc":"2.0","id":1,"error":' + error + b"}")
    assert isinstance(message, Response)
    assert message.failed
    assert message.notes == ("bad-error",)
    assert jsonrpc.error_code(message.error) is None


def test_a_batch_keeps_its_items() -> None:
    assert decode(b'[{"a":1},2]') == Batch(({"a": 1}, 2))
    assert decode(b"[]") == Batch(())


def test_a_line_with_a_carriage_return_is_read() -> None:
    assert decode(b'{"jsonrpc":"2.0","method":"a"}\r') == Notification("a", None)


@given(ids, st.text(), json_values)
def test_a_request_round_trips(id: jsonrpc.Id, method: str, params: Any) -> None:
    message = decode(body(jsonrpc.request(id, method, params)))
    assert message == Request(id, method, params)


@given(ids, json_values)
def test_a_result_round_trips(id: jsonrpc.Id, value: Any) -> None:
    assert decode(body(jsonrpc.result(id, value))) == Response(id, failed=False, result=value)


@given(st.text(), json_values)
def test_a_notification_round_trips(method: str, params: Any) -> None:
    assert decode(body(jsonrpc.notification(method, params))) == Notification(method, params)


@given(ids, st.integers(-(2**31), 2**31), st.text(), json_values)
def test_an_error_round_trips(id: jsonrpc.Id, code: int, message: str, data: Any) -> None:
    got = decode(body(jsonrpc.error(id, code, message, data)))
    assert isinstance(got, Response)
    assert got.failed
    assert got.error["code"] == code == jsonrpc.error_code(got.error)
    assert got.error["message"] == message
    assert got.error.get("data") == data


@given(st.binary())
def test_decode_never_raises(raw: bytes) -> None:
    decode(raw)


@given(st.text(alphabet='{}[]":,0123456789.eE-+truefalsn \\u"idmethodresult', max_size=40))
def test_decode_never_raises_on_what_looks_like_json(text: str) -> None:
    decode(text.encode())


def test_non_ascii_is_kept_and_the_bytes_are_fixed() -> None:
    expected = '{"jsonrpc":"2.0","id":3,"method":"m","params":{"ä":"€\u2028","a":1}}\n'.encode()
    assert jsonrpc.request(3, "m", {"ä": "€\u2028", "a": 1}) == expected


def test_params_that_are_none_are_left_out_and_empty_ones_are_not() -> None:
    assert jsonrpc.notification("m") == b'{"jsonrpc":"2.0","method":"m"}\n'
    assert jsonrpc.notification("m", {}) == b'{"jsonrpc":"2.0","method":"m","params":{}}\n'


def test_a_lone_surrogate_is_escaped() -> None:
    message = decode(b'{"jsonrpc":"2.0","id":"\\ud800","method":"a"}')
    assert isinstance(message, Request)
    assert jsonrpc.result(message.id, None) == b'{"jsonrpc":"2.0","id":"\\ud800","result":null}\n'


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_json_has_no_form_for_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        jsonrpc.result(1, value)
