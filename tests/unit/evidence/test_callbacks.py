from __future__ import annotations

from typing import Any

import pytest

from runner.evidence.callbacks import callbacks, waits
from tests.unit.evidence.conversations import FULL, NO_CAPS, Log, at

FS_ONLY = {"fs": {"readTextFile": True, "writeTextFile": False}, "terminal": False}


@pytest.mark.parametrize(
    ("method", "capabilities", "declared"),
    [
        ("fs/read_text_file", FULL, True),
        ("fs/read_text_file", NO_CAPS, False),
        ("fs/read_text_file", FS_ONLY, True),
        ("fs/write_text_file", FS_ONLY, False),
        ("terminal/create", FULL, True),
        ("terminal/create", FS_ONLY, False),
        ("terminal/release", {}, False),
        ("session/request_permission", {}, True),
        ("_session/steer", {}, None),
        ("craft/drainMidTurnQueue", FULL, None),
    ],
)
def test_declared(method: str, capabilities: dict[str, Any], declared: bool | None) -> None:
    log = Log().initialize(capabilities)
    log.calls(method)
    assert [call.declared for call in callbacks(log.conversation)] == [declared]


@pytest.mark.parametrize(("mode", "declared"), [("form", True), ("url", False)])
def test_elicitation_is_declared_by_mode(mode: str, declared: bool) -> None:
    log = Log().initialize({"elicitation": {"form": {}}})
    log.calls("elicitation/create", {"mode": mode, "message": "which?"})
    assert [call.declared for call in callbacks(log.conversation)] == [declared]


def test_the_latest_initialize_before_the_call_counts() -> None:
    log = Log()
    log.calls("terminal/create")
    log.initialize(FULL)
    log.calls("terminal/create")
    log.initialize(NO_CAPS)
    log.calls("terminal/create")
    assert [call.declared for call in callbacks(log.conversation)] == [False, True, False]


def test_times_and_errors() -> None:
    log = Log().wait(100)
    log.calls("fs/read_text_file", {"path": "/a"}, after=4, result={"content": ""})
    log.calls("fs/read_text_file", {"path": "/b"}, after=2, error={"code": -32601, "message": "no"})
    good, bad = callbacks(log.conversation)
    assert (good.start_ns, good.end_ns, good.error, good.params["path"]) == (at(100), at(104), None, "/a")
    assert (bad.start_ns, bad.end_ns, bad.error) == (at(104), at(106), -32601)


def test_an_unanswered_call_waits_until_the_end() -> None:
    log = Log().wait(100)
    log.asks("t1", answer=None)
    log.wait(1)
    log.calls("fs/read_text_file", after=4)
    assert waits(callbacks(log.conversation), at(500)) == [(at(100), at(500)), (at(101), at(105))]
    assert waits(callbacks(log.conversation), at(50))[0] == (at(100), at(100))
