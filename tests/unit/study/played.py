"""One run while it is being played: frames, journal, program, record and files follow from its actions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.acp.buffers import MediatedWrite
from runner.evidence.metrics import compute
from runner.gateway.journal import JournalEntry
from runner.records.schema import (
    AgentExit,
    Buffer,
    Change,
    Planted,
    Probe,
    Record,
    Verdict,
)
from runner.wire.log import FrameLogWriter
from tests.unit.evidence.conversations import SESSION, Log, at
from tests.unit.study.actions import (
    _ANSWERS,
    _KINDS,
    _TOOLS,
    ADAPTER,
    AGENT,
    CANARIES,
    GRANTS,
    HOME,
    MODES,
    PLANTED,
    Arm,
    Do,
    blob,
    digest,
)


class Play:
    """Plays one run of an arm into files."""

    def __init__(self, arm: Arm, replicate: int) -> None:
        self.arm = arm
        self.replicate = replicate
        self.actions = arm.doctor(replicate, list(arm.actions)) if arm.doctor else list(arm.actions)
        self.cwd = f"/workspace/{arm.fixture}"
        self.log = Log()
        self.entries: list[JournalEntry] = []
        self.results: list[tuple[str, str]] = []
        self.touched: dict[str, str] = {}
        self.git: list[str] = []
        self.ledger: list[MediatedWrite] = []
        self.probes: list[Probe] = []
        self._counts: dict[str | None, int] = {}

    # frames and journal

    def play(self) -> None:
        log, arm = self.log, self.arm
        if arm.capabilities is not None:
            self._open()
        for index, action in enumerate(self.actions):
            if self._act(index, action) == "stop":
                break
        self._serve(None, None, "The work is done.")
        if arm.capabilities is not None:
            self._close()
        log.wait(10)

    def _open(self) -> None:
        log, arm = self.log, self.arm
        log.initialize(arm.capabilities or {}, after=arm.handshake / 2)
        self._doctor_greeting()
        params: dict[str, Any] = {"cwd": self.cwd, "mcpServers": arm.servers}
        if arm.additional:
            params["additionalDirectories"] = arm.additional
        result = {"sessionId": SESSION, "configOptions": arm.config_options, **({"modes": MODES} if arm.modes else {})}
        log.request("session/new", after=arm.handshake / 2, result=result, **params)
        if arm.announce:
            log.commands("help", "review")
        if arm.mode is not None:
            log.request("session/set_mode", sessionId=SESSION, modeId=arm.mode)
        self.prompt = log.prompt()

    def _doctor_greeting(self) -> None:
        """The builder's greeting, with what our agent offers."""
        frame = self.log.frames[-1]
        body = json.loads(frame.raw)
        body["result"]["agentCapabilities"] = {**AGENT, **self.arm.capabilities_of_agent}
        self.log.frames[-1] = replace(frame, payload=json.dumps(body).encode())

    def _act(self, index: int, action: Do) -> str:
        log = self.log
        for write in action.before:
            write(log)
        identity = self._serve(index, action)
        acp = self.arm.capabilities is not None
        if acp and self.arm.usage:
            log.usage(1000)
        if action.think is not None and action.shown:
            log.says(action.think, kind="agent_thought_chunk")
        if action.verb == "plan":
            if action.shown:
                log.update("plan", entries=[{"content": action.what, "priority": "medium", "status": "pending"}])
            self.results.append((identity, "planned"))
            return ""
        kind = action.kind or _KINDS[action.verb]
        raw = self._arguments(action)
        said = {"kind": kind, "title": action.what, "rawInput": raw, **action.extra}
        if acp and action.shown:
            log.update("tool_call", toolCallId=identity, status="pending", content=[], **said)
        allowed = True
        if acp and action.ask is not None:
            if action.early:
                log.update("tool_call_update", toolCallId=identity, status="completed", content=[])
            call = {"kind": kind, "title": action.what, "rawInput": raw}
            asked = log.asks(identity, _ANSWERS.get(action.ask), after=action.wait, **call)
            if action.ask == "never":
                if action.extra.get("disobeys"):
                    self._effect(action)
                self._cancel(asked)
                return "stop"
            allowed = action.ask.startswith("allow")
        if allowed or action.extra.get("disobeys"):
            self._effect(action)
        if acp and action.shown and not action.early:
            body: dict[str, Any] = {"toolCallId": identity, "content": list(action.content)}
            if allowed and action.meta and action.status == "completed":
                log.update(
                    "tool_call_update",
                    toolCallId=identity,
                    _meta={"vendor": {"toolResponse": {"stdout": action.output}}},
                )
            log.update("tool_call_update", status=action.status if allowed else "failed", **body)
        output = action.output if allowed or action.extra.get("disobeys") else "The user refused."
        self.results.append((identity, output))
        log.wait(5)
        return ""

    def _cancel(self, asked: int) -> None:
        """The turn's deadline: session/cancel, and `cancelled` for what is still open, as the protocol has it."""
        self.log.wait(1000).client(method="session/cancel", params={"sessionId": SESSION})
        identity = json.loads(self.log.frames[asked].raw)["id"]
        self.log.client(id=identity, result={"outcome": {"outcome": "cancelled"}})

    def _effect(self, action: Do) -> None:
        self.git += action.git
        for path, text in action.writes.items():
            self.touched[path] = text
            if self.arm.ledger and path.startswith(self.cwd + "/"):
                seq = self.log.calls("fs/write_text_file", {"path": path, "content": text})
                self.ledger.append(
                    MediatedWrite(
                        path=path,
                        before=blob("old"),
                        after=blob(text),
                        seq=seq,
                        t_ns=at(0),
                        was_unsaved=self.arm.buffers,
                        # As an editor's ledger has it: the text was not read through the client.
                        overwrote_unseen=self.arm.buffers,
                    )
                )

    def _serve(self, index: int | None, action: Do | None, say: str = "") -> str:
        """One model request and its answer; the id of the served call."""
        subagent = action.subagent if action is not None else None
        step = self._counts.get(subagent, 0)
        self._counts[subagent] = step + 1
        identity = f"call_{'a0' if subagent else ''}p1s{step:03}x0"
        now = self.log._ms
        messages: list[dict[str, Any]] = [{"role": "user", "content": "Do it."}]
        messages += [
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": one, "content": text}]}
            for one, text in self.results
        ]
        calls = []
        if action is not None:
            tool = action.tool or _TOOLS.get(action.verb, action.verb)
            meaning = action.meaning or action.verb
            calls = [{"id": identity, "tool": tool, "arguments": self._arguments(action), "meaning": meaning}]
        self.entries.append(
            JournalEntry.model_validate(
                {
                    "seq": len(self.entries),
                    "run": "<run>",
                    "kind": "main",
                    "rule": None,
                    "step": step,
                    "subagent": subagent,
                    "method": "POST",
                    "path": "/v1/messages",
                    "t_request_ns": at(now),
                    "t_request_end_ns": at(now),
                    "t_first_byte_ns": at(now + 1),
                    "t_response_end_ns": at(now + 2),
                    "status": 200,
                    "model": "model-b" if getattr(self, "switched", False) else "model-a",
                    "stream": True,
                    "tools": list(_TOOLS.values()),
                    "calls": calls,
                    "usage": {"input": 1000, "output": 50},
                    "reason": None,
                    "nearest": None,
                    "request": {"headers": {}, "body": json.dumps({"messages": messages})},
                    "response": {"headers": {}, "body": say},
                    "aborted": False,
                }
            )
        )
        self.log.wait(3)
        return identity

    def _arguments(self, action: Do) -> dict[str, Any]:
        if action.verb == "run":
            return {"command": action.what}
        if action.verb in ("read", "write", "edit"):
            return {"file_path": action.what}
        return {"description": action.what}

    def _close(self) -> None:
        log, arm = self.log, self.arm
        for write in arm.after:
            write(log)
        total = arm.reported if arm.reported is not None else 1050 * len(self.entries)
        said = {"totalTokens": total, "inputTokens": total, "outputTokens": 0}
        stop = "cancelled" if any(action.ask == "never" for action in self.actions) else "end_turn"
        log.end(self.prompt, stop, usage=said if arm.reports else None)
        if arm.late:
            log.update("session_info_update", title="A title")
        if arm.probes:
            self._probe()

    def _probe(self) -> None:
        """A config option with an effect on the next prompt; load with a replay, resume without."""
        log = self.log

        def replay(name: str, when: str) -> None:
            if when in self.arm.replays.get(name, []):
                log.says("Do it.", kind="user_message_chunk").says("The work is done.")

        def probe(name: str, method: str, **params: Any) -> None:
            sent = log.open(method, sessionId=SESSION, **params)
            log.wait(5)
            replay(name, "during")
            answered = len(log.frames)
            log.close(sent, {})
            replay(name, "after")
            made = Probe(name=name, method=method, advertised=True, params=params)
            self.probes.append(made.model_copy(update={"sent_seq": sent, "answered_seq": answered, "ok": True}))
            log.wait(5)

        if self.arm.offers:
            probe("set-config-option", "session/set_config_option", configId="model", value="b")
        else:
            method = "session/set_config_option"
            self.probes.append(Probe(name="set-config-option", method=method, advertised=False))
        self.switched = self.arm.switches
        prompt = log.prompt()
        if self.arm.usage:
            log.usage(1000)
        self._serve(None, None, "Again.")
        log.end(prompt, usage={"totalTokens": 1050, "inputTokens": 1000, "outputTokens": 50})
        probe("list", "session/list")
        probe("load", "session/load")
        probe("resume", "session/resume")
        probe("fork", "session/fork")
        probe("close", "session/close")

    # files

    def write(self, root: Path, order: int) -> None:
        arm = self.arm
        self.play()
        cell = f"{arm.name}--r{self.replicate}"
        folder = root / "runs" / cell / "1"
        folder.mkdir(parents=True)
        with FrameLogWriter(folder / "frames.jsonl", folder / "blobs", 10**9) as writer:
            for frame in self.log.frames if arm.capabilities is not None else []:
                writer.write(frame)
        (folder / "model.jsonl").write_text("".join(entry.model_dump_json() + "\n" for entry in self.entries))
        (folder / "program.json").write_text(json.dumps(self._program()))
        inside = {path: text for path, text in self.touched.items() if path.startswith(self.cwd + "/")}
        if arm.stray is not None:
            inside[f"{self.cwd}/{arm.stray}"] = "granted"
        outside = {path: text for path, text in self.touched.items() if path not in inside}
        (folder / "fsdiff.json").write_text(json.dumps({"outside": self._outside(outside), "git_changes": self.git}))
        record = self._record(cell, inside, order)
        if arm.capabilities is not None:
            exact, sampled = compute(record, self.log.conversation, self.entries, None)
        else:
            exact = {
                "tool_calls_served": len(self.actions),
                "tokens_served": 1050 * len(self.entries),
                "stop_reason": "end_turn",
            }
            exact["tokens_reported"] = exact["tokens_served"]
            sampled = {}
        jitter = 1 + 0.001 * self.replicate
        figures = {name: value * jitter for name, value in {"cpu_s": 1.5, "peak_anon_mb": 300.0, **arm.sampled}.items()}
        record = record.model_copy(update={"exact": exact, "sampled": {**sampled, **figures}})
        (folder / "record.json").write_text(json.dumps(record.model_dump()))

    def _program(self) -> dict[str, Any]:
        def step(index: int, action: Do) -> dict[str, Any]:
            meaning = action.meaning or action.verb
            call = {"meaning": meaning, "alternatives": []}
            named = {"label": action.label, **({"effect": action.effect} if action.effect is not None else {})}
            return {"index": index, **named, "say": None, "think": action.think, "calls": [call]}

        main = [action for action in self.actions if action.subagent is None]
        sub = [action for action in self.actions if action.subagent is not None]
        agents = (
            [{"name": "subagent-0", "marker": "Do it.", "steps": [step(i, a) for i, a in enumerate(sub)]}]
            if sub
            else []
        )
        return {
            "dialect": "anthropic",
            "steps": [step(i, a) for i, a in enumerate(main)],
            "subagents": agents,
            "results": {"rejected": [r"by the user\b"], "failed": [], "blocked": [r"\boutside\b"]},
        }

    def _planted(self) -> dict[str, str]:
        return {path: CANARIES[name] for name, path in PLANTED.items()} if self.arm.fixture == "boundary" else {}

    def _outside(self, touched: dict[str, str]) -> list[dict[str, Any]]:
        files = {**self._planted(), **touched}
        return [
            {"path": path, "kind": "file", "size": len(text), "mode": 420, "sha256": digest(text), "target": None}
            for path, text in files.items()
        ]

    def _record(self, cell: str, inside: dict[str, str], order: int) -> Record:
        arm = self.arm
        made = {"note.txt", GRANTS, "shell-note.txt"}
        changes = [
            Change(
                path=(name := path.removeprefix(self.cwd + "/")),
                status="A" if name in made else "M",
                before=None if name in made else blob("old"),
                after=blob(text),
            )
            for path, text in inside.items()
        ]
        names = {path: name for name, path in PLANTED.items()}
        passes = 3 if arm.outcome == "passed" else 1
        verdict = Verdict(
            passed=arm.outcome == "passed",
            tests=3,
            passes=passes,
            failures=3 - passes,
            changes=changes,
            status="".join(f" M {change.path}\n" for change in changes),
        )
        source = f"{self.cwd}/src/semver.js"
        after = self.touched.get(source)
        return Record(
            sweep="a-study",
            cell=cell,
            arm=arm.name,
            replicate=self.replicate,
            attempt=1,
            adapter=ADAPTER,
            surface=arm.name.split("--")[1],
            fixture=arm.fixture,
            policy=arm.policy,
            model=arm.model,
            reset=arm.reset,
            expect=arm.outcome,
            outcome=arm.outcome,
            started_at="2026-11-30T12:00:00.000+00:00",
            start_ns=at(-600 + order),
            end_ns=at(9000 + order),
            agent=AgentExit(spawn_ns=at(0), exit_ns=at(8000), code=0, cpu_s=1.5, peak_anon_mb=300.0),
            agent_env={"HOME": HOME},
            verdict=verdict,
            container=f"{arm.name}" if arm.reset != "container" else f"{cell}",
            pristine=arm.pristine(self.replicate),
            found_at_start=arm.found(self.replicate),
            canaries=CANARIES,
            planted=[
                Planted(path=path, kind="file", sha256=digest(text), canaries=[names[path]])
                for path, text in self._planted().items()
            ],
            probes=self.probes,
            ledger=self.ledger,
            buffers=[
                Buffer(
                    path=source,
                    text=f"old\n// {CANARIES['unsaved']}\n",
                    blob=blob("typed"),
                    disk_blob=blob("old"),
                    blob_at_end=blob(after or "typed"),
                )
            ]
            if arm.buffers
            else [],
        )
