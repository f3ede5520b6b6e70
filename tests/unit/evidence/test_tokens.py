from __future__ import annotations

from typing import Any

import pytest

from runner.evidence.tokens import Reported, reported, served
from runner.surfaces.cli_parsers import CliResult, CliUsage
from tests.unit.evidence.builders import Log, entry

REAL = {
    "inputTokens": 5010,
    "outputTokens": 250,
    "cachedReadTokens": 100,
    "cachedWriteTokens": 50,
    "totalTokens": 5410,
}


def turn(usage: Any) -> Log:
    log = Log()
    return log.end(log.prompt(), usage=usage)


@pytest.mark.parametrize(
    ("usage", "total"),
    [
        (REAL, 5410),
        (REAL | {"totalTokens": 5411}, 5411),
        ({key: REAL[key] for key in REAL if key != "totalTokens"}, 5410),
        ({"inputTokens": 10, "outputTokens": 3, "cachedReadTokens": None}, 13),
        ({"inputTokens": 0, "outputTokens": 0}, 0),
    ],
)
def test_a_prompt_responses_usage(usage: Any, total: int) -> None:
    assert reported(turn(usage).messages, None) == Reported(total, "prompt-response")


@pytest.mark.parametrize("usage", [None, {}, "many", {"totalTokens": "5410"}])
def test_an_agent_that_reports_nothing(usage: Any) -> None:
    assert reported(turn(usage).messages, None) is None


def test_a_usage_update_is_no_report() -> None:
    log = Log()
    prompt = log.prompt()
    log.usage(1084).end(prompt)
    assert reported(log.messages, None) is None


def test_turns_add_up() -> None:
    log = turn(REAL)
    log.end(log.prompt(), usage={"totalTokens": 90})
    assert reported(log.messages, None) == Reported(5500, "prompt-response")


def test_one_silent_turn_makes_the_sum_unknown() -> None:
    log = turn(REAL)
    log.end(log.prompt())
    assert reported(log.messages, None) is None


def test_a_cli_reports_for_itself() -> None:
    usage = CliUsage(input=5010, output=250, cached_read=100, cached_write=50)
    assert reported([], CliResult("a-parser", usage=usage)) == Reported(5410, "cli-result")
    assert reported(turn(REAL).messages, CliResult("a-parser")) is None


def test_served_counts_main_requests_only() -> None:
    entries = [entry(0, 1), entry(2, 3, usage=(1001, 50), seq=1), entry(4, 5, kind="side"), entry(6, 7, usage=None)]
    assert served(entries) == 2101
    assert served([entry(0, 1, kind="side")]) is None
    assert served([]) is None
