from __future__ import annotations

import mmap
import os
import resource
from pathlib import Path

import pytest

from runner.guest import disk, procs


def test_occupied_counts_what_is_allocated(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    before = disk.occupied((str(tmp_path),))
    (tmp_path / "deep/file").write_bytes(b"x" * 100_000)
    with (tmp_path / "sparse").open("wb") as stream:
        stream.truncate(1 << 30)
    with (tmp_path / "preallocated").open("wb") as stream:
        os.posix_fallocate(stream.fileno(), 0, 1 << 20)
    (tmp_path / "link").symlink_to("/")
    grown = disk.occupied((str(tmp_path), "/nowhere")) - before
    assert (1 << 20) + 100_000 <= grown < (1 << 20) + 200_000


def test_a_file_without_a_name_is_found_while_it_is_open(tmp_path: Path) -> None:
    us = [procs.Process(os.getpid(), 0, 0, "R")]
    before = disk.unlinked(us, (str(tmp_path),))
    with (tmp_path / "gone").open("wb") as stream:
        stream.write(b"x" * 500_000)
        stream.flush()
        os.unlink(stream.name)
        assert disk.unlinked(us, (str(tmp_path),)) - before >= 500_000
    assert disk.unlinked(us, (str(tmp_path),)) == before


def test_written_bytes_are_counted_from_the_start(tmp_path: Path) -> None:
    writes = disk.Writes()
    writes.start()
    assert writes.total([]) == 0
    (tmp_path / "file").write_bytes(b"x" * 1_000_000)
    total = writes.total([])
    assert total is not None
    assert 1_000_000 <= total < 1_200_000


def test_more_files_than_a_walk_once_looked_at(tmp_path: Path) -> None:
    for number in range(51_000):
        os.mknod(tmp_path / str(number))
    before = disk.occupied((str(tmp_path),))
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/file").write_bytes(b"x" * 1_000_000)
    assert disk.occupied((str(tmp_path),)) - before >= 1_000_000


def test_a_file_with_many_names_counts_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 1_000_000)
    before = disk.occupied((str(tmp_path),))
    for number in range(100):
        (tmp_path / str(number)).hardlink_to(tmp_path / "file")
    assert disk.occupied((str(tmp_path),)) - before < 200_000


def test_folders_count_and_are_found_below_any_path(tmp_path: Path) -> None:
    before = disk.occupied((str(tmp_path),))
    fd = os.open(tmp_path, os.O_RDONLY)
    for _ in range(100):
        os.mkdir("d" * 200, dir_fd=fd)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    with open(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=fd), "wb") as stream:
        stream.write(b"x" * 1_000_000)
    os.close(fd)
    assert disk.occupied((str(tmp_path),)) - before >= 1_000_000 + 100 * 4096


def test_a_walk_goes_on_where_it_stopped_and_lets_go_of_what_it_held(tmp_path: Path) -> None:
    for folder in range(20):
        (tmp_path / str(folder)).mkdir()
        for number in range(100):
            (tmp_path / str(folder) / str(number)).write_bytes(b"x")
    descriptors = len(os.listdir("/proc/self/fd"))
    walk = disk.Walk((str(tmp_path),), [])
    steps = 1
    while not walk.advance(0):
        steps += 1
    assert steps > 10
    assert walk.total == disk.occupied((str(tmp_path),))
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_a_walk_ends_once_it_has_seen_enough(tmp_path: Path) -> None:
    for number in range(1000):
        (tmp_path / str(number)).mkdir()
    walk = disk.Walk((str(tmp_path),), [], limit=100_000)
    assert walk.advance(60)
    assert 100_000 < walk.total < 200_000


def test_a_file_without_a_name_is_found_behind_many_descriptors(tmp_path: Path) -> None:
    us = [procs.Process(os.getpid(), 0, 0, "R")]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2500:
        pytest.skip("not enough descriptors here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2500), hard))
    many = [os.open("/dev/null", os.O_RDONLY) for _ in range(1500)]
    try:
        with (tmp_path / "gone").open("wb") as stream:
            stream.write(b"x" * 500_000)
            stream.flush()
            os.unlink(stream.name)
            twice = os.dup(stream.fileno())
            assert 500_000 <= disk.unlinked(us, (str(tmp_path),)) < 900_000
            os.close(twice)
    finally:
        for fd in many:
            os.close(fd)


def test_room_lost_is_never_less_than_what_a_walk_finds_more(tmp_path: Path) -> None:
    before = disk.Room(10_000_000, 1000)
    assert disk.Room(9_000_000, 900).lost_since(before) == 1_000_000 + 100 * 512
    assert disk.Room(11_000_000, 900).lost_since(before) == 100 * 512
    assert disk.Room.of("/nowhere") == (0, 0)
    assert disk.used("/nowhere") == 0
    assert disk.used(str(tmp_path)) > 0


def test_a_file_without_a_name_or_descriptor_is_seen_where_it_is_mapped(tmp_path: Path) -> None:
    us = [procs.Process(os.getpid(), 0, 0, "R")]
    before = disk.mapped(us, (str(tmp_path),))
    with (tmp_path / "gone").open("w+b") as stream:
        stream.truncate(1 << 20)
        inode = os.fstat(stream.fileno()).st_ino
        held = [mmap.mmap(stream.fileno(), 1 << 20), mmap.mmap(stream.fileno(), 1 << 16)]
    assert disk.mapped(us, (str(tmp_path),)) == before
    (tmp_path / "gone").unlink()
    assert disk.mapped(us, (str(tmp_path),)) - before == 1 << 20
    assert disk.mapped(us, ("/elsewhere",)) == 0
    assert disk.mapped(us, (str(tmp_path),), without=[(0, inode)]) == before
    for one in held:
        one.close()
