"""The frame log: what goes in comes out, a killed run's log parses, the caps hold and count, a full disk surfaces."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.wire.frames import CUT, OVERSIZE, UNTERMINATED, Frame, Stored
from runner.wire.log import BLOB_BYTES, FrameLogWriter, read_frames

payloads = st.binary(max_size=200) | st.text(max_size=80).map(lambda text: text.encode("utf-8", "surrogatepass"))
kept_frames = st.builds(
    Frame,
    seq=st.integers(0, 2**53),
    t_ns=st.integers(0, 2**62),
    direction=st.sampled_from(["c2a", "a2c"]),
    channel=st.sampled_from(["stdin", "stdout", "stderr"]),
    payload=payloads,
    flags=st.sampled_from([(), (UNTERMINATED,)]),
)
oversize_frames = st.builds(
    lambda seq, length: Frame(seq, 5, "a2c", "stdout", b"", (OVERSIZE,), true_length=length),
    st.integers(0, 2**53),
    st.integers(1, 2**40),
)

MIB = 1024 * 1024


def writer(directory: Path, cap: int = 100 * MIB) -> FrameLogWriter:
    return FrameLogWriter(directory / "frames.jsonl", directory / "blobs", cap)


def stdout(seq: int, payload: bytes) -> Frame:
    return Frame(seq, seq * 10, "a2c", "stdout", payload)


def facts(frame: Frame) -> tuple[object, ...]:
    return (frame.seq, frame.t_ns, frame.direction, frame.channel, frame.raw, frame.length, frame.flags)


def on_disk(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


@given(frames=st.lists(kept_frames | oversize_frames, max_size=12))
def test_what_goes_in_comes_out(tmp_path_factory: pytest.TempPathFactory, frames: list[Frame]) -> None:
    directory = tmp_path_factory.mktemp("log")
    with writer(directory) as log:
        for frame in frames:
            log.write(frame)
    got = list(read_frames(directory / "frames.jsonl"))
    assert [facts(frame) for frame in got] == [facts(frame) for frame in frames]
    assert log.cut == {"frames": 0, "bytes": 0, "unlogged": 0}


@given(st.data())
def test_a_log_cut_anywhere_gives_a_prefix(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    directory = tmp_path_factory.mktemp("log")
    path = directory / "frames.jsonl"
    frames = [stdout(seq, payload) for seq, payload in enumerate(data.draw(st.lists(payloads, max_size=5)))]
    with writer(directory) as log:
        for frame in frames:
            log.write(frame)
    size = data.draw(st.integers(0, path.stat().st_size))
    whole = path.read_bytes()[:size].count(b"\n")
    os.truncate(path, size)
    assert [facts(frame) for frame in read_frames(path)] == [facts(frame) for frame in frames[:whole]]


def test_each_line_is_on_disk_before_the_next_call(tmp_path: Path) -> None:
    log = writer(tmp_path)
    log.write(stdout(1, b"one"))
    assert [frame.raw for frame in read_frames(tmp_path / "frames.jsonl")] == [b"one"]
    log.close()


def test_the_lines_have_the_contract_s_names(tmp_path: Path) -> None:
    with writer(tmp_path) as log:
        log.write(Frame(1, 10, "c2a", "stdin", "é".encode()))
        log.write(Frame(2, 20, "a2c", "stdout", b"\xff", (UNTERMINATED,)))
        log.stderr(30, 7, 100)
        log.write(Frame(3, 40, "a2c", "stdout", b"", (OVERSIZE,), true_length=99))
    lines = [json.loads(line) for line in (tmp_path / "frames.jsonl").read_bytes().splitlines()]
    assert lines == [
        {"seq": 1, "t_ns": 10, "direction": "c2a", "channel": "stdin", "length": 2, "text": "é"},
        {
            "seq": 2,
            "t_ns": 20,
            "direction": "a2c",
            "channel": "stdout",
            "length": 1,
            "b64": "/w==",
            "flags": ["unterminated"],
        },
        {"seq": None, "t_ns": 30, "direction": "a2c", "channel": "stderr", "length": 7, "offset": 100},
        {"seq": 3, "t_ns": 40, "direction": "a2c", "channel": "stdout", "length": 99, "flags": ["oversize"]},
    ]


@pytest.mark.parametrize("size", [BLOB_BYTES, BLOB_BYTES + 1])
def test_what_is_above_the_blob_size_is_a_file(tmp_path: Path, size: int) -> None:
    with writer(tmp_path) as log:
        log.write(stdout(7, b"x" * size))
    (frame,) = read_frames(tmp_path / "frames.jsonl")
    assert isinstance(frame.payload, Stored) == (size > BLOB_BYTES)
    assert (tmp_path / "blobs" / "7.bin").exists() == (size > BLOB_BYTES)
    assert frame.raw == b"x" * size
    assert frame.length == size


def test_blobs_are_read_only_when_asked_for(tmp_path: Path) -> None:
    with writer(tmp_path) as log:
        log.write(stdout(7, b"x" * (BLOB_BYTES + 1)))
    (tmp_path / "blobs" / "7.bin").unlink()
    (frame,) = read_frames(tmp_path / "frames.jsonl")
    with pytest.raises(FileNotFoundError):
        _ = frame.raw


def test_stderr_points_into_its_own_log(tmp_path: Path) -> None:
    (tmp_path / "stderr.log").write_bytes(b"first second")
    with writer(tmp_path) as log:
        log.stderr(1, 6, 6)
        log.stderr(2, 5, 0, seq=9)
    first, second = read_frames(tmp_path / "frames.jsonl")
    assert (first.seq, first.channel, first.direction, first.raw) == (-1, "stderr", "a2c", b"second")
    assert (second.seq, second.raw) == (9, b"first")


def test_what_the_cap_cuts_is_flagged_and_counted(tmp_path: Path) -> None:
    with writer(tmp_path, cap=4000) as log:
        log.write(stdout(1, b"a" * 100))
        log.write(stdout(2, b"b" * 5000))
        log.write(stdout(3, b"c" * 100))
    got = list(read_frames(tmp_path / "frames.jsonl"))
    assert [(frame.seq, len(frame.raw), frame.length, frame.flags) for frame in got] == [
        (1, 100, 100, ()),
        (2, 0, 5000, (CUT,)),
        (3, 100, 100, ()),
    ]
    assert log.cut == {"frames": 1, "bytes": 5000, "unlogged": 0}


def test_a_blob_that_the_cap_cuts_is_not_written(tmp_path: Path) -> None:
    with writer(tmp_path, cap=BLOB_BYTES) as log:
        log.write(stdout(1, b"a" * (BLOB_BYTES + 1)))
    (frame,) = read_frames(tmp_path / "frames.jsonl")
    assert frame.flags == (CUT,)
    assert not (tmp_path / "blobs").exists()


def test_a_flood_of_tiny_frames_stays_within_the_cap_and_its_tenth(tmp_path: Path) -> None:
    with writer(tmp_path, cap=20_000) as log:
        for seq in range(2000):
            log.write(stdout(seq, b"tiny"))
            log.stderr(seq, 1, seq)
    assert on_disk(tmp_path) <= 22_000
    logged = [frame for frame in read_frames(tmp_path / "frames.jsonl") if frame.channel == "stdout"]
    kept = [frame for frame in logged if not frame.flags]
    assert all(frame.raw == b"tiny" for frame in kept)
    assert len(kept) + log.cut["frames"] == 2000
    assert log.cut["bytes"] == 4 * log.cut["frames"] > 0
    assert log.cut["unlogged"] > 0


def test_a_full_disk_surfaces_and_what_is_written_parses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = writer(tmp_path)
    log.write(stdout(1, b"whole"))
    real = os.write

    def half_then_full(fd: int, data: bytes) -> int:
        if len(data) > 20:
            return real(fd, data[:20])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half_then_full)
        with pytest.raises(OSError, match="No space left"):
            log.write(stdout(2, b"does not fit"))
    log.write(stdout(3, b"after"))
    log.close()
    assert [frame.raw for frame in read_frames(tmp_path / "frames.jsonl")] == [b"whole", b"after"]


def test_a_blob_that_does_not_fit_leaves_neither_file_nor_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = writer(tmp_path)
    real = Path.write_bytes

    def partly(path: Path, data: bytes) -> int:
        real(path, data[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", partly)
    with pytest.raises(OSError, match="No space left"):
        log.write(stdout(1, b"x" * (BLOB_BYTES + 1)))
    log.close()
    assert list(read_frames(tmp_path / "frames.jsonl")) == []
    assert list((tmp_path / "blobs").iterdir()) == []


def test_a_real_full_device_surfaces(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    log = writer(tmp_path)
    fd = os.open("/dev/full", os.O_WRONLY)
    os.dup2(fd, log._fd)
    os.close(fd)
    with pytest.raises(OSError, match="No space left"):
        log.write(stdout(1, b"x"))
    with pytest.raises(ValueError, match="closed"):  # half a line could not be taken back, so nothing may follow it
        log.write(stdout(2, b"x"))


def test_a_broken_line_in_the_middle_is_an_error_with_its_number(tmp_path: Path) -> None:
    with writer(tmp_path) as log:
        log.write(stdout(1, b"one"))
    path = tmp_path / "frames.jsonl"
    good = path.read_bytes()
    path.write_bytes(good + b'{"seq":2}\n' + good)
    frames = read_frames(path)
    assert next(frames).raw == b"one"
    with pytest.raises(ValueError, match=r"frames\.jsonl:2: not a frame"):
        next(frames)


def test_a_log_is_never_written_over(tmp_path: Path) -> None:
    writer(tmp_path).close()
    with pytest.raises(FileExistsError):
        writer(tmp_path)


def test_a_closed_log_refuses(tmp_path: Path) -> None:
    log = writer(tmp_path)
    log.close()
    log.close()
    with pytest.raises(ValueError, match="closed"):
        log.write(stdout(1, b"x"))
