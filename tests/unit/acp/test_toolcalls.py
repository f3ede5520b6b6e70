"""Tool calls coalesced by id: what is kept, what is out of order, and the bounds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.acp.toolcalls import RANK, Source, ToolCalls


def seen(calls: ToolCalls, source: Source, seq: int = 1, **fields: Any) -> list[str]:
    found = calls.observe(source, "s", {"toolCallId": "c", **fields}, seq)
    assert all(finding.seq == seq for finding in found)
    return [finding.id for finding in found]


def test_a_call_in_good_order() -> None:
    calls = ToolCalls()
    assert seen(calls, "tool_call", 1, title="Run", kind="execute", status="pending", rawInput={"command": "ls"}) == []
    assert seen(calls, "permission", 2) == []
    assert seen(calls, "tool_call_update", 3, status="in_progress", locations=[{"path": "/x"}]) == []
    content = [{"type": "content"}, {"type": "diff", "path": "/x"}]
    assert seen(calls, "tool_call_update", 4, status="completed", title=None, rawInput=None, content=content) == []
    call = calls.calls["c"]
    assert (call.title, call.kind, call.status, call.final) == ("Run", "execute", "completed", True)
    assert call.statuses == ["pending", "in_progress", "completed"]
    assert call.content_types == {"content", "diff"}
    assert call.raw_input == {"command": "ls"}
    assert call.locations == [{"path": "/x"}]
    assert (call.first_seq, call.last_seq, call.announced, call.asks, call.session_id) == (1, 4, True, 1, "s")
    assert calls.finish() == []


def test_an_update_without_an_announcement_is_told_once() -> None:
    calls = ToolCalls()
    assert seen(calls, "tool_call_update", status="pending") == ["tool-call-before-announcement"]
    assert seen(calls, "tool_call_update", 2, status="completed") == []
    assert seen(calls, "tool_call", 3, title="late") == []


def test_an_ask_first_then_updates() -> None:
    calls = ToolCalls()
    assert seen(calls, "permission", kind="edit", title="Write") == ["permission-for-unknown-call"]
    assert seen(calls, "tool_call_update", 2, status="completed") == ["tool-call-before-announcement"]
    assert calls.calls["c"].kind == "edit"
    assert not calls.calls["c"].announced


def test_a_second_announcement_is_told() -> None:
    calls = ToolCalls()
    seen(calls, "tool_call", title="a")
    assert seen(calls, "tool_call", 2, title="b") == ["tool-call-announced-twice"]
    assert calls.calls["c"].title == "b"


statuses = list(RANK)


@pytest.mark.parametrize("before", statuses)
@pytest.mark.parametrize("after", statuses)
def test_a_status_goes_forward_only(before: str, after: str) -> None:
    calls = ToolCalls()
    seen(calls, "tool_call", status=before)
    found = seen(calls, "tool_call_update", 2, status=after)
    forward = after == before or RANK[after] > RANK[before]
    assert found == ([] if forward else ["tool-call-status-backwards"])
    assert calls.calls["c"].status == after


def test_unknown_statuses_are_recorded_without_a_judgement() -> None:
    calls = ToolCalls()
    seen(calls, "tool_call", status="paused")
    assert seen(calls, "tool_call_update", 2, status="pending") == []
    assert seen(calls, "tool_call_update", 3, status="cancelled") == []
    assert calls.calls["c"].statuses == ["paused", "pending", "cancelled"]


@pytest.mark.parametrize(
    ("status", "final"),
    [(None, False), ("pending", False), ("in_progress", False), ("completed", True), ("failed", True)],
)
def test_the_end_tells_calls_that_never_became_final(status: str | None, final: bool) -> None:
    calls = ToolCalls()
    seen(calls, "tool_call", kind="read", status=status)
    assert [finding.id for finding in calls.finish()] == ([] if final else ["tool-call-not-final"])


def test_a_call_that_was_open_when_its_turn_was_cancelled_owes_no_end() -> None:
    calls = ToolCalls()
    seen(calls, "tool_call", kind="read", status="in_progress")
    (call,) = calls.calls.values()
    calls.cancel("another")
    assert not call.cancelled
    calls.cancel(call.session_id)
    assert calls.finish() == []


def test_the_end_tells_calls_without_a_kind() -> None:
    calls = ToolCalls()
    seen(calls, "tool_call", 5, status="completed")
    (finding,) = calls.finish()
    assert (finding.id, finding.seq) == ("tool-call-without-kind", 5)


def test_terminals_that_are_not_the_client_s_are_told_once_a_call() -> None:
    calls = ToolCalls()
    ours = {"type": "terminal", "terminalId": "ours"}
    theirs = {"type": "terminal", "terminalId": "theirs"}
    for expected in (["foreign-terminal"], []):
        found = calls.observe(
            "tool_call_update", "s", {"toolCallId": "c", "content": [ours, theirs]}, 1, terminals={"ours"}
        )
        assert [finding.id for finding in found if finding.id == "foreign-terminal"] == expected
    assert calls.calls["c"].terminals == {"ours", "theirs"}


@pytest.mark.parametrize("id", [None, 1, [], {}])
def test_a_call_without_an_id_is_a_finding(id: Any) -> None:
    calls = ToolCalls()
    assert seen(calls, "tool_call", toolCallId=id) == ["tool-call-without-id"]
    assert calls.calls == {}


def test_more_calls_than_are_kept_are_told_once() -> None:
    calls = ToolCalls(max_calls=2)
    found = [seen(calls, "tool_call", toolCallId=str(number)) for number in range(5)]
    assert found == [[], [], ["tool-call-limit"], [], []]
    assert sorted(calls.calls) == ["0", "1"]
    assert seen(calls, "tool_call_update", toolCallId="1", status="completed") == []


def test_more_input_than_is_kept_is_not_kept() -> None:
    calls = ToolCalls(max_input_bytes=100)
    first = calls.observe("tool_call", "s", {"toolCallId": "a", "rawInput": {"n": 1}}, 1, size=60)
    second = calls.observe("tool_call", "s", {"toolCallId": "b", "rawInput": {"n": 2}, "kind": "read"}, 2, size=60)
    assert first == []
    assert [finding.id for finding in second] == ["tool-call-limit"]
    assert (calls.calls["a"].raw_input, calls.calls["b"].raw_input) == ({"n": 1}, None)
    assert calls.calls["b"].kind == "read"


def test_input_that_is_replaced_is_paid_once() -> None:
    calls = ToolCalls(max_input_bytes=100)
    for number in range(50):
        fields = {"toolCallId": "a", "rawInput": number}
        assert all(
            finding.id != "tool-call-limit" for finding in calls.observe("tool_call_update", "s", fields, 1, size=90)
        )
    assert calls.calls["a"].raw_input == 49


def test_texts_are_bounded() -> None:
    calls = ToolCalls()
    seen(calls, "tool_call", title="t" * 100_000)
    assert len(calls.calls["c"].title or "") == 4000
    for number in range(1000):
        seen(calls, "tool_call_update", status=f"odd{number}", content=[{"type": f"type{number}"}])
    assert len(calls.calls["c"].statuses) <= 64
    assert calls.calls["c"].status == "odd999"
    assert len(calls.calls["c"].content_types) <= 64
    assert seen(calls, "tool_call", toolCallId="i" * 2000) == ["tool-call-limit"]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["c", "pending", "completed", "terminal"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "terminalId", "path"]), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["tool_call", "tool_call_update", "permission"]),
            st.dictionaries(
                st.sampled_from(["toolCallId", "status", "kind", "title", "content", "locations", "rawInput"]), anything
            ),
        ),
        max_size=10,
    )
)
def test_no_fields_bring_it_down_and_ids_are_counted_once(sightings: list[tuple[Source, dict[str, Any]]]) -> None:
    calls = ToolCalls()
    for seq, (source, fields) in enumerate(sightings):
        calls.observe(source, "s", fields, seq)
    ids = {fields["toolCallId"] for _, fields in sightings if isinstance(fields.get("toolCallId"), str)}
    assert set(calls.calls) == ids
    calls.finish()
