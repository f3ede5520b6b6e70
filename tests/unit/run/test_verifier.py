"""Reading the verifier's reply: every reason for a fail, and what the code under test prints changes nothing."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient

from runner.config.catalog import Catalog
from runner.config.fixture import Fixture, Verify, VerifyLimits
from runner.errors import InfraError
from runner.run.verifier import Verifier, findings_of, verdict_of, verifier_spec
from runner.sandbox.channel import GuestBroken, GuestGone, GuestSilent
from runner.sandbox.container import ENDED_WELL, GUEST_RESERVE_MB, OUT_OF_MEMORY, Spec

TAP = "TAP version 13\nok 1 - a\n1..3\n# tests 3\n# suites 0\n# pass {passes}\n# fail {fails}\n# cancelled 0\n"
VERIFY = Verify(command=["node", "--test"], parser="node-test", tests=3, protected=["test"])


def reply(**changed: Any) -> dict[str, Any]:
    whole = {
        "changes": [],
        "output": TAP.format(passes=3, fails=0),
        "timed_out": False,
        "exit_code": 0,
        "test_ms": 12.5,
        "status": "",
    }
    return {**whole, **changed}


def test_all_tests_pass() -> None:
    verdict = verdict_of(VERIFY, reply())
    assert verdict.passed
    assert (verdict.tests, verdict.passes, verdict.failures, verdict.duration_ms) == (3, 3, 0, 12.5)
    assert verdict.reason == ""


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"output": TAP.format(passes=1, fails=2), "exit_code": 1}, "1 of 3 tests pass"),
        ({"output": "# tests 1\n# pass 1\n# fail 0\n"}, "1 tests ran, 3 are expected"),
        ({"output": ""}, "0 tests ran"),
        ({"output": "# tests 3\n# pass " + "3" * 5000 + "\n# fail 0\n"}, "0 of 3 tests pass"),
        ({"exit_code": 7}, "exits 7"),
        ({"timed_out": True, "exit_code": None}, "did not end within 60 s (verify.timeout_s)"),
        ({"limits": ["memory"], "exit_code": 137}, "ran out of memory (verify.limits.memory_mb: 2048)"),
        ({"limits": ["pids"], "exit_code": 1}, "limit of processes (verify.limits.pids: 512)"),
        ({"limits": ["disk"], "exit_code": 137}, "filled its disk (verify.limits.disk_mb: 1024)"),
        # A part of the tests may have been killed without a word: a pass is not proved.
        ({"limits": ["memory"]}, "ran out of memory"),
    ],
)
def test_every_way_to_fail_is_named(changed: dict[str, Any], words: str) -> None:
    verdict = verdict_of(VERIFY, reply(**changed))
    assert not verdict.passed
    assert words in verdict.reason


def test_a_protected_change_fails_even_if_all_tests_pass() -> None:
    change = {"path": "test/semver.test.js", "status": "M", "before": "a", "after": "b", "protected": True}
    verdict = verdict_of(VERIFY, reply(changes=[change]))
    assert not verdict.passed
    assert "test/semver.test.js" in verdict.reason


def test_a_summary_printed_by_the_code_under_test_is_not_the_runner_s() -> None:
    forged = "# tests 3\n# pass 3\n# fail 0\n" + TAP.format(passes=1, fails=2)
    assert not verdict_of(VERIFY, reply(output=forged, exit_code=1)).passed


def test_exit_code_alone() -> None:
    verify = Verify(command=["true"], parser="exit-code")
    assert verdict_of(verify, reply(output="")).passed
    assert not verdict_of(verify, reply(output="", exit_code=1)).passed


def test_a_limit_is_named_before_what_came_of_it_and_is_a_finding() -> None:
    fixture = Catalog(Path(__file__).parents[3]).fixture("semver")
    told = reply(limits=["memory"], output="", exit_code=137)
    assert verdict_of(VERIFY, told).reason.startswith(
        "the verifier ran out of memory (verify.limits.memory_mb: 2048); "
    )
    (finding,) = findings_of(told, fixture)
    assert finding.id == "verifier-limit"
    assert "verify.limits.memory_mb: 2048" in finding.message
    assert findings_of(reply(), fixture) == []


def test_what_the_verdict_or_its_patch_lacks_is_a_finding() -> None:
    fixture = Catalog(Path(__file__).parents[3]).fixture("semver")
    skipped = [{"path": f"p{number}", "reason": "a link to nowhere"} for number in range(5)]
    found = findings_of(reply(patch_cut=True, skipped=skipped, changes_cut=7), fixture)
    assert [finding.id for finding in found] == ["patch-cut", "verify-skipped", "changes-cut"]
    assert found[1].message.endswith("p2 (a link to nowhere) and 2 more")


def test_the_container_s_limits_are_the_fixture_s() -> None:
    limits = VerifyLimits(memory_mb=300, cpus=0.5, pids=64)
    spec = verifier_spec(limits, name="v", image="i", labels={}, guest_volume="g")
    assert (spec.memory_bytes, spec.cpus, spec.pids, spec.network) == (
        (300 + GUEST_RESERVE_MB) * 10**6,
        0.5,
        64,
        "none",
    )


class Lost:
    """A verifier's channel and container: the tests begin (or not), then `problem`; how the container ended."""

    def __init__(self, verifier: Verifier, problem: Exception, how: str | None, begun: bool) -> None:
        self._verifier, self._problem, self._how, self._begun = verifier, problem, how, begun

    def verify(self, *_: Any, **__: Any) -> dict[str, Any]:
        if self._begun:
            self._verifier._hear({"event": "testing"})
        raise self._problem

    def ending(self, _within_s: float) -> str | None:
        return self._how


def lost(problem: Exception, how: str | None, *, begun: bool = True) -> Verifier:
    verifier = Verifier(
        DockerClient(base_url="tcp://127.0.0.1:1", version="1.41"), Spec("v", "i", [], {}, {}), nullcontext()
    )
    ends: Any = Lost(verifier, problem, how, begun)
    verifier._guest = verifier._container = ends
    return verifier


FIXTURE = Fixture(id="f", title="t", tree="0" * 40, commit="0" * 40, prompt="p", verify=VERIFY)
GONE, BROKEN = GuestGone("the guest is gone"), GuestBroken("the guest's channel broke: no message")


@pytest.mark.parametrize(
    ("problem", "how", "words"),
    [(GONE, OUT_OF_MEMORY, "out of memory"), (GONE, "exit code 137", "137"), (BROKEN, None, "channel broke")],
)
def test_tests_that_end_their_verifier_have_failed(problem: Exception, how: str | None, words: str) -> None:
    judged = lost(problem, how).verify(FIXTURE, b"", "", 1)
    assert not judged.verdict.passed
    assert words in judged.verdict.reason
    assert [finding.id for finding in judged.findings] == ["verifier-ended"]


@pytest.mark.parametrize(
    ("problem", "how", "begun"),
    [
        (GONE, OUT_OF_MEMORY, False),  # before they began
        (GONE, None, True),  # the container runs
        (GONE, ENDED_WELL, True),  # its channel ended first
        (GuestSilent("no answer"), "exit code 137", True),
    ],
)
def test_a_verifier_that_is_lost_otherwise_is_our_fault(problem: Exception, how: str | None, begun: bool) -> None:
    with pytest.raises(InfraError):
        lost(problem, how, begun=begun).verify(FIXTURE, b"", "", 1)
