"""Policies: only offered options, only the kind asked for unless the note says so, rules joined with announcements."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.acp.policy import Decision, decide, subject
from runner.acp.toolcalls import ToolCall, ToolCalls
from runner.config.policy import BUILTIN, Answer, Policy, Rule

KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")

option_lists = st.lists(
    st.fixed_dictionaries(
        {
            "optionId": st.sampled_from(["allow", "allow-once", "reject", "decline", "cancel", "Abort", "x"])
            | st.text(max_size=3),
            "kind": st.sampled_from([*KINDS, "later_kind"]),
            "name": st.text(max_size=3),
        }
    ),
    max_size=6,
    unique_by=lambda option: option["optionId"],
)


def request(options: list[dict[str, Any]], **call: Any) -> dict[str, Any]:
    return {"sessionId": "s", "toolCall": {"toolCallId": "c", **call}, "options": options}


def options(*pairs: str) -> list[dict[str, Any]]:
    """`id:kind` each."""
    return [dict(zip(("optionId", "kind"), pair.split(":"), strict=True)) for pair in pairs]


def decided(policy: Policy, offered: list[dict[str, Any]], **call: Any) -> Decision:
    return decide(policy, request(offered, **call), {})


@given(st.sampled_from(get_args(Answer)), option_lists)
def test_only_what_was_offered_and_asked_or_said(answer: Any, offered: list[dict[str, Any]]) -> None:
    decision = decided(BUILTIN[answer], offered)
    if decision.outcome == "selected":
        assert {"optionId": decision.option_id, "kind": decision.kind} in [
            {"optionId": option["optionId"], "kind": option["kind"]} for option in offered
        ]
        assert decision.kind == answer or decision.note
    else:
        assert decision.option_id is None
        assert decision.kind is None
        assert decision.outcome == answer or decision.note


@given(st.sampled_from(KINDS), option_lists)
def test_an_allow_never_becomes_a_reject_nor_the_reverse_nor_is_a_grant_widened(
    answer: str, offered: list[dict[str, Any]]
) -> None:
    kind = decided(BUILTIN[answer], offered).kind
    assert kind is None or kind.split("_")[0] == answer.split("_")[0]
    if answer.endswith("_once"):
        assert kind in (None, answer)


@given(st.sampled_from(KINDS), option_lists)
def test_what_is_offered_is_taken(answer: str, offered: list[dict[str, Any]]) -> None:
    if any(option["kind"] == answer for option in offered):
        assert decided(BUILTIN[answer], offered).kind == answer


@pytest.mark.parametrize(
    ("answer", "offered", "chosen", "note"),
    [
        ("allow_once", ["a:allow_always", "b:allow_once", "c:reject_once"], "b", ""),
        ("allow_always", ["a:allow_always", "b:allow_once"], "a", ""),
        ("allow_always", ["b:allow_once", "c:reject_once"], "b", "no allow_always offered, took allow_once"),
        ("allow_always", ["p:allow_always", "u:allow_always"], "p", "2 options of kind allow_always, took p"),
        ("allow_once", ["a:allow_always"], None, "no allow_once offered (offered: allow_always), answered cancelled"),
        ("reject_always", ["r:reject_once"], "r", "no reject_always offered, took reject_once"),
        (
            "reject_once",
            ["n:reject_always"],
            None,
            "no reject_once offered (offered: reject_always), answered cancelled",
        ),
        ("reject_once", ["cancel:reject_once"], "cancel", ""),
        (
            "reject_once",
            ["cancel:reject_once", "decline:reject_once"],
            "decline",
            "2 options of kind reject_once, took decline",
        ),
        ("reject_once", ["turn-Abort:reject_once", "no:reject_once"], "no", "2 options of kind reject_once, took no"),
        (
            "reject_once",
            ["decline:reject_once", "cancel:reject_once"],
            "decline",
            "2 options of kind reject_once, took decline",
        ),
        (
            "reject_once",
            ["cancel:reject_once", "abort:reject_once"],
            "cancel",
            "2 options of kind reject_once, took cancel",
        ),
        ("reject_once", [], None, "no reject_once offered (offered: none), answered cancelled"),
    ],
)
def test_the_choice(answer: str, offered: list[str], chosen: str | None, note: str) -> None:
    decision = decided(BUILTIN[answer], options(*offered))
    assert (decision.option_id, decision.note) == (chosen, note)
    assert decision.outcome == ("selected" if chosen else "cancelled")


def test_cancelled_and_never_choose_nothing() -> None:
    offered = options("a:allow_once")
    assert decided(BUILTIN["cancelled"], offered) == Decision(None, None, "cancelled", 0.0, None)
    assert decided(BUILTIN["never"], offered) == Decision(None, None, "never", 0.0, None)


def test_the_results() -> None:
    assert Decision("allow_once", "yes", "selected", 0, None).result() == {
        "outcome": {"outcome": "selected", "optionId": "yes"}
    }
    assert Decision(None, None, "cancelled", 0, None).result() == {"outcome": {"outcome": "cancelled"}}
    assert Decision(None, None, "never", 0, None).result() is None


def test_the_delay_is_passed_on() -> None:
    policy = Policy(id="slow", answer="never", delay_s=1.5)
    assert decided(policy, []).delay_s == 1.5


RULES = Policy(
    id="rules",
    answer="allow_once",
    rules=[
        Rule(answer="reject_once", kind="execute", command="rm *"),
        Rule(answer="never", path="*/secret/*"),
        Rule(answer="cancelled", kind="edit"),
    ],
)
BOTH = options("y:allow_once", "n:reject_once")


@pytest.mark.parametrize(
    ("call", "outcome", "rule"),
    [
        ({"kind": "execute", "rawInput": {"command": "rm -rf x"}}, ("selected", "n"), 0),
        ({"kind": "execute", "rawInput": {"command": ["rm", "a b"]}}, ("selected", "n"), 0),
        ({"kind": "execute", "rawInput": {"cmd": "rm x"}}, ("selected", "n"), 0),
        ({"kind": "execute", "title": "`rm x`"}, ("selected", "n"), 0),
        ({"kind": "execute", "rawInput": {"command": "ls"}, "title": "rm x"}, ("selected", "y"), None),
        ({"kind": "other", "rawInput": {"command": "rm x"}}, ("selected", "y"), None),
        ({"kind": "edit", "locations": [{"path": "/w/a"}, {"path": "/w/secret/b"}]}, ("never", None), 1),
        ({"rawInput": {"file_path": "/w/secret/b"}}, ("never", None), 1),
        ({"rawInput": {"filePath": "/w/secret/b"}}, ("never", None), 1),
        ({"rawInput": {"path": "/w/secret/b"}}, ("never", None), 1),
        ({"kind": "edit", "locations": [{"path": "/w/a"}]}, ("cancelled", None), 2),
        ({}, ("selected", "y"), None),
        ({"kind": 5, "locations": "x", "rawInput": [], "title": {}}, ("selected", "y"), None),
    ],
)
def test_the_first_rule_that_fits_decides(
    call: dict[str, Any], outcome: tuple[str, str | None], rule: int | None
) -> None:
    decision = decided(RULES, BOTH, **call)
    assert ((decision.outcome, decision.option_id), decision.rule) == (outcome, rule)


def test_a_request_with_only_an_id_is_joined_with_the_announcement() -> None:
    calls = ToolCalls()
    fields = {"toolCallId": "c", "title": "Run", "kind": "execute", "rawInput": {"command": "rm x"}}
    calls.observe("tool_call", "s", {**fields, "locations": [{"path": "/w"}]}, 1)
    decision = decide(RULES, request(BOTH), calls.calls)
    assert (decision.option_id, decision.rule) == ("n", 0)
    assert subject(request(BOTH), calls.calls).paths == ("/w",)


def test_the_request_s_own_words_win_over_the_announcement() -> None:
    known = ToolCall("c", "s", 1, 1, kind="execute", raw_input={"command": "rm x"})
    decision = decide(RULES, request(BOTH, rawInput={"command": "ls"}), {"c": known})
    assert (decision.option_id, decision.rule) == ("y", None)
    assert subject(request(BOTH, kind="read", title="own"), {"c": known}).kind == "read"


def test_another_call_s_announcement_does_not_count() -> None:
    known = ToolCall("other", "s", 1, 1, kind="execute", raw_input={"command": "rm x"})
    assert decide(RULES, request(BOTH), {"other": known}).rule is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["toolCall", "options", "optionId", "kind", "rawInput"]), inner)
        ),
    )
)
def test_no_params_bring_it_down(params: Any) -> None:
    decision = decide(RULES, params if isinstance(params, dict) else {}, {})
    assert decision.outcome in ("selected", "cancelled", "never")


@pytest.mark.parametrize("answer", [*KINDS, "cancelled", "never"])
@pytest.mark.parametrize(
    "offered",
    [
        options("x:allow_once", "x:reject_once"),
        options("x:reject_once", "y:allow_once", "x:allow_always"),
        options("x:allow_once", "x:allow_once", "no:reject_once"),
        options("x:later_kind", "x:allow_once"),
    ],
)
def test_an_id_that_names_two_options_is_never_chosen(answer: Any, offered: list[dict[str, Any]]) -> None:
    decision = decided(BUILTIN[answer], offered)
    assert decision.duplicate == "x"
    assert decision.outcome == ("never" if answer == "never" else "cancelled")
    assert (decision.option_id, decision.kind, decision.note) == (None, None, "")


def test_no_options_and_unknown_kinds_are_answered_cancelled_and_said() -> None:
    assert decided(BUILTIN["allow_once"], []).note == "no allow_once offered (offered: none), answered cancelled"
    unknown = decided(BUILTIN["allow_once"], options("x:allow_for_ever"))
    assert (unknown.outcome, unknown.note) == (
        "cancelled",
        "no allow_once offered (offered: allow_for_ever), answered cancelled",
    )
