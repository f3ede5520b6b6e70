"""Any chunking of any bytes gives the same lines; nothing but LF ends one; memory stays within the cap."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.wire.frames import CUT, Frame, LineFramer, Oversize, Stored, Unterminated

#: Bytes in which line ends, and what is often taken for one, are frequent.
streams = st.lists(
    st.one_of(st.binary(max_size=12), st.sampled_from([b"\n", b"\r\n", b"\r", "\u2028".encode(), "\u0085".encode()]))
).map(b"".join)


def chunked(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(places)]


def frame_all(data: bytes, cuts: list[int], max_bytes: int) -> tuple[list[object], object]:
    framer = LineFramer(max_bytes)
    lines: list[object] = []
    for chunk in chunked(data, cuts):
        lines += framer.feed(chunk)
    return lines, framer.close()


@given(streams, st.lists(st.integers(0, 10_000)))
def test_any_chunking_gives_the_lines_of_the_whole(data: bytes, cuts: list[int]) -> None:
    lines, tail = frame_all(data, cuts, max_bytes=1_000_000)
    *expected, rest = data.split(b"\n")
    assert lines == expected
    assert tail == (Unterminated(rest) if rest else None)


@given(streams, st.lists(st.integers(0, 10_000)), st.integers(1, 8))
def test_lines_above_the_cap_are_marked_and_the_rest_is_untouched(data: bytes, cuts: list[int], cap: int) -> None:
    lines, tail = frame_all(data, cuts, max_bytes=cap)
    *expected, rest = data.split(b"\n")
    assert lines == [line if len(line) <= cap else Oversize(len(line)) for line in expected]
    kept = Unterminated(rest) if len(rest) <= cap else Oversize(len(rest), unterminated=True)
    assert tail == (kept if rest else None)


@given(streams, st.lists(st.integers(0, 10_000)))
def test_no_byte_is_lost(data: bytes, cuts: list[int]) -> None:
    lines, tail = frame_all(data, cuts, max_bytes=1_000_000)
    rest = tail.raw if isinstance(tail, Unterminated) else b""
    assert b"".join(line + b"\n" for line in lines if isinstance(line, bytes)) + rest == data


def test_a_character_split_over_reads_is_whole() -> None:
    framer = LineFramer()
    euro = "€".encode()
    assert [line for byte in euro for line in framer.feed(bytes([byte]))] == []
    assert framer.feed(b"\n") == [euro]


def test_memory_stays_flat_above_the_cap() -> None:
    framer = LineFramer(max_bytes=10)
    for _ in range(1000):
        assert framer.feed(b"x" * 1000) == []
    assert len(framer._kept) == 0
    assert framer.feed(b"\nok\n") == [Oversize(1_000_000), b"ok"]


def test_the_cap_itself_is_kept() -> None:
    framer = LineFramer(max_bytes=3)
    assert framer.feed(b"abc\nabcd\n") == [b"abc", Oversize(4)]


def test_close_makes_it_as_new() -> None:
    framer = LineFramer()
    framer.feed(b"half")
    assert framer.close() == Unterminated(b"half")
    assert framer.close() is None
    assert framer.feed(b"a\n") == [b"a"]


def test_a_cap_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        LineFramer(max_bytes=0)


def test_a_frame_reads_what_is_stored_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "stderr.log"
    frame = Frame(1, 2, "a2c", "stderr", Stored(path, 3, offset=2), (CUT,))
    path.write_bytes(b"abcdefg")
    assert frame.raw == b"cde"
    assert frame.length == 3


def test_a_frame_knows_the_length_of_what_was_not_kept() -> None:
    assert Frame(1, 2, "a2c", "stdout", b"", true_length=99).length == 99
    assert Frame(1, 2, "a2c", "stdout", b"abc").length == 3
