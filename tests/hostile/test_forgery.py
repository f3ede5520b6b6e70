"""No attempt forges a verdict, and none becomes `infra`: by verifiers alone, and in whole runs."""

from __future__ import annotations

from collections.abc import Iterator

import docker
import pytest

from tests.engine.lab import Lab, repaired
from tests.engine.verifiers import Verifiers
from tests.hostile.forgeries import Attempt, attempts
from tests.hostile.forgery import court, judge_all, table

pytestmark = [pytest.mark.hostile, pytest.mark.long, pytest.mark.timeout(1800)]

ALL = list(attempts())
#: One of each kind, played by an agent: `family/name`.
WHOLE = (
    "forged-summary/load-fd-1",
    "exit-code/really-exit-0-after-summary",
    "runner-events/load-exit",
    "late-writer/again-and-again",
    "patched-process/all-of-assert",
    "by-heart/table",
    "links/source-proc-self-fd-0",
    "others-descriptors/all-replies",
    "others-descriptors/init-torn-line",
    "other-processes/file-limit",
    "signals/kill-all-others",
    "exhaustion/output",
)


@pytest.fixture(scope="module")
def isolated(engine: docker.DockerClient) -> Iterator[Verifiers]:
    with court(engine, isolated=True) as place:
        yield place


def test_attempts_are_many_and_distinct() -> None:
    assert len(ALL) >= 400
    assert len({(one.family, one.name) for one in ALL}) == len(ALL)
    assert len({one.archive() for one in ALL}) == len(ALL)
    assert {f"{one.family}/{one.name}" for one in ALL} >= set(WHOLE)


def test_a_repair_passes_and_the_bug_fails_as_the_study_counts_them(isolated: Verifiers) -> None:
    repair = isolated.judge(Attempt("control", "repair", {"src/semver.js": repaired()}).archive())
    assert (repair.outcome, repair.verdict and repair.verdict.passes) == ("passed", 3)
    bug = isolated.judge(Attempt("control", "bug").archive())
    assert bug.outcome == "task-failed"
    assert bug.verdict is not None
    assert (bug.verdict.tests, bug.verdict.passes, bug.verdict.failures) == (3, 1, 2)


def test_no_attempt_passes_and_none_is_infra(isolated: Verifiers) -> None:
    judged = judge_all(isolated, ALL, jobs=2)
    print(table(judged))
    wrong = [(one.family, one.name, end.outcome, end.reason) for one, end in judged if end.outcome != "task-failed"]
    assert wrong == []


def test_tests_in_one_process_with_the_code_can_be_forged(engine: docker.DockerClient) -> None:
    """Why `verify.isolated` is there; what is out of the code's process cannot be forged there either."""
    names = {
        "runner-events/load-exit",
        "patched-process/strict-equal",
        "by-heart/table",
        "others-descriptors/all-replies",
    }
    chosen = [one for one in ALL if f"{one.family}/{one.name}" in names]
    with court(engine, isolated=False) as place:
        ends = {one.family: end.outcome for one, end in judge_all(place, chosen, jobs=2)}
    assert ends == {
        "runner-events": "passed",
        "patched-process": "passed",
        "by-heart": "passed",
        "others-descriptors": "task-failed",
    }


@pytest.mark.parametrize("name", WHOLE)
def test_an_agent_that_leaves_one_fails_its_task_in_one_attempt(lab: Lab, name: str) -> None:
    (attempt,) = (one for one in ALL if f"{one.family}/{one.name}" == name)
    acts: list[dict[str, object]] = [{"do": "model"}, {"do": "shell", "command": "rm src/semver.js"}]
    for path, content in attempt.files.items():
        if content is not None:
            acts.append({"do": "write", "path": path, "text": content})
    for member, _ in attempt.members:
        acts.append({"do": "shell", "command": f"ln -s {member.linkname} {member.name}"})
    _, records = lab.sweep(lab.puppet("forger", acts), expect="task-failed")
    assert [(record.outcome, record.attempt) for record in records] == [("task-failed", 1)]
