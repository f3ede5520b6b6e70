"""Documents that the editor holds open: what the agent is given, and what the record says of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runner.acp.buffers import blob_hash
from runner.config.surface import OpenBuffer
from runner.surfaces.driver import DriverResult
from tests.unit.surfaces.stage import FULL, FakeAgent

Play = Callable[..., DriverResult]

PATH = "/workspace/f/a.js"
DISK = "on disk\n"


def guest(call: dict[str, Any]) -> dict[str, Any]:
    if call["op"] == "fs.read":
        return {"content": DISK, "size": len(DISK)}
    return {"before": blob_hash(DISK), "after": blob_hash(call.get("content", ""))}


def turn(agent: FakeAgent, *acts: Callable[[FakeAgent], None]) -> None:
    agent.handshake()
    prompt = agent.read()
    for act in acts:
        act(agent)
    agent.answer(prompt, {"stopReason": "end_turn"})


def test_unsaved_text_is_what_the_agent_gets_and_its_write_is_in_the_ledger(play: Play) -> None:
    got: list[Any] = []

    def read(agent: FakeAgent) -> None:
        got.append(agent.request(1, "fs/read_text_file", {"sessionId": "s", "path": PATH}))

    def write(agent: FakeAgent) -> None:
        agent.request(2, "fs/write_text_file", {"sessionId": "s", "path": PATH, "content": "new\n"})

    buffers = (OpenBuffer(path=PATH, append="typed\n"),)
    played = play(lambda agent: turn(agent, read, write), guest=guest, capabilities=FULL, buffers=buffers)
    assert got[0]["result"] == {"content": "on disk\ntyped\n"}
    (written,) = played.ledger
    assert (written.path, written.before, written.after) == (PATH, blob_hash(DISK), blob_hash("new\n"))
    assert (written.was_unsaved, written.overwrote_unseen) == (True, False)
    (document,) = played.buffers
    assert (document.text, document.disk_blob) == ("on disk\ntyped\n", blob_hash(DISK))
    assert (document.unsaved_at_end, document.blob_at_end) == (False, blob_hash("new\n"))


@pytest.mark.parametrize("text", ["whole\n", ""])
def test_a_document_nobody_touches_stays_unsaved(play: Play, text: str) -> None:
    played = play(turn, guest=guest, buffers=(OpenBuffer(path=PATH, text=text),))
    (document,) = played.buffers
    assert (document.text, document.unsaved_at_end) == (text, True)
    assert document.blob == document.blob_at_end == blob_hash(text)
    assert played.ledger == []
