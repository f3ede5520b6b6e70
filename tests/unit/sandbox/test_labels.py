"""Who may be reaped: dead owners of ours, and nobody else."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import time

import pytest

from runner.sandbox.labels import LABEL, Owner, is_dead, labels

ME = Owner.me()


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


def test_an_owner_is_written_and_read() -> None:
    assert Owner.parse(str(ME)) == ME
    assert ME.pid == os.getpid()
