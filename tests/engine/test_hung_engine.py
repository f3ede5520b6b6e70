"""An engine call that is never answered ends the attempt as `infra`, in bounded time; another attempt may pass."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import runner.sandbox.engine
from runner.sandbox.engine import endpoints
from tests.engine.hanging import hanging
from tests.engine.lab import Lab, repaired

pytestmark = [pytest.mark.engine, pytest.mark.long]

ACTS = [{"do": "model"}, {"do": "write", "path": "src/semver.js", "text": repaired()}]
#: The first call of a run.
AGENT = "POST .*/containers/create[?]name=.*-agent "
#: What hangs -> what the run says of it.
CALLS = {
    AGENT: "create a container",
    "POST .*/start ": "start a container",
    "POST .*/attach[?]": "attach to a container",
    "POST .*/exec ": "open a channel into a container",
    "DELETE .*/containers/": "remove a container",
}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are given up after seconds, not after a minute."""
    monkeypatch.setattr(runner.sandbox.engine, "CALL_S", 3)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.usefixtures("impatient")
def test_a_call_that_hangs_is_infra_and_the_next_attempt_stands(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    real = next(one.url for one in endpoints(os.environ, Path.home()) if Path(one.url.removeprefix("unix://")).exists())
    adapter = lab.puppet("patient", ACTS)
    with hanging(real.removeprefix("unix://"), tmp_path / "engine.sock", call, AGENT) as hung:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/engine.sock")
        result, records = lab.sweep(adapter, infra_attempts=2)
    assert len(hung) == 1
    first, second = records
    assert (first.outcome, second.outcome, result.exit_code) == ("infra", "passed", 0)
    assert first.reason.startswith(CALLS[call])
    assert "timed out" in first.reason.lower()
