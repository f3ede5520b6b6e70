"""Hand-made evidence: a frame log that is written like a conversation, journal entries, a record.

The frames are modelled on what a real adapter sent (field names and order as on the wire). Times are milliseconds after
the agent's spawn.
"""

from __future__ import annotations

import json
from typing import Any

from runner.evidence.conversation import Conversation
from runner.gateway.journal import JournalEntry
from runner.records.schema import AgentExit, Change, Record, Verdict
from runner.wire.frames import Channel, Direction, Frame

SPAWN_NS = 5_000_000_000
SESSION = "912c9bae-262b"
FULL = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
NO_CAPS = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
OPTIONS = [
    {"kind": "allow_always", "name": "Always Allow", "optionId": "allow_always"},
    {"kind": "allow_once", "name": "Allow", "optionId": "allow"},
    {"kind": "reject_once", "name": "Reject", "optionId": "reject"},
]


def at(ms: float) -> int:
    """CLOCK_MONOTONIC ns of the moment `ms` after the spawn."""
    return SPAWN_NS + round(ms * 1e6)


def _line(body: dict[str, Any]) -> bytes:
    """An infinity is written as an agent can say it: `1e999`."""
    return json.dumps({"jsonrpc": "2.0", **body}).replace("Infinity", "1e999").encode()


class Log:
    """Writes frames one after the other; `wait` moves the clock."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self._ms = 0.0
        self._client_id = -1
        self._agent_id = -1

    @property
    def conversation(self) -> Conversation:
        return Conversation.of(self.frames)

    def wait(self, ms: float) -> Log:
        self._ms += ms
        return self

    def raw(self, channel: Channel, data: bytes) -> int:
        """One line of bytes; its seq."""
        seq = len(self.frames)
        direction: Direction = "c2a" if channel == "stdin" else "a2c"
        self.frames.append(Frame(seq=seq, t_ns=at(self._ms), direction=direction, channel=channel, payload=data))
        return seq

    def client(self, **body: Any) -> int:
        return self.raw("stdin", _line(body))

    def agent(self, **body: Any) -> int:
        return self.raw("stdout", _line(body))

    def request(self, method: str, after: float = 0, result: Any = None, error: Any = None, **params: Any) -> int:
        """A request of the client and its response `after` ms later; the request's seq."""
        seq = self.open(method, **params)
        return self.wait(after).close(seq, result, error)

    def open(self, method: str, **params: Any) -> int:
        self._client_id += 1
        return self.client(id=self._client_id, method=method, params=params)

    def close(self, seq: int, result: Any = None, error: Any = None) -> int:
        """The agent answers the request of frame `seq`."""
        identity = json.loads(self.frames[seq].raw)["id"]
        self.agent(id=identity, **({"error": error} if error else {"result": result or {}}))
        return seq

    def initialize(self, capabilities: dict[str, Any] = FULL, after: float = 160) -> Log:
        self.request(
            "initialize",
            after=after,
            protocolVersion=1,
            clientCapabilities=capabilities,
            result={
                "protocolVersion": 1,
                "agentCapabilities": {"loadSession": True, "promptCapabilities": {"image": True}},
                "agentInfo": {"name": "an-adapter", "title": "An Agent", "version": "1.2.3"},
                "authMethods": [],
            },
        )
        return self

    def session(self, mode: str = "default", after: float = 340) -> Log:
        modes = {"currentModeId": mode, "availableModes": [{"id": "default", "name": "Manual"}, {"id": "plan"}]}
        options = [{"id": "mode", "name": "Mode", "type": "select", "currentValue": mode, "options": []}]
        result = {"sessionId": SESSION, "modes": modes, "configOptions": options}
        self.request("session/new", after=after, cwd="/workspace/semver", mcpServers=[], result=result)
        return self

    def prompt(self) -> int:
        return self.open("session/prompt", sessionId=SESSION, prompt=[{"type": "text", "text": "Fix it."}])

    def end(self, prompt: int, stop: str = "end_turn", usage: Any = None) -> Log:
        result = {"stopReason": stop} | ({"usage": usage} if usage is not None else {})
        self.close(prompt, result)
        return self

    def update(self, update: str, /, session: str = SESSION, **fields: Any) -> Log:
        body = {"sessionUpdate": update, **fields}
        self.agent(method="session/update", params={"sessionId": session, "update": body})
        return self

    def commands(self, *names: str) -> Log:
        listed = [{"name": name, "description": f"About {name}.", "input": None} for name in names]
        return self.update("available_commands_update", availableCommands=listed)

    def says(self, text: str, message: str | None = None, kind: str = "agent_message_chunk") -> Log:
        identity = {} if message is None else {"messageId": message}
        return self.update(kind, content={"type": "text", "text": text}, **identity)

    def usage(self, used: int) -> Log:
        return self.update("usage_update", used=used, size=200_000)

    def tool(self, identity: str, kind: str | None, title: str = "", content: Any = (), **fields: Any) -> Log:
        """A tool call from tool_call to completed: two updates."""
        known = {} if kind is None else {"kind": kind}
        start: dict[str, Any] = {
            "toolCallId": identity,
            "status": "pending",
            "title": title,
            "rawInput": {},
            "content": [],
        }
        self.update("tool_call", **start, **known, **fields)
        return self.update("tool_call_update", toolCallId=identity, status="completed", content=list(content))

    def calls(
        self, method: str, params: Any = None, after: float | None = 1, result: Any = None, error: Any = None
    ) -> int:
        """A request of the agent, which the client answers `after` ms later (None: never); the request's seq."""
        self._agent_id += 1
        identity = self._agent_id
        seq = self.agent(id=identity, method=method, params={"sessionId": SESSION, **(params or {})})
        if after is not None:
            self.wait(after)
            self.client(id=identity, **({"error": error} if error else {"result": result or {}}))
        return seq

    def asks(
        self, identity: str, answer: str | None = "allow", after: float = 1, options: Any = None, **call: Any
    ) -> int:
        """session/request_permission, answered with an option id, `cancelled`, or never (None)."""
        outcome = {"outcome": "cancelled"} if answer == "cancelled" else {"outcome": "selected", "optionId": answer}
        return self.calls(
            "session/request_permission",
            {"toolCall": {"toolCallId": identity, **call}, "options": OPTIONS if options is None else options},
            after=None if answer is None else after,
            result={"outcome": outcome},
        )


