from __future__ import annotations

from runner.report.timeline import render_with_model
from tests.unit.evidence.conversations import SPAWN_NS, Log, at, entry


def test_frames_and_requests_stand_in_the_order_of_time() -> None:
    log = Log().initialize()
    log.wait(100).raw("stdout", b"x" * 2000)
    log.wait(100).raw("stdout", b"[1]")
    first = log.frames[-2].t_ns - SPAWN_NS
    start = first / 1e6 + 1
    entries = [
        entry(start, start + 50, seq=3, calls=("a", "b"), sent=start - 0.5),
        entry(start + 60, start + 61, "fault", seq=4, step=9, fault="reset", attempt=2, status=200),
        entry(start + 500, start + 501, "side", seq=12),
    ]
    lines = list(render_with_model(log.frames, entries, SPAWN_NS, 100))
    assert [line.split()[0] for line in lines] == ["0", "1", "2", "m3", "m3", "m4", "m4", "3", "m12", "m12"]
    # one column for each thing, however wide the model's numbers are
    assert {line.index(word) for line in lines for word in (" stdout ", " stdin ", " model ") if word in line} == {17}
    assert lines[5].endswith("POST /v1/messages to a-model: step 9 (request 2 for it)")
    assert lines[6].endswith("200, first byte after 0.0 ms, fault reset")
    assert lines[8].endswith("side request title")
    assert lines[4].endswith("Read {}, Read {}")
    assert max(map(len, lines)) <= 100


def test_another_clock_is_brought_to_the_frames() -> None:
    ahead = 10_000_000_000
    moved = entry(5, 6).model_copy(update={"t_request_end_ns": at(5) + ahead, "t_response_end_ns": at(6) + ahead})
    lines = list(render_with_model([], [moved], SPAWN_NS, 100, ahead))
    assert [line.split()[1] for line in lines] == ["5.0", "6.0"]
    assert [line.split()[1] for line in render_with_model([], [moved], None, 100, ahead)] == ["0.0", "1.0"]
    assert list(render_with_model([], [])) == []


def test_what_an_agent_sent_does_not_steer_the_terminal() -> None:
    bad = entry(1, 2, "miss", reason="\x1b[2J no such step", aborted=True, status=0)
    lines = list(render_with_model([], [bad]))
    assert "\\u001b[2J no such step, the agent hung up" in lines[1]
    assert "no answer" in lines[1]
