"""An agent in a few words: the tests say what it sends as Python values, `Peer` numbers the frames."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runner.acp.client import Client
from runner.acp.events import Event

#: Every capability that gates a method or an update.
FULL: dict[str, Any] = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "elicitation": {"form": {}, "url": {}},
    "session": {"notices": {}, "compaction": {}},
    "plan": {},
    "subagents": {},
}


class Peer:
    """A client and the agent's side of its connection."""

    def __init__(self, capabilities: dict[str, Any]) -> None:
        self.client = Client(capabilities)
        self.seq = 0

    def raw(self, raw: bytes) -> list[Event]:
        self.seq += 1
        return self.client.receive(raw, self.seq, self.seq * 1000)

    def send(self, **members: Any) -> list[Event]:
        return self.raw(json.dumps({"jsonrpc": "2.0", **members}).encode())

    def one(self, **members: Any) -> Event:
        (event,) = self.send(**members)
        return event

    def answer(self, result: Any) -> list[Event]:
        """Answers the client's last request."""
        return self.send(id=self.client.last_id, result=result)

    def update(self, kind: str, session: str = "s", **fields: Any) -> list[Event]:
        return self.send(
            method="session/update", params={"sessionId": session, "update": {"sessionUpdate": kind, **fields}}
        )

    def ask(self, id: Any = 7, session: str = "s", call: str = "c", **fields: Any) -> Event:
        options = [{"optionId": "yes", "kind": "allow_once", "name": "Yes"}]
        params = {"sessionId": session, "toolCall": {"toolCallId": call, **fields}, "options": options}
        return self.one(id=id, method="session/request_permission", params=params)

    def initialize(self) -> Peer:
        self.client.initialize({"name": "test", "version": "0"})
        self.answer({"protocolVersion": 1})
        return self

    def session(self, id: str = "s") -> Peer:
        self.client.session_new("/workspace/x")
        self.answer({"sessionId": id})
        return self

    def prompt(self, session: str = "s") -> Peer:
        self.client.session_prompt(session, "do it")
        return self

    def found(self) -> list[str]:
        """Ids of the findings so far, in order."""
        return [finding.id for finding in self.client.findings.kept]


@pytest.fixture
def fresh() -> Peer:
    """Nothing sent yet; every capability declared."""
    return Peer(FULL)


@pytest.fixture
def peer() -> Peer:
    """Session "s" is open; every capability declared."""
    return Peer(FULL).initialize().session()


@pytest.fixture
def bare() -> Peer:
    """Session "s" is open; no capability declared."""
    return Peer({}).initialize().session()
