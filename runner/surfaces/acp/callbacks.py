"""The client's callbacks, really served: fs/*, terminal/* by the guest with the agent's uid, elicitation by policy.

fs/* goes through the editor's buffers: unsaved text is what the agent gets, every mediated write is in the ledger.
Answers come as `Answer` on the driver's loop; the round trip to the guest is one line each way.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from runner.acp.buffers import EditorBuffers
from runner.acp.elicit import filled
from runner.config.policy import Policy
from runner.errors import InfraError
from runner.guest.channel import MAX_TEXT, SHORT_TEXT, UTF8, utf8
from runner.sandbox.channel import GuestRefused, Reply
from runner.sandbox.guest_client import GuestClient

#: JSON-RPC and ACP error codes (ACP v1 schema, ErrorCode).
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002

_CODES: Mapping[str, int] = {
    "not_found": RESOURCE_NOT_FOUND,
    "unknown_terminal": RESOURCE_NOT_FOUND,
    "denied": INVALID_PARAMS,
    "not_a_file": INVALID_PARAMS,
    "not_text": INVALID_PARAMS,
    "too_large": INVALID_PARAMS,
    "bad_request": INVALID_PARAMS,
}
#: Bytes of terminal output kept where terminal/create names no limit.
_OUTPUT_LIMIT = 1024 * 1024
#: Of an agent's words that are handed to the guest (a command, a path): no kernel takes more, and the guest's memory is
#: scarce.
_CALL_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Answer:
    """A result, or an error with `code` and `message`."""

    result: dict[str, Any] | None = None
    code: int | None = None
    message: str = ""


Respond = Callable[[Answer], None]
WhenDone = Callable[[Future[Reply], Callable[[Future[Reply]], None]], None]


class Callbacks:
    """Serves one session's callbacks. `when_done` brings the guest's replies back onto the driver's loop."""

    def __init__(
        self, guest: GuestClient, when_done: WhenDone, policy: Policy, cwd: str, roots: tuple[str, ...]
    ) -> None:
        self._guest = guest
        self._when_done = when_done
        self._policy = policy
        self._cwd = cwd
        self._roots = list(roots)
        self._terminals = itertools.count(1)
        self.buffers = EditorBuffers()

    def serve(self, method: str, params: dict[str, Any], seq: int, t_ns: int, respond: Respond) -> None:
        """Serve a request that passed the capability gate; `respond` is called once, now or later."""
        handler = _HANDLERS.get(method)
        if handler is None:
            respond(Answer(code=INTERNAL_ERROR, message=f"{method} has no handler"))
            return
        handler(self, params, seq, t_ns, respond)

    def _ask(self, respond: Respond, then: Callable[[Reply], dict[str, Any]], op: str, **arguments: Any) -> None:
        def ready(future: Future[Reply]) -> None:
            try:
                respond(Answer(result=then(future.result())))
            except GuestRefused as no:
                respond(Answer(code=_CODES.get(no.code, INTERNAL_ERROR), message=no.message))
            except InfraError as problem:
                respond(Answer(code=INTERNAL_ERROR, message=str(problem)))

        words = {name: value for name, value in arguments.items() if not name.endswith(UTF8)}
        if len(json.dumps(words)) > _CALL_BYTES:
            respond(Answer(code=INVALID_PARAMS, message=f"{op}: more than {_CALL_BYTES} bytes"))
            return
        self._when_done(self._guest.submit(op, **arguments), ready)

    # fs

    def _read(self, params: dict[str, Any], _seq: int, _t_ns: int, respond: Respond) -> None:
        path = params["path"]
        line, limit = params.get("line"), params.get("limit")
        if not self.buffers.needs_disk(path):
            respond(Answer(result={"content": self.buffers.read(path, None, line, limit)}))
            return
        self._ask(
            respond,
            lambda reply: {"content": self.buffers.read(path, reply["content"], line, limit)},
            "fs.read",
            path=path,
            roots=self._roots,
        )

    def _write(self, params: dict[str, Any], seq: int, t_ns: int, respond: Respond) -> None:
        path, content = params["path"], params["content"]

        def written(reply: Reply) -> dict[str, Any]:
            self.buffers.write(path, content, reply["before"], seq, t_ns)
            return {}

        text = utf8(content)
        if len(text) > MAX_TEXT:
            message = f"{path}: {len(text)} bytes, at most {MAX_TEXT} are written"
            respond(Answer(code=INVALID_PARAMS, message=message))
            return
        short = len(text) <= SHORT_TEXT
        sent = {"content": content} if short else {"content" + UTF8: base64.b64encode(text).decode("ascii")}
        self._ask(respond, written, "fs.write", path=path, roots=self._roots, **sent)

    # terminal

    def _create(self, params: dict[str, Any], _seq: int, _t_ns: int, respond: Respond) -> None:
        terminal = f"term-{next(self._terminals)}"
        limit = params.get("outputByteLimit")
        self._ask(
            respond,
            lambda _reply: {"terminalId": terminal},
            "terminal.create",
            terminal=terminal,
            command=params["command"],
            args=params.get("args") or [],
            env=params.get("env") or [],
            cwd=params.get("cwd") or self._cwd,
            roots=self._roots,
            limit=_OUTPUT_LIMIT if limit is None else limit,
        )

    def _output(self, params: dict[str, Any], _seq: int, _t_ns: int, respond: Respond) -> None:
        def result(reply: Reply) -> dict[str, Any]:
            body = {"output": reply["output"], "truncated": reply["truncated"]}
            return body if reply["exit"] is None else {**body, "exitStatus": reply["exit"]}

        self._ask(respond, result, "terminal.output", terminal=params["terminalId"])

    def _wait(self, params: dict[str, Any], _seq: int, _t_ns: int, respond: Respond) -> None:
        self._ask(
            respond,
            lambda reply: {"exitCode": reply["exitCode"], "signal": reply["signal"]},
            "terminal.wait",
            terminal=params["terminalId"],
        )

    def _kill(self, params: dict[str, Any], _seq: int, _t_ns: int, respond: Respond) -> None:
        self._ask(respond, _nothing, "terminal.kill", terminal=params["terminalId"])

    def _release(self, params: dict[str, Any], _seq: int, _t_ns: int, respond: Respond) -> None:
        self._ask(respond, _nothing, "terminal.release", terminal=params["terminalId"])

    # elicitation

    def _elicit(self, params: dict[str, Any], _seq: int, _t_ns: int, respond: Respond) -> None:
        action = self._policy.elicitation
        content = {"content": filled(params.get("requestedSchema"))} if action == "accept" else {}
        respond(Answer(result={"action": action, **content}))


def _nothing(_reply: Reply) -> dict[str, Any]:
    return {}


_HANDLERS: Mapping[str, Callable[[Callbacks, dict[str, Any], int, int, Respond], None]] = {
    "fs/read_text_file": Callbacks._read,
    "fs/write_text_file": Callbacks._write,
    "terminal/create": Callbacks._create,
    "terminal/output": Callbacks._output,
    "terminal/wait_for_exit": Callbacks._wait,
    "terminal/kill": Callbacks._kill,
    "terminal/release": Callbacks._release,
    "elicitation/create": Callbacks._elicit,
}
