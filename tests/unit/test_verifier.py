"""Reading the verifier's reply: every reason for a fail, and what the code under test prints changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from runner.config.fixture import Verify
from runner.verifier import verdict_of

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
        ({"timed_out": True, "exit_code": None}, "did not end within 60 s"),
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
