from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from runner.guest.cgroup import Cgroup


def version_1(root: Path) -> None:
    for name in ("memory", "cpuacct", "pids"):
        (root / name).mkdir()
    (root / "pids/pids.events").write_text("max 7\n")
    (root / "memory/memory.stat").write_text("cache 9\nrss 5\ntotal_cache 10\ntotal_rss 4096\ntotal_rss_huge 1\n")
    (root / "memory/memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    (root / "cpuacct/cpuacct.usage").write_text("1500000000\n")


def version_2(root: Path) -> None:
    (root / "cgroup.controllers").write_text("cpu memory\n")
    (root / "memory.stat").write_text("anon 4096\nanon_thp 7\nfile 9\n")
    (root / "memory.events").write_text("low 0\nmax 3\noom 4\noom_kill 2\noom_group_kill 0\n")
    (root / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 1\n")
    (root / "pids.events").write_text("max 7\n")


@pytest.mark.parametrize("make", [version_1, version_2])
def test_both_versions_say_the_same(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path)
    group = Cgroup(str(tmp_path))
    assert (group.anonymous_bytes(), group.cpu_s(), group.oom_kills()) == (4096, 1.5, 2)
    assert group.refused_forks() == 7


def test_a_counter_is_read_anew_each_time(tmp_path: Path) -> None:
    version_2(tmp_path)
    group = Cgroup(str(tmp_path))
    (tmp_path / "memory.stat").write_text("anon 8192\n")
    assert group.anonymous_bytes() == 8192


def test_what_is_not_there_is_null(tmp_path: Path) -> None:
    group = Cgroup(str(tmp_path))
    assert (group.anonymous_bytes(), group.cpu_s(), group.oom_kills()) == (None, None, None)
    assert group.refused_forks() is None
