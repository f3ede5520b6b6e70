"""What the gateway's ledger says about a run."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.config.knobs import Knobs
from runner.errors import InfraError
from runner.gateway.container import MASK, masked
from runner.gateway.journal import (
    JournalEntry,
    LoggedEntries,
    parse_journal,
    script_problems,
    skipped_steps,
    spans,
    unserved_steps,
)
from runner.gateway.limits import GATEWAY_LIMIT, limit_findings, limits_of

PROGRAM: dict[str, Any] = {
    "steps": [
        {"index": 0, "say": None, "think": None, "calls": [{"meaning": "read"}, {"meaning": "run"}]},
        {"index": 1, "say": None, "think": None, "calls": [{"meaning": "edit"}]},
        {"index": 2, "say": "done", "think": None, "calls": []},
    ]
}


def line(**changed: Any) -> dict[str, Any]:
    return {
        "seq": 0,
        "run": "<run>",
        "kind": "main",
        "rule": None,
        "step": 0,
        "subagent": None,
        "skipped": [{"step": 3, "reason": "step 0 came to ok, not failed"}],
        "fault": None,
        "attempt": 2,
        "method": "POST",
        "path": "/v1/messages",
        "t_request_ns": 9_100_000_000_000_000_001,
        "t_request_end_ns": 9_100_000_000_000_000_002,
        "t_first_byte_ns": 9_100_000_000_000_000_003,
        "t_response_end_ns": 9_100_000_000_000_000_004,
        "status": 200,
        "model": "some-model",
        "stream": True,
        "tools": ["Read"],
        "calls": [
            {
                "id": "call_p1s000x0",
                "tool": "Read",
                "arguments": {"file_path": "/a"},
                "meaning": "read",
                "freeform": False,
            }
        ],
        "usage": {"input": 10, "output": 2, "cache_read": 4, "cache_write": 1, "reasoning": 1},
        "reason": None,
        "nearest": None,
        "limit": None,
        "canaries": [],
        "request": {"headers": {"x-api-key": "***"}, "body": "{}", "length": 2, "sha256": None, "cut": False},
        "response": {"headers": {}, "body": "event: é\u2028", "length": 12, "sha256": None, "cut": False},
        "tape": None,
        "aborted": False,
        **changed,
    }


def entry(**changed: Any) -> JournalEntry:
    return JournalEntry.model_validate(line(**changed))


def encoded(*lines: dict[str, Any]) -> list[bytes]:
    return [json.dumps(one, ensure_ascii=False).encode() for one in lines]


def test_lines_become_entries_in_order_of_arrival_and_lose_nothing() -> None:
    lines = [line(seq=1, step=1), line(seq=0)]
    found = parse_journal([*encoded(*lines), b"\n", b""])
    assert [one.model_dump() for one in found] == [lines[1], lines[0]]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (b'{"seq": 1', "line 2: the line"),
        (encoded(line(kind="other"))[0], "line 2: kind"),
        (encoded(line(usage={"input": 1, "output": 1, "cached": 3}))[0], "line 2: usage.cached"),
        (encoded({key: value for key, value in line().items() if key != "status"})[0], "line 2: status"),
    ],
)
def test_a_line_that_is_no_entry_is_infra(bad: bytes, says: str) -> None:
    with pytest.raises(InfraError, match=says):
        parse_journal([*encoded(line()), bad])


def test_a_file_is_read_in_order_of_arrival_and_gives_all_there_is(tmp_path: Path) -> None:
    path = tmp_path / "model.jsonl"
    lines = [line(seq=2), line(seq=0), line(seq=1, path="/v1/models")]
    path.write_bytes(b"\n".join(encoded(*lines)) + b"\n\n")
    assert [one.model_dump() for one in LoggedEntries(path)] == [lines[1], lines[2], lines[0]]
    path.write_bytes(b"\n".join(encoded(line(), line())) + b'\n{"seq": 1')
    with pytest.raises(InfraError, match="model journal, line 3: the line"):
        list(LoggedEntries(path))


def test_what_may_be_large_is_left_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "model.jsonl"
    tape = {"version": 2, "request": {"body": "x"}, "hashed": {"a": "b"}, "chunks": [[1.0, "x"]], "drift": ["system"]}
    path.write_bytes(encoded(line(tape=tape))[0] + b"\n")
    (bare,) = LoggedEntries(path).bare()
    whole = entry(tape=tape)
    assert (bare.request.body, bare.response.body) == (None, None)
    assert (bare.request.size, bare.response.size) == (2, 12)
    assert bare.calls[0].arguments == ""
    assert bare.tape is not None
    assert (bare.tape.request, bare.tape.chunks, bare.tape.drift) == (None, [], ["system"])
    kept = ("seq", "kind", "step", "status", "model", "tools", "usage", "t_request_ns", "t_response_end_ns", "aborted")
    assert [getattr(bare, name) for name in kept] == [getattr(whole, name) for name in kept]
    assert bare.calls[0].id == whole.calls[0].id
    assert [call.tool for call in whole.without_bodies().calls] == ["Read"]
    assert whole.without_bodies().request.size == 2


def test_names_of_tools_are_held_once_and_not_without_end(tmp_path: Path) -> None:
    path = tmp_path / "model.jsonl"
    offered = [[f"tool{number}-{n}" for n in range(500)] for number in range(10)]
    path.write_bytes(b"\n".join(encoded(*(line(seq=n, tools=tools) for n, tools in enumerate([*offered, offered[0]])))))
    bare = LoggedEntries(path).bare()
    assert [len(one.tools) for one in bare] == [500] * 4 + [0] * 6 + [500]
    assert bare[0].tools[7] is bare[-1].tools[7]
    assert [len(one.tools) for one in LoggedEntries(path)] == [500] * 11


def test_journals_of_older_gateways_are_read() -> None:
    old = line(request={"headers": {}, "body": "é"}, response={"headers": {}, "body": ""})
    del old["limit"], old["canaries"]
    (found,) = parse_journal(encoded(old))
    assert (found.limit, found.request.size, found.response.size, found.request.cut) == (None, 2, 0, False)


def test_each_bound_is_one_finding() -> None:
    over = [entry(seq=n, kind="refused", status=413, limit="request-bytes", reason=f"{n} bytes") for n in range(3, 9)]
    late = entry(seq=1, kind="refused", status=408, limit="body-time", reason="late")
    other = entry(seq=0, kind="refused", status=404, limit="unnamed", reason="unknown run")
    assert [(one.id, one.message) for one in limit_findings([other, late, *over, entry(seq=20)])] == [
        (GATEWAY_LIMIT, "body-time: 1 requests to the model, the first of them number 1: late"),
        (GATEWAY_LIMIT, "request-bytes: 6 requests to the model, the first of them number 3: 3 bytes"),
    ]


def test_the_knobs_are_bounds_of_the_gateway() -> None:
    limits = limits_of(Knobs(model_request_mb=3, model_cap_mb=5))
    assert limits == {"request_bytes": 3_000_000, "journal_bytes": 5_000_000}


@given(st.lists(st.binary(max_size=6), max_size=12), st.binary(min_size=1, max_size=4))
def test_a_token_is_masked_across_the_ends_of_pieces(pieces: list[bytes], token: bytes) -> None:
    token = b"\xff" + token.replace(b"\xff", b"")
    spread = [part for piece in pieces for part in (piece.replace(b"\xff", b""), token[:1], token[1:])]
    whole = b"".join(spread)
    assert b"".join(masked(spread, token)) == whole.replace(token, MASK.encode())


def test_a_script_played_to_its_end_has_no_problem() -> None:
    retried = [entry(seq=n, step=step) for n, step in enumerate([0, 0, 1, 2])]
    side = entry(seq=4, kind="side", rule="title", step=None)
    refused = entry(seq=5, kind="refused", step=None, status=404, reason="not a path")
    assert script_problems([*retried, side, refused], PROGRAM) == []


def test_steps_left_are_named_with_the_last_one_served() -> None:
    assert unserved_steps([entry(step=0)], PROGRAM["steps"]) == [1, 2]
    assert script_problems([entry(step=0)], PROGRAM) == [
        "2 of 3 steps were not asked for: 1 (edit), 2 (say); nearest: the last one served is step 0"
    ]
    assert script_problems([], PROGRAM) == [
        "3 of 3 steps were not asked for: 0 (read + run), 1 (edit), 2 (say); nearest: no step was served at all"
    ]


def test_steps_after_a_stop_are_skipped_but_a_miss_stays_one() -> None:
    miss = entry(kind="miss", step=None, status=400, reason="offers none of Edit", nearest="offered: Write")
    assert script_problems([entry(step=0)], PROGRAM, stopped="rejected") == []
    assert script_problems([entry(step=0), miss], PROGRAM, stopped="rejected") == [
        "request 0 (POST /v1/messages): offers none of Edit; nearest: offered: Write"
    ]


def branching() -> dict[str, Any]:
    """A call; if it was rejected, a word that ends the turn; else a call and a last word."""
    call = {"meaning": "run", "alternatives": []}
    when = {"outcome": "rejected", "matches": None, "lacks": None, "step": None}
    shapes: list[tuple[dict[str, Any] | None, list[Any]]] = [(None, [call]), (when, []), (None, [call]), (None, [])]
    steps = [
        {"index": n, "say": "x", "when": when, "calls": calls, "finish": "tool_use" if calls else "end_turn"}
        for n, (when, calls) in enumerate(shapes)
    ]
    return {"steps": steps}


def test_steps_passed_over_and_those_behind_a_branchs_end_are_skipped_with_the_reason() -> None:
    passed = {"step": 1, "reason": "step 0 came to ok, not rejected"}
    whole = [entry(seq=0), entry(seq=1, step=2, skipped=[passed]), entry(seq=2, step=3, skipped=[])]
    assert skipped_steps(whole, branching()["steps"]) == {1: "step 0 came to ok, not rejected"}
    assert script_problems(whole, branching()) == []
    ended = [entry(seq=0, skipped=[]), entry(seq=1, step=1, skipped=[])]
    assert skipped_steps(ended, branching()["steps"]) == {2: "step 1 ended the turn", 3: "step 1 ended the turn"}
    assert script_problems(ended, branching()) == []
    # an agent that stopped by itself
    stopped = [entry(seq=0, skipped=[]), entry(seq=1, step=2, skipped=[passed])]
    assert script_problems(stopped, branching()) == [
        "1 of 4 steps were not asked for: 3 (say); nearest: the last one served is step 2"
    ]


def test_what_comes_after_a_fault_that_the_agent_gave_up_is_skipped() -> None:
    fault = entry(seq=1, step=1, kind="fault", fault="rate-limit", attempt=1, status=429, skipped=[])
    again = entry(seq=2, step=1, kind="fault", fault="rate-limit", attempt=2, status=429, skipped=[])
    gave_up = "the agent gave up step 1 after 2 failed request(s)"
    assert skipped_steps([entry(seq=0, skipped=[]), fault, again], PROGRAM["steps"]) == {1: gave_up, 2: gave_up}
    recovered = [entry(seq=0, skipped=[]), fault, entry(seq=2, step=1, attempt=2, skipped=[])]
    assert script_problems(recovered, PROGRAM) == [
        "1 of 3 steps were not asked for: 2 (say); nearest: the last one served is step 1"
    ]


def test_a_miss_without_a_candidate_says_so_by_silence() -> None:
    played = [entry(seq=n, step=n) for n in range(3)]
    miss = entry(seq=3, kind="miss", step=None, status=400, reason="the request's body is not a JSON object")
    assert script_problems([*played, miss], PROGRAM) == [
        "request 3 (POST /v1/messages): the request's body is not a JSON object"
    ]


def test_spans_count_only_the_kinds_asked_for_from_the_last_request_byte() -> None:
    entries = [
        entry(kind="main", t_request_ns=0, t_request_end_ns=10, t_response_end_ns=20),
        entry(kind="side", step=None, t_request_ns=0, t_request_end_ns=15, t_response_end_ns=30),
        entry(kind="miss", step=None, t_request_ns=0, t_request_end_ns=40, t_response_end_ns=50),
    ]
    assert spans(entries, ("main",)) == [(10, 20)]
    assert spans(entries, ("main", "side")) == [(10, 30)]
    assert spans(entries, ("main", "miss")) == [(10, 20), (40, 50)]
    assert spans([], ("main",)) == []


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12))
def test_spans_are_the_union(intervals: list[tuple[int, int]]) -> None:
    entries = [entry(t_request_end_ns=start, t_response_end_ns=start + length) for start, length in intervals]
    found = spans(entries, ("main",))
    assert found == sorted(found)
    assert all(left[1] < right[0] for left, right in pairwise(found))
    covered = {tick for start, length in intervals for tick in range(start, start + length)}
    assert {tick for start, end in found for tick in range(start, end)} == covered


def test_a_sub_agents_steps_are_counted_apart() -> None:
    part = {"name": "subagent-0", "marker": "m", "steps": PROGRAM["steps"][:2]}
    program = {**PROGRAM, "subagents": [part]}
    main = [entry(seq=n, step=n) for n in range(3)]
    assert script_problems([*main, entry(seq=3, step=1, subagent="subagent-0")], program) == [
        "subagent-0: 1 of 2 steps were not asked for: 0 (read + run); nearest: the last one served is step 1"
    ]
    assert script_problems([*main, *(entry(step=n, subagent="subagent-0") for n in range(2))], program) == []
