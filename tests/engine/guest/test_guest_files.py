"""fs/*: files that are served for the agent."""

from __future__ import annotations

import contextlib

import pytest

from tests.engine.guest.harness import Guest, GuestFailure
from tests.engine.guest.steps import PYTHON, WORKSPACE, code_of

pytestmark = pytest.mark.engine


def test_files_are_served_with_the_agent_s_uid(prepared: Guest) -> None:
    prepared.go("sleep", "60")
    path = f"{WORKSPACE}/new/file.txt"
    wrote = prepared.call("fs.write", path=path, roots=[WORKSPACE], content="ä\n")
    assert wrote["before"] is None
    assert prepared.call("fs.read", path=path, roots=[WORKSPACE]) | {"id": 0} == {
        "id": 0, "ok": True, "content": "ä\n", "size": 3,
    }  # fmt: skip
    assert prepared.shell(f"stat -c '%u %a' {path}; git hash-object {path}").split() == ["1000", "644", wrote["after"]]
    prepared.shell("touch /tmp/root; chmod 600 /tmp/root", user="0:0")
    assert code_of(prepared, "fs.read", path="/tmp/root", roots=["/tmp"]) == "denied"
    assert code_of(prepared, "fs.read", path="/etc/passwd", roots=[WORKSPACE]) == "denied"
    assert code_of(prepared, "fs.read", path=f"{WORKSPACE}/none", roots=[WORKSPACE]) == "not_found"


def test_the_kernel_s_own_confinement_is_there(prepared: Guest) -> None:
    line = "import sys; sys.path.append('/acpbench'); from guest import confine; print(confine.HAS_OPENAT2)"
    assert prepared.shell(f'python3 -I -c "{line}"') == "True\n"


SWAP = """
import os
os.makedirs("real", exist_ok=True)
os.makedirs("/tmp/out", exist_ok=True)
open("real/f", "w").write("inside")
open("/tmp/out/f", "w").write("outside")
print("up", flush=True)
while True:
    for target in ("real", "/tmp/out", "../../tmp/out", "real"):
        os.symlink(target, "next")
        os.rename("next", "swap")
"""


def test_an_agent_that_swaps_links_gets_nothing_in_or_out(prepared: Guest) -> None:
    prepared.go(*PYTHON, SWAP, cwd=WORKSPACE)
    assert prepared.stdio is not None
    prepared.stdio.wait_for(b"up")
    seen = set()
    for _ in range(400):
        with contextlib.suppress(GuestFailure):
            seen.add(prepared.call("fs.read", path=f"{WORKSPACE}/swap/f", roots=[WORKSPACE])["content"])
        with contextlib.suppress(GuestFailure):
            prepared.call("fs.write", path=f"{WORKSPACE}/swap/f", roots=[WORKSPACE], content="inside")
            seen.add("written")
    assert seen == {"inside", "written"}
    assert prepared.shell("cat /tmp/out/f") == "outside"
