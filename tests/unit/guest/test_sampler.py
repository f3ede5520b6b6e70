from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.guest import disk, procs, sampler
from runner.guest.cgroup import Cgroup
from runner.guest.preallocated import Preallocated
from runner.guest.sampler import Sampler


class Group(Cgroup):
    """Counters that a test sets."""

    def __init__(self) -> None:
        self.anon: int | None = 0
        self.cpu: float | None = 0.0
        self.kills: int | None = 0

    def anonymous_bytes(self) -> int | None:
        return self.anon

    def cpu_s(self) -> float | None:
        return self.cpu

    def oom_kills(self) -> int | None:
        return self.kills


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Group:
    monkeypatch.setattr(procs, "anonymous_bytes", lambda pid: 1_000_000)
    monkeypatch.setattr(procs, "cpu_s", lambda pid: 0.0)
    monkeypatch.setattr(time, "process_time", lambda: 5.0)
    return Group()


def make(
    group: Group, on_full: Callable[[], None], disk_bytes: int = 10**12, preallocated: Preallocated | None = None
) -> Sampler:
    return Sampler(
        group,
        disk.Writes(),
        list_helpers=lambda: [1],
        list_agent=list,
        on_full=on_full,
        sample_s=0.005,
        disk_bytes=disk_bytes,
        preallocated=preallocated,
    )


def never() -> None:
    raise AssertionError("the disk is not full")


def test_the_peak_is_above_what_was_there_before(group: Group) -> None:
    group.anon, group.cpu = 9_000_000, 100.0
    made = make(group, never)
    made.start()
    group.anon = 59_000_000
    time.sleep(0.1)
    group.anon, group.cpu, group.kills = 12_000_000, 101.5, 1
    usage = made.usage()
    made.stop()
    assert (usage.peak_anon_mb, usage.cpu_s, usage.oom) == (50.0, 1.5, True)


def test_what_is_not_counted_is_null(group: Group) -> None:
    group.anon = group.cpu = group.kills = None
    made = make(group, never)
    made.start()
    usage = made.usage()
    made.stop()
    assert (usage.peak_anon_mb, usage.cpu_s, usage.oom) == (None, None, False)


def test_too_much_written_is_told_once(group: Group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "PLACES", (str(tmp_path),))
    monkeypatch.setattr(sampler, "_WRITES_EVERY_S", 0.01)
    calls: list[int] = []
    full = threading.Event()

    def on_full() -> None:
        calls.append(1)
        full.set()

    made = make(group, on_full, disk_bytes=1_000_000)
    made.start()
    time.sleep(0.1)
    assert not full.is_set()
    (tmp_path / "file").write_bytes(b"x" * 2_000_000)
    assert full.wait(5)
    time.sleep(0.1)
    made.stop()
    assert len(calls) == 1


class Preallocations(Preallocated):
    """Calls that a test makes."""

    def ask(self, size: int) -> None:
        self._count(size, on_disk=True)


@pytest.mark.parametrize("hidden", [True, False])
def test_a_disk_that_others_fill_makes_nobody_exceed(
    group: Group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hidden: bool
) -> None:
    """Preallocated and then written: each is below the limit, and so is the file. Only what is hidden adds up."""
    room = [10**9]
    monkeypatch.setattr(disk, "PLACES", (str(tmp_path),))
    monkeypatch.setattr(disk.Room, "of", classmethod(lambda cls, place: disk.Room(room[0], 0)))
    monkeypatch.setattr(sampler, "_WRITES_EVERY_S", 0.01)
    monkeypatch.setattr(disk, "mapped", lambda *_: 700_000 if hidden else 0)
    full = threading.Event()
    counted = Preallocations(None)
    made = make(group, full.set, disk_bytes=1_000_000, preallocated=counted)
    made.start()
    counted.ask(700_000)
    (tmp_path / "file").write_bytes(b"x" * 700_000)
    room[0] -= 5_000_000
    assert full.wait(5 if hidden else 0.5) is hidden
    made.stop()


def test_a_call_that_would_pass_the_limit_is_told_at_once(group: Group) -> None:
    calls: list[int] = []
    counted = Preallocations(None)
    made = make(group, lambda: calls.append(1), disk_bytes=1_000_000, preallocated=counted)
    made.start()
    counted.ask(600_000)
    assert not calls
    counted.ask(600_000)
    counted.ask(600_000)
    assert calls == [1]
    made.stop()


def test_many_folders_are_found_while_the_disk_shrinks(
    group: Group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written: only the walk can see them."""
    monkeypatch.setattr(disk, "PLACES", (str(tmp_path),))
    monkeypatch.setattr(sampler, "_WRITES_EVERY_S", 0.01)
    monkeypatch.setattr(sampler, "_WALK_EVERY_S", 0.05)
    full = threading.Event()
    made = make(group, full.set, disk_bytes=1_000_000)
    made.start()
    for number in range(300):
        (tmp_path / str(number)).mkdir()
    assert full.wait(20)
    made.stop()


def test_who_wrote_too_much_and_is_gone_has_exceeded(group: Group) -> None:
    made = make(group, never, disk_bytes=1_000_000)
    assert made.exceeds(1_000_001)
    assert not made.exceeds(1_000_000)
    assert not made.exceeds(None)


@pytest.mark.parametrize(("pids", "full"), [([{7}, {7}], True), ([{7}, {8}] * 30, False)])
def test_who_keeps_its_counter_from_us_while_the_disk_shrinks_has_exceeded(
    group: Group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pids: list[set[int]], full: bool
) -> None:
    """Seen twice: a process that has just been executed cannot be read for a moment."""
    looks = iter(pids)
    room = [10**9]
    monkeypatch.setattr(disk, "PLACES", (str(tmp_path),))
    monkeypatch.setattr(disk.Room, "of", classmethod(lambda cls, place: disk.Room(room[0], 0)))
    monkeypatch.setattr(disk.Writes, "unseen", lambda self, living: next(looks, set()))
    monkeypatch.setattr(sampler, "_WRITES_EVERY_S", 0.01)
    told = threading.Event()
    made = make(group, told.set, disk_bytes=1_000_000)
    made.start()
    room[0] -= 2_000_000
    assert told.wait(5 if full else 0.5) is full
    made.stop()
