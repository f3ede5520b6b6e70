"""Who may be reaped: dead owners of ours, and nobody else."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.sandbox.labels import LABEL, Owner, is_dead, labels

ME = Owner.me()
#: Past the lifetime of what is labelled now.
LATER = time.time() + 25 * 3600


def of(owner: Owner | str, **changed: str) -> dict[str, str]:
    return {**labels("sweep"), f"{LABEL}.owner": str(owner), **changed}


def test_our_own_things_live() -> None:
    assert not is_dead(labels("sweep", "run"))


def test_what_is_not_ours_is_never_dead() -> None:
    assert not is_dead({})
    assert not is_dead({"com.example": "1", f"{LABEL}.expires": "0"})


def test_an_ended_process_is_dead() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert is_dead(of(dataclasses.replace(ME, pid=child.pid, started="1")))


def test_a_reused_pid_is_dead() -> None:
    assert is_dead(of(dataclasses.replace(ME, started="1")))


def test_another_boot_is_dead() -> None:
    assert is_dead(of(dataclasses.replace(ME, boot="another")))


@pytest.mark.parametrize(
    "found",
    [
        of(dataclasses.replace(ME, namespace="pid:[1]", pid=999999)),
        of(dataclasses.replace(ME, pid=999999), **{f"{LABEL}.host": "elsewhere"}),
        of("not an owner"),
    ],
)
def test_an_owner_that_cannot_be_seen_lives_until_it_expires(found: dict[str, str]) -> None:
    assert not is_dead(found)
    assert is_dead(found, now=time.time() + 25 * 3600)


def nobody(_pid: int, _number: int) -> None:
    raise ProcessLookupError


def not_ours(_pid: int, _number: int) -> None:
    raise PermissionError


def ours(_pid: int, _number: int) -> None:
    """A signal would arrive."""


OTHER = dataclasses.replace(ME, pid=4711, started="1234")
#: An owner as another system writes it: no boot id, no pid namespaces, no start times.
MAC = Owner("unknown", "unknown", 4711, "unknown")


@pytest.mark.parametrize("kill", [ours, not_ours])
def test_a_process_that_proc_does_not_show_lives_until_it_expires(
    tmp_path: Path, kill: Callable[[int, int], None]
) -> None:
    """`hidepid=2`, another user: its /proc/<pid> does not exist for us, and kill(2) knows it all the same."""
    assert not is_dead(of(OTHER), proc=tmp_path, kill=kill)
    assert is_dead(of(OTHER), proc=tmp_path, kill=kill, now=LATER)


def test_a_pid_that_kill_does_not_know_is_dead(tmp_path: Path) -> None:
    assert is_dead(of(OTHER), proc=tmp_path, kill=nobody)


@pytest.mark.parametrize(("started", "dead"), [("1234", False), ("1235", True)])
def test_a_start_time_that_can_be_read_decides(tmp_path: Path, started: str, dead: bool) -> None:
    (tmp_path / "4711").mkdir()
    (tmp_path / "4711/stat").write_text(f"4711 (a) b) S {'0 ' * 18}{started} 0")
    for now in (None, LATER):
        assert is_dead(of(OTHER), proc=tmp_path, kill=not_ours, now=now) is dead


@pytest.mark.parametrize("kill", [ours, not_ours])
def test_without_proc_an_owner_lives_until_it_expires(tmp_path: Path, kill: Callable[[int, int], None]) -> None:
    """macOS: whoever has that pid now may be somebody else, but nothing says so."""
    assert not is_dead(of(MAC), me=MAC, proc=tmp_path, kill=kill, platform="darwin")
    assert is_dead(of(MAC), me=MAC, proc=tmp_path, kill=kill, platform="darwin", now=LATER)
    assert is_dead(of(MAC), me=MAC, proc=tmp_path, kill=nobody, platform="darwin")


def test_without_proc_linux_has_namespaces_that_cannot_be_told_apart(tmp_path: Path) -> None:
    assert not is_dead(of(MAC), me=MAC, proc=tmp_path, kill=nobody, platform="linux")
    assert is_dead(of(MAC), me=MAC, proc=tmp_path, kill=nobody, platform="linux", now=LATER)


@pytest.mark.parametrize(("owner", "me"), [(MAC, ME), (ME, MAC)])
def test_a_boot_that_is_not_known_is_no_other_boot(owner: Owner, me: Owner) -> None:
    assert not is_dead(of(owner), me=me, kill=nobody)
    assert is_dead(of(owner), me=me, kill=nobody, now=LATER)


@pytest.mark.parametrize("pid", [1 << 40, 1 << 70])
def test_a_number_that_is_no_pid_proves_nothing(pid: int) -> None:
    assert not is_dead(of(dataclasses.replace(OTHER, pid=pid)))


def test_an_owner_is_written_and_read() -> None:
    assert Owner.parse(str(ME)) == ME
    assert ME.pid == os.getpid()
