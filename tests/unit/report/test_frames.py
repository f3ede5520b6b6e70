from __future__ import annotations

import json

import pytest

from runner.errors import UsageError
from runner.report.frames import render, render_one
from runner.wire.frames import Frame
from tests.unit.evidence.conversations import SPAWN_NS, Log, at


def conversation() -> Log:
    log = Log().initialize().session()
    prompt = log.prompt()
    log.wait(50).says("Looking.", "m1").tool("t1", "execute", "ls -la").usage(1031)
    log.asks("t1", kind="execute", title="node --test")
    log.calls(
        "fs/read_text_file", {"path": "/workspace/semver/a.js"}, error={"code": -32601, "message": "not declared"}
    )
    log.raw("stderr", b"warming up")
    log.raw("stdout", b"\x1b[31mdebug\x1b[0m")
    log.raw("stdout", b"[1, 2]")
    log.end(prompt)
    return log


def test_a_run_line_by_line() -> None:
    offered = "allow_always/allow_once/reject_once"
    assert list(render(conversation().frames)) == [
        " 0        0.0 -> stdin  180  initialize #0",
        " 1      160.0 <- stdout 241  result #0 of initialize protocolVersion=1",
        " 2      160.0 -> stdin  110  session/new #1",
        " 3      500.0 <- stdout 292  result #1 of session/new sessionId=912c9bae-262b",
        " 4      500.0 -> stdin  146  session/prompt #2",
        ' 5      550.0 <- stdout 208  session/update agent_message_chunk "Looking."',
        " 6      550.0 <- stdout 240  session/update tool_call t1 execute pending ls -la",
        " 7      550.0 <- stdout 195  session/update tool_call_update t1 completed",
        " 8      550.0 <- stdout 163  session/update usage_update",
        " 9      550.0 <- stdout 404  session/request_permission #0 t1 execute node --test (" + offered + ")",
        "10      551.0 -> stdin   96  result #0 of session/request_permission selected allow",
        "11      551.0 <- stdout 134  fs/read_text_file #1 /workspace/semver/a.js",
        "12      552.0 -> stdin   81  error #1 of fs/read_text_file: -32601 not declared",
        "13      552.0 <- stderr  10  warming up",
        "14      552.0 <- stdout  14  not JSON: \\u001b[31mdebug\\u001b[0m",
        "15      552.0 <- stdout   6  no message: [1, 2]",
        "16      552.0 <- stdout  65  result #2 of session/prompt stopReason=end_turn",
    ]


def test_time_counts_from_the_spawn_where_it_is_known() -> None:
    log = Log().wait(12.5)
    log.prompt()
    assert [line.split()[1] for line in render(log.frames, SPAWN_NS)] == ["12.5"]
    assert [line.split()[1] for line in render(log.frames)] == ["0.0"]


def test_a_clis_lines_are_named_by_their_type() -> None:
    log = Log()
    log.raw("stdout", b'{"type":"system","subtype":"init"}')
    blocks = [{"type": "tool_use", "name": "Bash", "id": "toolu_1", "input": {}}, {"type": "text", "text": "x"}]
    log.raw("stdout", json.dumps({"type": "assistant", "message": {"content": blocks}}).encode())
    log.raw("stdout", b'{"other":1}')
    assert [line.split("  ")[-1] for line in render(log.frames)] == [
        "system init",
        "assistant tool_use Bash toolu_1 text",
        '{"other":1}',
    ]


def test_no_line_is_wider_than_asked_and_none_steers_a_terminal() -> None:
    log = Log().says("\x1b]0;owned\x07 \u202e" * 500)
    log.raw("stderr", b"\xff\x00" * 5000)
    log.agent(method="evil\x1b[2J", params={})
    for line in render(log.frames, width=90):
        assert len(line) <= 90
        assert line.isprintable()


def test_flags_are_shown() -> None:
    frame = Frame(7, at(0), "a2c", "stdout", b"", flags=("oversize",), true_length=70_000_000)
    (line,) = render([frame])
    assert line.endswith("[oversize]")
    assert " 70000000 " in line


def test_an_empty_log_has_no_lines() -> None:
    assert list(render([])) == []


def test_one_frame_in_full() -> None:
    log = Log()
    log.agent(id=1, result={"text": "\u2713 \x1b \u202e"})
    head, *body = render_one(log.frames, 0).splitlines()
    assert head == f"seq 0, t_ns {SPAWN_NS}, stdout <-, {log.frames[0].length} bytes"
    assert json.loads("\n".join(body)) == {"jsonrpc": "2.0", "id": 1, "result": {"text": "\u2713 \x1b \u202e"}}
    assert "\u2713" in body[4]
    assert "\u202e" not in body[4]


@pytest.mark.parametrize(("raw", "shown"), [(b"plain \xff\x1b", "plain \\xff\\u001b\n"), (b"", "\n")])
def test_one_frame_that_is_no_json(raw: bytes, shown: str) -> None:
    log = Log()
    log.raw("stderr", raw)
    assert render_one(log.frames, 0).partition("\n")[2] == shown


def test_a_frame_that_is_not_there() -> None:
    log = Log().initialize()
    with pytest.raises(UsageError, match="no frame 9: it has 0 to 1"):
        render_one(log.frames, 9)
    with pytest.raises(UsageError, match="it is empty"):
        render_one([], 0)
