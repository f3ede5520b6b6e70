"""A driver on a stage without an engine: the agent and the guest are threads at the other ends of two socket pairs."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runner.config.adapter import Adapter, Launch, Package, Program, Session, ToolCall
from runner.config.knobs import Deadlines
from runner.config.policy import BUILTIN, Policy
from runner.config.surface import ClientCapabilities, OpenBuffer, Surface
from runner.sandbox.channel import GuestChannel
from runner.sandbox.guest_client import GuestClient
from runner.sandbox.stream import AttachedStream
from runner.surfaces.driver import DriverContext
from runner.surfaces.phases import PhaseClock
from runner.surfaces.pipe import AgentPipe, GuestEvent, Inbox

LAUNCH = Launch(command=["agent"], binary="/agent")
ADAPTER = Adapter(
    id="agent@1",
    title="agent",
    image="agent-1",
    dialect="anthropic",
    packages=[Package(registry="npm", name="agent", version="1")],
    programs=[Program(name="agent", command=["agent"], expect="1")],
    acp=LAUNCH,
    cli=LAUNCH,
    tools={"read": [ToolCall(tool="Read")]},
)
QUICK = Deadlines(
    initialize=2,
    authenticate=2,
    session_new=2,
    configure=2,
    first_update=2,
    silence=2,
    turn=2,
    cancel_grace=0.3,
    quiet=0.05,
    exit=0.3,
    terminate=0.1,
    kill=1,
)
#: Nothing has changed in the workspace.
UNCHANGED: dict[str, Any] = {"changes": [], "more": False, "steady": True}
FULL = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}


class Wire:
    """The far end of a stream: JSON lines in, engine-framed bytes out."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._lines = end.makefile("rb")

    def read(self) -> dict[str, Any] | None:
        line = self._lines.readline()
        message: dict[str, Any] | None = json.loads(line) if line else None
        return message

    def raw(self, data: bytes, kind: int = 1) -> None:
        self._end.sendall(struct.pack(">BxxxL", kind, len(data)) + data)

    def say(self, body: Any) -> None:
        self.raw(json.dumps(body).encode() + b"\n")

    def hang_up(self) -> None:
        """End both directions: whoever reads gets the end of the stream."""
        with contextlib.suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._lines.close()
        self._end.close()


class FakeAgent(Wire):
    """What a test's agent script needs to speak ACP tersely."""

    def answer(self, request: dict[str, Any] | None, result: Any) -> None:
        assert request is not None
        self.say({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def request(self, number: Any, method: str, params: Any) -> dict[str, Any] | None:
        self.say({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return self.read()

    def update(self, kind: str, /, **fields: Any) -> None:
        params = {"sessionId": "s", "update": {"sessionUpdate": kind, **fields}}
        self.say({"jsonrpc": "2.0", "method": "session/update", "params": params})

    def text(self, words: str) -> None:
        self.update("agent_message_chunk", content={"type": "text", "text": words})

    def handshake(self, **session: Any) -> None:
        """Answer initialize and session/new."""
        self.answer(self.read(), {"protocolVersion": 1, "agentInfo": {"name": "fake", "version": "1"}})
        self.answer(self.read(), {"sessionId": "s", **session})

    def ask(self, number: Any, call: str, **fields: Any) -> dict[str, Any] | None:
        options = [
            {"optionId": "always", "kind": "allow_always", "name": "Always"},
            {"optionId": "once", "kind": "allow_once", "name": "Once"},
            {"optionId": "no", "kind": "reject_once", "name": "No"},
        ]
        tool_call = {"toolCallId": call, **fields}
        return self.request(
            number, "session/request_permission", {"sessionId": "s", "toolCall": tool_call, "options": options}
        )


Script = Callable[[FakeAgent], None]
Guest = Callable[[dict[str, Any]], dict[str, Any] | None]


class Stage:
    """Builds the scene; the guest answers by `guest` (an op's arguments -> reply fields, None: never answers)."""

    def __init__(
        self,
        folder: Path,
        script: Script,
        *,
        guest: Guest | None = None,
        obeys: str = "eof",
        changes: dict[str, Any] | None = UNCHANGED,
    ) -> None:
        ours, theirs = socket.socketpair()
        self._agent = FakeAgent(theirs)
        guest_ours, guest_theirs = socket.socketpair()
        self._guest = Wire(guest_theirs)
        self._answers = guest or (lambda call: {})
        #: What the guest saw changed in the workspace; None: it does not answer.
        self._changes = changes
        #: What ends the fake agent's process: `eof`, `TERM`, `KILL`, or `itself` (its script's end).
        self._obeys = obeys
        self._script = script
        self.inbox = Inbox()
        self.folder = folder
        self.pipe = AgentPipe(AttachedStream(ours), self.inbox, folder, 10**7, 10**6)
        self.channel = GuestChannel(
            AttachedStream(guest_ours), lambda body: self.inbox.put(GuestEvent(body)), name="guest"
        )
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._act, self._serve)]
        self.pipe.start()
        for thread in self._threads:
            thread.start()

    def scene(
        self,
        *,
        capabilities: dict[str, Any] | None = None,
        policy: Policy = BUILTIN["allow_once"],
        deadlines: Deadlines = QUICK,
        session: Session | None = None,
        transport: Any = "acp",
        buffers: tuple[OpenBuffer, ...] = (),
        **surface: Any,
    ) -> DriverContext:
        return DriverContext(
            pipe=self.pipe,
            guest=GuestClient(self.channel),
            inbox=self.inbox,
            phases=PhaseClock(),
            deadlines=deadlines,
            adapter=ADAPTER,
            launch=LAUNCH,
            surface=Surface(
                id="s",
                transport=transport,
                client_capabilities=ClientCapabilities.model_validate(capabilities or {}),
                **surface,
            ),
            session=session or Session(),
            policy=policy,
            prompt="do it",
            cwd="/workspace/f",
            roots=("/workspace/f",),
            additional_directories=(),
            buffers=buffers,
        )

    def exits(self, code: int | None = 0, signal: int | None = None, **more: Any) -> None:
        self._guest.say({"event": "exit", "code": code, "signal": signal, "exit_ns": time.monotonic_ns(), **more})

    def ready(self, address: str) -> None:
        self._guest.say({"event": "ready", "address": address})

    def close(self) -> None:
        self._guest.hang_up()
        self._agent.hang_up()
        for thread in self._threads:
            thread.join(timeout=5)
        self.pipe.finish(2)
        self.channel.close()
        self._guest.close()
        self._agent.close()

    def _act(self) -> None:
        try:
            self._script(self._agent)
            if self._obeys == "itself":
                self.exits()
            while self._agent.read() is not None:
                pass
            if self._obeys == "eof":
                self.exits()
        except (OSError, ValueError):
            return  # the test is over

    def _serve(self) -> None:
        try:
            while (call := self._guest.read()) is not None:
                if call["op"] == "signal":
                    self._guest.say({"id": call["id"], "ok": True})
                    if call["signal"] == self._obeys:
                        self.exits(code=None, signal=15 if self._obeys == "TERM" else 9)
                    continue
                reply = self._changes if call["op"] == "change_times" else self._answers(call)
                if reply is not None:
                    self._guest.say({"id": call["id"], "ok": True, **reply})
        except (OSError, ValueError):
            return
