"""The reset experiment with an agent on strings: what a kept container carries over; a fresh one carries nothing."""

from __future__ import annotations

import json
from typing import Any

import docker
import pytest

from runner.records.schema import Record
from tests.engine.lab import Lab, attempt, repaired, stderr

pytestmark = [pytest.mark.engine, pytest.mark.long]

MODEL: dict[str, Any] = {"do": "model"}
REPAIR: dict[str, Any] = {"do": "write", "path": "src/semver.js", "text": repaired()}
#: What an agent does when a user says "always": a file of its own in the project, which its user's git then ignores.
GRANT: dict[str, Any] = {
    "do": "shell",
    "command": "ls -A .agent /home/agent/.config; mkdir -p .agent ~/.config/git; echo yes > .agent/grants; "
    "echo '**/.agent/grants' > ~/.config/git/ignore; echo left > left.txt",
}


def sweep(lab: Lab, reset: str, repeat: int = 3, jobs: int = 1) -> list[Record]:
    adapter = lab.puppet("grants", [MODEL, GRANT, REPAIR], state_dirs=[".agent"])
    result, records = lab.sweep(adapter, resets=[reset], repeat=repeat, jobs=jobs)
    assert [record.outcome for record in records] == ["passed"] * repeat, [record.reason for record in records]
    assert result.exit_code == 0
    return sorted(records, key=lambda record: record.replicate)


def found(record: Record) -> list[tuple[str, str]]:
    return [(one.kind, one.path) for one in record.found_at_start if one.kind != "home"]


def test_a_fresh_container_carries_nothing(lab: Lab) -> None:
    records = sweep(lab, "container")
    assert [record.pristine for record in records] == [True] * 3
    assert [record.found_at_start for record in records] == [[]] * 3
    assert len({record.container for record in records}) == 3


def test_clean_fd_keeps_what_the_users_git_ignores(lab: Lab, engine: docker.DockerClient) -> None:
    first, *later = sweep(lab, "git-clean-fd", jobs=2)
    assert (first.pristine, first.found_at_start) == (True, [])
    assert {record.container for record in later} == {first.container}
    for record in later:
        assert record.pristine is False
        assert found(record) == [("ignored", ".agent/grants"), ("state", "/workspace/semver/.agent")]
        assert "/home/agent/.config/git/ignore" in {one.path for one in record.found_at_start}
        failed = {proof.name for proof in record.proofs if not proof.ok}
        assert failed == {"home", "workspace", "state"}
        # The verdict is still about this run alone.
        assert record.verdict is not None
        assert "src/semver.js" in {change.path for change in record.verdict.changes}
    assert not engine.api.containers(all=True, filters={"id": first.container})


def test_clean_fdx_takes_the_project_and_leaves_home(lab: Lab) -> None:
    first, *later = sweep(lab, "git-clean-fdx", repeat=2)
    for record in later:
        assert record.container == first.container
        assert (record.pristine, found(record)) == (False, [])
        assert {one.path for one in record.found_at_start} >= {"/home/agent/.config/git/ignore"}


def test_a_run_in_a_kept_container_has_processes_and_streams_of_its_own(lab: Lab) -> None:
    acts = [MODEL, REPAIR, {"do": "shell", "command": "setsid sleep 4321 >/dev/null 2>&1 </dev/null &"}]
    count = "ps -eo args | grep -cx 'sleep 4321'"
    acts.append({"do": "shell", "command": f"until {count} > /dev/null; do :; done; {count}"})
    result, records = lab.sweep(lab.puppet("again", acts), resets=["git-clean-fd"], repeat=2)
    for record in records:
        assert record.agent is not None
        assert (record.outcome, record.agent.survivors) == ("passed", ["sleep 4321"])
        assert stderr(result, record).splitlines()[-1] == "1"
        assert json.loads((attempt(result, record) / "program.json").read_text())["dialect"] == "anthropic"


def test_a_container_that_broke_is_not_replaced(lab: Lab) -> None:
    """The agent takes the workspace away: the second run cannot start, and says so."""
    acts = [MODEL, REPAIR, {"do": "shell", "command": "test -e ~/once || { touch ~/once; rm -rf .git; }"}]
    _, records = lab.sweep(lab.puppet("broken", acts), resets=["git-clean-fd"], repeat=3, infra_attempts=2)
    one, two, three = sorted(records, key=lambda record: record.replicate)
    assert (one.outcome, two.outcome, three.outcome) == ("passed", "infra", "infra")
    assert "git reset" in two.reason
    assert "lost after run 1" in three.reason
