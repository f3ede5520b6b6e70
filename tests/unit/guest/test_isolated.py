from __future__ import annotations

import base64
from pathlib import Path

import pytest

from runner.guest import verify
from runner.guest.channel import OpError
from runner.guest.fixture import Layout
from runner.guest.isolated import PlaceOfTests
from tests.unit.guest.recorder import Recorder, files_tar


def test_the_tests_environment_is_their_own() -> None:
    code = {"PATH": "/bin", "HOME": "/home/agent", "TMPDIR": "/home/agent/tmp", "USER": "agent", "TZ": "UTC"}
    assert PlaceOfTests("/apart").environment(code, "/workspace/fx") == {
        "PATH": "/bin",
        "TZ": "UTC",
        "HOME": "/apart/home",
        "TMPDIR": "/apart/home",
        "USER": "tests",
        "LOGNAME": "tests",
        "ACPBENCH_RUN_CODE": "/apart/run-code",
        "ACPBENCH_WORKSPACE": "/workspace/fx",
    }


def test_a_guest_that_cannot_keep_them_apart_runs_no_tests(tmp_path: Path) -> None:
    for name in ("workspace", "home"):
        (tmp_path / name).mkdir()
    layout = Layout(str(tmp_path / "workspace"), str(tmp_path / "home"), str(tmp_path / "apart"))
    request = Recorder().request(
        fixture="fx",
        tar=base64.b64encode(files_tar({"a": "a"})).decode(),
        agent_tar=base64.b64encode(files_tar({"a": "a"})).decode(),
        tests=base64.b64encode(files_tar({"test.sh": "exit 0"})).decode(),
        protected=[],
        command=["touch", str(tmp_path / "ran")],
        env={"PATH": "/usr/bin:/bin"},
        timeout_s=20,
    )
    with pytest.raises(OpError) as refused:
        verify.verify(request, layout)
    assert refused.value.code == "not_root"
    assert not (tmp_path / "ran").exists()
