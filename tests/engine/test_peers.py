"""Two independent peers: agents on the official SDKs, which use all callbacks of their client and judge its answers."""

from __future__ import annotations

import pytest

from tests.engine.lab import PEERS, Lab, PeerKind, stderr

pytestmark = [pytest.mark.engine, pytest.mark.long]

#: Claims that each peer holds its client to, at least.
CLAIMS = 23
POLICY = {"id": "peer", "answer": "allow_once", "elicitation": "accept"}
#: Kinds of session/update that each SDK has.
UPDATES: dict[PeerKind, set[str]] = {
    "python": set(),
    "typescript": {"notice", "compaction_update", "compaction_summary_chunk"},
}
COMMON = {
    "user_message_chunk",
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
    "available_commands_update",
    "current_mode_update",
    "config_option_update",
    "session_info_update",
    "usage_update",
}


@pytest.mark.parametrize("kind", PEERS)
def test_a_peer_finds_every_callback_right(lab: Lab, kind: PeerKind) -> None:
    result, (record,) = lab.sweep(lab.peer(kind), surfaces=["acp-peer"], policies=[POLICY])
    judged = stderr(result, record)
    assert (record.outcome, record.reason) == ("passed", ""), judged
    assert record.findings == []
    exact = record.exact
    assert exact["schema_violations"] == 0
    assert exact["client_fs_calls"] == 10
    # 3 create, 3 wait_for_exit, 3 release, 1 kill, 4 output, and those that wait for the first output.
    assert exact["client_terminal_calls"] == 14 + int(judged.partition("polls: ")[2].split()[0])
    assert exact["permission_requests"] == 1
    assert (exact["tool_calls"], exact["terminal_content_items"], exact["undeclared_calls"]) == (3, 1, 0)
    assert exact["stop_reason"] == "end_turn"
    seen = {name.partition(".")[2] for name, count in exact.items() if name.startswith("updates.") and count}
    assert seen == COMMON | UPDATES[kind]
    assert judged.count("judged: ") >= CLAIMS


@pytest.mark.parametrize("kind", PEERS)
def test_a_peer_says_so_where_an_answer_is_wrong(lab: Lab, kind: PeerKind) -> None:
    policy = {**POLICY, "answer": "reject_once"}
    _, (record,) = lab.sweep(lab.peer(kind), surfaces=["acp-peer"], policies=[policy], expect="agent-error")
    assert record.outcome == "agent-error"
    assert "the client is wrong: the choice is the policy's, by kind" in record.reason


@pytest.mark.parametrize(("mode", "moment"), [("ask", "ask"), ("wait", "terminal")])
@pytest.mark.parametrize("kind", PEERS)
def test_a_peer_finds_a_cancel_right(lab: Lab, kind: PeerKind, mode: str, moment: str) -> None:
    policy = {"id": f"cancel-{moment}", "cancel": {"at": moment}}
    adapter = lab.peer(kind, mode)
    result, (record,) = lab.sweep(adapter, surfaces=["acp-peer"], policies=[policy], expect="task-failed")
    assert record.outcome == "task-failed", (record.reason, stderr(result, record))
    assert record.findings == []
    exact = record.exact
    assert (exact["cancel_during"], exact["cancel_stop"]) == (moment, "cancelled")
    assert exact["permission_requests"] == (2 if moment == "ask" else 0)
    assert record.sampled["cancel_to_stop_ms"] is not None
