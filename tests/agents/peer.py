"""An independent peer: an agent on the official Python ACP SDK that uses every callback of its client and judges it.

It runs in the image `peer-python`. What a client answers is parsed by the SDK, not by us; each answer is then held
against what this process sees on its own disk. The first wrong one ends the turn with an error. `~/.peer.json` holds
`{"repair": <text of src/semver.js>}`; with the argument `ask` or `wait` it stops there until the client cancels.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import urllib.request
from pathlib import Path
from typing import Any

import acp
from acp import helpers
from acp import schema as s
from acp.exceptions import RequestError

MODE = sys.argv[1] if len(sys.argv) > 1 else "all"
INFO = s.Implementation(name="peer-python", version="1")


def demand(fact: Any, words: str) -> None:
    """A claim about the client; the first that fails is the turn's error."""
    if not fact:
        raise RequestError(-32000, f"the client is wrong: {words}")
    print(f"judged: {words}", file=sys.stderr, flush=True)


async def refused(call: Any, code: int, words: str) -> None:
    """The client must answer `call` with the error `code`."""
    try:
        await call
    except RequestError as error:
        demand(error.code == code, f"{words} is refused with {code}")
    else:
        demand(False, f"{words} is refused with {code}")


class Peer:
    """The agent's half. The SDK finds the methods by their names."""

    client: Any

    def __init__(self) -> None:
        self.cwd = ""
        self.cancelled = asyncio.Event()

    def on_connect(self, client: Any) -> None:
        self.client = client

    async def initialize(self, protocol_version: int, **_: Any) -> s.InitializeResponse:
        return s.InitializeResponse(protocol_version=protocol_version, agent_info=INFO)

    async def new_session(self, cwd: str, **_: Any) -> s.NewSessionResponse:
        self.cwd = cwd
        modes = s.SessionModeState(
            current_mode_id="plain",
            available_modes=[s.SessionMode(id="plain", name="Plain"), s.SessionMode(id="other", name="Other")],
        )
        return s.NewSessionResponse(session_id="peer-session", modes=modes)

    async def cancel(self, **_: Any) -> None:
        self.cancelled.set()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> s.PromptResponse:
        demand(prompt[0].type == "text", "a prompt is a text block")
        await self.updates(session_id)
        if MODE in ("ask", "wait"):
            await (self.cancelled_ask(session_id) if MODE == "ask" else self.cancelled_wait(session_id))
            return s.PromptResponse(stop_reason="cancelled")
        await self.files(session_id)
        await self.permission(session_id)
        await self.terminals(session_id)
        await self.form(session_id)
        await asyncio.to_thread(ask_the_model)
        repair = json.loads((Path.home() / ".peer.json").read_text("utf-8"))["repair"]
        await self.client.write_text_file(session_id=session_id, path=f"{self.cwd}/src/semver.js", content=repair)
        return s.PromptResponse(stop_reason="end_turn")

    # session/update, every kind that the SDK has in the stable protocol

    async def updates(self, session_id: str) -> None:
        text = acp.text_block("héllo, wörld 🌍")
        entry = acp.plan_entry("Look", status="in_progress")
        for update in (
            acp.update_user_message(text),
            acp.update_agent_thought(text),
            acp.update_agent_message(text),
            acp.update_plan([entry]),
            helpers.update_available_commands([s.AvailableCommand(name="go", description="Go on")]),
            helpers.update_current_mode("other"),
            s.ConfigOptionUpdate(session_update="config_option_update", config_options=[]),
            s.SessionInfoUpdate(session_update="session_info_update", title="A peer"),
            s.UsageUpdate(session_update="usage_update", used=10, size=1000),
            acp.start_tool_call("call-1", "Look", kind="read", status="pending"),
            acp.update_tool_call("call-1", status="completed", content=[acp.tool_content(text)]),
        ):
            await self.client.session_update(session_id=session_id, update=update)

    # fs/*

    async def files(self, session: str) -> None:
        client, path = self.client, f"{self.cwd}/package.json"
        disk = Path(path).read_text("utf-8")
        lines = disk.splitlines(keepends=True)

        async def read(**part: int) -> str:
            reply = await client.read_text_file(session_id=session, path=path, **part)
            return str(reply.content)

        demand(await read() == disk, "a file is read whole")
        demand(await read(line=2) == "".join(lines[1:]), "a file is read from a line on, counted from 1")
        demand((await read(line=2, limit=2)).rstrip("\n") == "".join(lines[1:3]).rstrip("\n"), "line and limit")
        demand(await read(limit=0) == "", "a limit of no line")
        demand(await read(line=1000) == "", "a line beyond the end")
        note = f"{self.cwd}/new/folder/nöte.txt"
        await client.write_text_file(session_id=session, path=note, content="grüße\r\nno newline")
        demand(Path(note).read_bytes() == "grüße\r\nno newline".encode(), "a written file is on the disk as sent")
        again = await client.read_text_file(session_id=session, path=note)
        demand(again.content == "grüße\r\nno newline", "a written file is read back as sent")
        missing = client.read_text_file(session_id=session, path=f"{self.cwd}/missing")
        await refused(missing, -32002, "reading a file that is not there")
        outside = client.read_text_file(session_id=session, path="/etc/passwd")
        await refused(outside, -32602, "reading outside the session's folders")
        Path(note).unlink()
        Path(note).parent.rmdir()
        Path(note).parent.parent.rmdir()

    # session/request_permission

    def options(self) -> list[s.PermissionOption]:
        kinds = ("allow_always", "reject_once", "allow_once")  # the ids say nothing on purpose
        return [s.PermissionOption(option_id=f"id-{n}", name=f"Answer {n}", kind=k) for n, k in enumerate(kinds)]

    async def ask(self, session: str) -> Any:
        call = s.ToolCallUpdate(tool_call_id="call-2", kind="edit", title="Edit", raw_input={"path": "src/semver.js"})
        reply = await self.client.request_permission(session_id=session, tool_call=call, options=self.options())
        return reply.outcome

    async def announce(self, session: str) -> None:
        start = acp.start_tool_call("call-2", "Edit", kind="edit", status="pending")
        await self.client.session_update(session_id=session, update=start)

    async def permission(self, session: str) -> None:
        await self.announce(session)
        outcome = await self.ask(session)
        demand(outcome.outcome == "selected", "an ask is answered with a choice")
        demand(outcome.option_id == "id-2", "the choice is the policy's, by kind")
        done = acp.update_tool_call("call-2", status="completed")
        await self.client.session_update(session_id=session, update=done)

    # terminal/*

    async def create(self, session: str, command: str, *args: str, **more: Any) -> str:
        reply = await self.client.create_terminal(session_id=session, command=command, args=list(args), **more)
        return str(reply.terminal_id)

    async def terminals(self, session: str) -> None:
        client = self.client
        env = [s.EnvVariable(name="PEER", value="from peer")]
        one = await self.create(session, "sh", "-c", 'pwd; echo "$PEER"; exit 3', cwd=f"{self.cwd}/src", env=env)
        ended = await client.wait_for_terminal_exit(session_id=session, terminal_id=one)
        demand((ended.exit_code, ended.signal) == (3, None), "a command's exit code")
        output = await client.terminal_output(session_id=session, terminal_id=one)
        demand(output.output == f"{self.cwd}/src\nfrom peer\n", "a command's folder, environment and output")
        demand(output.exit_status.exit_code == 3 and not output.truncated, "a command's end in its output")
        await client.release_terminal(session_id=session, terminal_id=one)
        gone = client.terminal_output(session_id=session, terminal_id=one)
        await refused(gone, -32002, "output of a released terminal")

        two = await self.create(session, "seq", "1", "100000", output_byte_limit=10)
        await client.wait_for_terminal_exit(session_id=session, terminal_id=two)
        output = await client.terminal_output(session_id=session, terminal_id=two)
        demand(output.truncated and output.output.endswith("100000\n"), "of too much output the end is kept")
        demand(len(output.output.encode()) <= 10, "no more bytes than the limit")
        await client.release_terminal(session_id=session, terminal_id=two)

        three = await self.create(session, "sh", "-c", "echo begun; sleep 600")
        polls = 1
        while not (output := await client.terminal_output(session_id=session, terminal_id=three)).output:
            await asyncio.sleep(0.01)
            polls += 1
        print(f"polls: {polls}", file=sys.stderr)
        demand(output.output == "begun\n" and output.exit_status is None, "output of a command that still runs")
        waiting = asyncio.ensure_future(client.wait_for_terminal_exit(session_id=session, terminal_id=three))
        await asyncio.sleep(0)
        await client.kill_terminal(session_id=session, terminal_id=three)
        ended = await waiting
        demand(ended.exit_code is None and ended.signal is not None, "a killed command ended by a signal")
        output = await client.terminal_output(session_id=session, terminal_id=three)
        demand(output.output == "begun\n", "the output of a killed command is still there")
        start = acp.start_tool_call("call-3", "Run", kind="execute", status="completed")
        start.content = [acp.tool_terminal_ref(three)]
        await client.session_update(session_id=session, update=start)
        await client.release_terminal(session_id=session, terminal_id=three)

    # elicitation/create

    async def form(self, session: str) -> None:
        asked = s.ElicitationSchema(
            properties={
                "part": s.ElicitationStringPropertySchema(type="string", enum=["source", "tests"]),
                "sure": s.ElicitationBooleanPropertySchema(type="boolean", default=True),
            },
            required=["part"],
        )
        mode = s.ElicitationFormSessionMode(session_id=session, requested_schema=asked)
        reply = await self.client.create_elicitation(message="Which part?", mode=mode)
        demand(reply.action == "accept", "a form is accepted, as the policy says")
        demand(reply.content == {"part": "source", "sure": True}, "a form comes back filled in")

    # what is open when the client cancels

    async def cancelled_ask(self, session: str) -> None:
        await self.announce(session)
        outcome = await self.ask(session)
        demand(outcome.outcome == "cancelled", "an open ask is answered `cancelled`")
        await asyncio.wait_for(self.cancelled.wait(), 5)
        again = await self.ask(session)
        demand(again.outcome == "cancelled", "an ask after the cancel too")
        read = await self.client.read_text_file(session_id=session, path=f"{self.cwd}/package.json")
        demand("semver" in read.content, "other requests are served until the prompt's response")

    async def cancelled_wait(self, session: str) -> None:
        one = await self.create(session, "sleep", "600")
        waiting = asyncio.ensure_future(self.client.wait_for_terminal_exit(session_id=session, terminal_id=one))
        await self.cancelled.wait()
        await self.client.kill_terminal(session_id=session, terminal_id=one)
        demand((await waiting).signal is not None, "a terminal can be killed after the cancel")
        await self.client.release_terminal(session_id=session, terminal_id=one)


def ask_the_model() -> None:
    """One request to the scripted model, so that the script is served."""
    body = {"model": "peer", "max_tokens": 100, "messages": [{"role": "user", "content": "go"}], "tools": []}
    request = urllib.request.Request(
        os.environ["MODEL_URL"] + "/v1/messages",
        json.dumps(body).encode(),
        {"content-type": "application/json", "x-api-key": "none"},
    )
    with urllib.request.urlopen(request) as response:
        json.load(response)


if __name__ == "__main__":
    asyncio.run(acp.run_agent(Peer(), use_unstable_protocol=True))
