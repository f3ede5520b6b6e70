from __future__ import annotations

from typing import Any

import pytest

from runner.evidence.cancellation import Cancellation, cancellations
from tests.unit.evidence.conversations import OPTIONS, SESSION, Log

ASK = {"sessionId": SESSION, "toolCall": {"toolCallId": "t1"}, "options": OPTIONS}
WAIT = {"sessionId": SESSION, "terminalId": "term-1"}


def opened() -> tuple[Log, int]:
    log = Log().initialize().session()
    return log, log.prompt()


def cancel(log: Log) -> int:
    return log.client(method="session/cancel", params={"sessionId": SESSION})


def reach(log: Log, moment: str) -> None:
    if moment == "start":
        log.commands("go").usage(3)  # no part of a turn
    elif moment == "text":
        log.says("a long").usage(3)
    elif moment == "tool":
        log.says("I look").update("tool_call", toolCallId="t1", kind="read", status="pending")
    elif moment == "ask":
        log.calls("session/request_permission", ASK, after=None)
    elif moment == "terminal":
        log.update("tool_call", toolCallId="t1", kind="execute", status="in_progress")
        log.calls("terminal/wait_for_exit", WAIT, after=None)
    else:
        log.tool("t1", "read")


@pytest.mark.parametrize("moment", ["start", "text", "tool", "ask", "terminal", "turn"])
def test_what_was_under_way(moment: str) -> None:
    log, prompt = opened()
    reach(log, moment)
    seq = cancel(log)
    log.wait(40).says("so far")
    log.wait(2).end(prompt, "cancelled")
    assert cancellations(log.conversation) == [
        Cancellation(seq, moment, asks=0, stop="cancelled", to_stop_ms=42.0, updates_after=1)
    ]


def test_asks_that_the_cancel_answered() -> None:
    log, prompt = opened()
    log.calls("session/request_permission", ASK, result={"outcome": {"outcome": "cancelled"}})
    first = log.calls("session/request_permission", ASK, after=None)
    cancel(log)
    log.client(id=_id(log, first), result={"outcome": {"outcome": "cancelled"}})
    log.end(prompt, "cancelled")
    (found,) = cancellations(log.conversation)
    assert (found.during, found.asks) == ("ask", 1)


def _id(log: Log, seq: int) -> Any:
    return next(message.id for message in log.conversation if message.seq == seq)


def test_an_error_no_answer_and_a_cancel_without_a_turn() -> None:
    log, prompt = opened()
    cancel(log)
    log.close(prompt, error={"code": -32603, "message": "aborted"})
    cancel(log)
    log.prompt()
    cancel(log)
    log.says("on and on")
    found = [(one.stop, one.to_stop_ms is None, one.updates_after) for one in cancellations(log.conversation)]
    assert found == [("error", False, 0), (None, True, 1)]