def entry(
    start: float,
    end: float,
    kind: str = "main",
    calls: tuple[str, ...] = (),
    usage: tuple[int, int] | None = (1000, 50),
    seq: int = 0,
    sent: float | None = None,
    **more: Any,
) -> JournalEntry:
    """One model request: last request byte in at `start`, last response byte out at `end`, first byte in at `sent`."""
    empty = {"headers": {}, "body": ""}
    return JournalEntry.model_validate(
        {
            "seq": seq,
            "run": "<run>",
            "kind": kind,
            "rule": "title" if kind == "side" else None,
            "step": seq if kind == "main" else None,
            "method": "POST",
            "path": "/v1/messages",
            "t_request_ns": at(start if sent is None else sent),
            "t_request_end_ns": at(start),
            "t_first_byte_ns": at(start),
            "t_response_end_ns": at(end),
            "status": 200,
            "model": "a-model",
            "stream": True,
            "tools": ["Read", "Bash"],
            "calls": [{"id": call, "tool": "Read", "arguments": {}, "meaning": "read"} for call in calls],
            "usage": None if usage is None else {"input": usage[0], "output": usage[1]},
            "reason": None,
            "nearest": None,
            "request": empty,
            "response": empty,
            "aborted": False,
            **more,
        }
    )


def verdict(passed: bool = True, changes: int = 1, duration_ms: float = 200.0) -> Verdict:
    paths = [Change(path=f"src/{number}.js", status="M") for number in range(changes)]
    return Verdict(passed=passed, duration_ms=duration_ms, changes=paths)


def record(**fields: Any) -> Record:
    """A run that began 600 ms before the spawn; its agent exited 2000 ms after it, 500 ms before the run's end."""
    plain: dict[str, Any] = {
        "sweep": "a-sweep",
        "cell": "arm--r1",
        "arm": "arm",
        "replicate": 1,
        "attempt": 1,
        "adapter": "an-adapter@1.2.3",
        "surface": "acp",
        "fixture": "semver",
        "policy": "allow_once",
        "model": "scripted/fix-semver",
        "reset": "container",
        "expect": "passed",
        "outcome": "passed",
        "started_at": "2026-11-30T12:00:00.000+00:00",
        "start_ns": at(-600),
        "end_ns": at(2500),
        "agent": AgentExit(spawn_ns=at(0), exit_ns=at(2000), code=0, cpu_s=1.5, peak_anon_mb=300.25),
        "verdict": verdict(),
    }
    return Record(**(plain | fields))
