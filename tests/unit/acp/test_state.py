"""The connection's state: turns, closing of requests, and what the end of the stream tells."""

from __future__ import annotations

from runner.acp.state import ConnectionState, OpenRequest, Pending, SessionState


def state_with(*ids: object) -> ConnectionState:
    state = ConnectionState({})
    for seq, id in enumerate(ids):
        state.open.setdefault(id, []).append(OpenRequest(id, "terminal/create", "s", seq, seq))  # type: ignore[arg-type]
    return state


def test_a_session_s_phase_and_turn() -> None:
    session = SessionState("s")
    assert (session.phase, session.turn) == ("idle", None)
    session.running, session.turns = [1], 1
    assert (session.phase, session.turn) == ("turn", 0)
    session.running, session.turns = [1, 2, 3], 3
    assert (session.phase, session.turn) == ("turn", 0)
    session.running = []
    assert (session.phase, session.turn) == ("late", 2)


def test_take_closes_the_oldest_of_equal_ids() -> None:
    state = state_with(1, 1, "1")
    taken = [state.take(1), state.take(1), state.take(1)]
    assert [request.seq if request else None for request in taken] == [0, 1, None]
    assert list(state.open) == ["1"]


def test_terminals_are_remembered_from_our_answers() -> None:
    state = state_with(1)
    state.respond(1, {"terminalId": "t"})
    assert state.terminals == {"t"}


def test_the_end_tells_what_is_unanswered() -> None:
    state = ConnectionState({})
    state.pending[3] = Pending(3, "session/prompt", "s")
    state.finish()
    assert [(finding.id, finding.message) for finding in state.findings.kept] == [
        ("unanswered-request", "session/prompt (id 3) has no response")
    ]


def test_early_sessions_are_bounded() -> None:
    state = ConnectionState({})
    for number in range(3000):
        state.remember_early(str(number), number)
    state.remember_early("x" * 2000, 1)
    assert len(state.early) == 1000
    assert state.early["7"] == 7
