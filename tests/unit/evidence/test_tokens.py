from __future__ import annotations

from typing import Any

import pytest

from runner.evidence.conversation import Conversation
from runner.evidence.tokens import Reported, bad_numbers, reported, served
from runner.surfaces.cli.parsers import CliResult, CliUsage
from tests.unit.evidence.conversations import Log, entry

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
    assert reported(turn(usage).conversation, None) == Reported(total, "prompt-response")


@pytest.mark.parametrize("usage", [None, {}, "many", {"totalTokens": "5410"}])
def test_an_agent_that_reports_nothing(usage: Any) -> None:
    assert reported(turn(usage).conversation, None) is None


def test_a_usage_update_is_no_report() -> None:
    log = Log()
    prompt = log.prompt()
    log.usage(1084).end(prompt)
    assert reported(log.conversation, None) is None


def test_turns_add_up() -> None:
    log = turn(REAL)
    log.end(log.prompt(), usage={"totalTokens": 90})
    assert reported(log.conversation, None) == Reported(5500, "prompt-response")


def test_one_silent_turn_makes_the_sum_unknown() -> None:
    log = turn(REAL)
    log.end(log.prompt())
    assert reported(log.conversation, None) is None


def test_a_cli_reports_for_itself() -> None:
    usage = CliUsage(input=5010, output=250, cached_read=100, cached_write=50)
    assert reported(Conversation(), CliResult("a-parser", usage=usage)) == Reported(5410, "cli-result")
    assert reported(turn(REAL).conversation, CliResult("a-parser")) is None


def test_served_counts_main_requests_only() -> None:
    entries = [entry(0, 1), entry(2, 3, usage=(1001, 50), seq=1), entry(4, 5, kind="side"), entry(6, 7, usage=None)]
    assert served(entries) == 2101
    assert served([entry(0, 1, kind="side")]) is None
    assert served([]) is None


@pytest.mark.parametrize(
    ("usage", "words"),
    [
        ({"totalTokens": float("inf")}, "usage.totalTokens: inf is out of range"),
        ({"totalTokens": 2**64}, "usage.totalTokens: 18446744073709551616 is out of range"),
        ({"totalTokens": 5, "inputTokens": -1}, "usage.inputTokens: -1 is negative"),
        ({"totalTokens": "5"}, "usage.totalTokens: the text '5' in place of a number"),
        ({"totalTokens": True}, "usage.totalTokens: a boolean in place of a number"),
        ({"totalTokens": 1.5}, "usage.totalTokens: 1.5 is no whole number"),
        ({"inputTokens": 2**53 - 1, "outputTokens": 1}, "usage: the sum is out of range"),
        ({"inputTokens": 10**4299, "outputTokens": 10**4299}, "usage.inputTokens: 1e4299 or so is out of range"),
    ],
)
def test_what_is_no_count_is_a_finding_and_no_figure(usage: Any, words: str) -> None:
    messages = turn(usage).conversation
    assert reported(messages, None) is None
    first = bad_numbers(messages)[0]
    assert (first.id, first.message, first.seq) == ("bad-number", f"session/prompt: {words}", 1)


def test_a_sum_over_turns_is_bounded() -> None:
    log = turn({"totalTokens": 2**53 - 1})
    log.end(log.prompt(), usage={"totalTokens": 1})
    assert reported(log.conversation, None) is None
    assert [one.message for one in bad_numbers(log.conversation)] == ["the turns' usage: the sum is out of range"]


def test_numbers_beside_the_counts_and_of_usage_updates() -> None:
    log = Log().initialize()
    prompt = log.prompt()
    log.update("usage_update", used=-1, size=1e999, cost={"amount": -0.5, "currency": "USD"}, _meta={"n": 10**400})
    log.usage(5).end(prompt, usage=REAL | {"_meta": {"n": 1e999}})
    assert [one.message for one in bad_numbers(log.conversation)] == [
        "session/prompt: result.usage._meta.n: inf is out of range",
        "usage_update: used: -1 is negative",
        "usage_update: size: inf is out of range",
        "usage_update: cost.amount: -0.5 is negative",
        "usage_update: update._meta.n: 1e400 or so is out of range",
    ]
    assert reported(log.conversation, None) == Reported(5410, "prompt-response")


def test_a_run_whose_numbers_are_numbers_has_no_such_finding() -> None:
    log = Log().initialize().session()
    prompt = log.prompt()
    log.usage(1000).end(prompt, usage=REAL)
    assert bad_numbers(log.conversation) == []


def test_findings_of_a_flood_are_bounded() -> None:
    log = Log()
    prompt = log.prompt()
    for _ in range(1000):
        log.usage(-1)
    assert len(bad_numbers(log.end(prompt).conversation)) == 100
