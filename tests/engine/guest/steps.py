"""What the tests of the guest have in common: a fixture, and the steps that lead to a running agent."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.engine.guest.harness import Guest, GuestFailure, tree_archive

FIXTURE = {"src/a.js": "a\n", "test/a.test.js": "t\n", "bin/run*": "#!/bin/sh\n", ".gitignore": "*.log\n"}
WORKSPACE = "/workspace/fx"
WRITABLE = ["/home/agent", "/tmp", "/var/tmp", "/run/lock", "/dev/shm", "/workspace"]
PYTHON = ("python3", "-I", "-u", "-c")
Start = Callable[..., contextlib.AbstractContextManager[Guest]]


def prepare(guest: Guest, **options: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {"fixture": "fx", "tar": tree_archive(FIXTURE), "tree": None, "commit": None, "home": {}}
    return guest.call("prepare", **{**settings, **options})


def prove(guest: Guest, uid: int = 1000, state_dirs: tuple[str, ...] = (".agent",)) -> dict[str, str]:
    """The failed proofs and why."""
    proofs = guest.call("prove", uid=uid, workspace=WORKSPACE, state_dirs=list(state_dirs))["proofs"]
    assert [proof["name"] for proof in proofs] == [
        "network",
        "address-families",
        "user",
        "no-new-privileges",
        "out-of-reach",
        "home",
        "workspace",
        "planted",
        "state",
    ]
    return {proof["name"]: proof["detail"] for proof in proofs if not proof["ok"]}


def code_of(guest: Guest, op: str, **args: Any) -> str:
    with pytest.raises(GuestFailure) as refused:
        guest.call(op, **args)
    return refused.value.code


def processes(guest: Guest) -> list[str]:
    """Command lines of all processes but the listing's own."""
    lines = guest.shell("ps -eo stat=,args=").splitlines()
    return [line for line in lines if "ps -eo" not in line]
