from __future__ import annotations

import os
from pathlib import Path

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
