"""Each model API as a client speaks it: how a history is asked about, and what an answer says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

TOOLS = ("Read", "Bash")


@dataclass(frozen=True)
class Result:
    """A tool call of the history and what came of it."""

    id: str
    text: str = "ok"
    failed: bool = False
    tool: str = "Bash"


@dataclass
class Answer:
    """What a client makes of an answer's body."""

    text: str = ""
    thought: str = ""
    #: (id, tool, arguments); text where the tool is freeform.
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    stop: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    #: Streams: what came, in order.
    events: list[dict[str, Any]] = field(default_factory=list)


class Speaker:
    """One API. `ask` is a request's body; `path` its path; `read` what comes back."""

    dialect = ""

    def path(self, stream: bool) -> str:
        raise NotImplementedError

    def ask(
        self, results: Sequence[Result], *, prompt: str, stream: bool, tools: Sequence[str] = TOOLS
    ) -> dict[str, Any]:
        raise NotImplementedError

    def read(self, text: str, stream: bool) -> Answer:
        raise NotImplementedError


def events(text: str) -> list[dict[str, Any]]:
    """The data of a stream's events, an end mark left out."""
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]


class Anthropic(Speaker):
    dialect = "anthropic"

    def path(self, stream: bool) -> str:
        return "/v1/messages?beta=true"

    def ask(
        self, results: Sequence[Result], *, prompt: str, stream: bool, tools: Sequence[str] = TOOLS
    ) -> dict[str, Any]:
        messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
        for one in results:
            messages += [
                {"role": "assistant", "content": [{"type": "tool_use", "id": one.id, "name": one.tool, "input": {}}]},
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": one.id, "content": one.text, "is_error": one.failed},
                        {"type": "text", "text": "<system-reminder>be brief</system-reminder>"},
                    ],
                },
            ]
        offered = [{"name": name, "input_schema": {"type": "object"}} for name in tools]
        return {"model": "a-model", "max_tokens": 64, "stream": stream, "messages": messages, "tools": offered}

    def read(self, text: str, stream: bool) -> Answer:
        if not stream:
            whole = json.loads(text)
            answer = Answer(stop=whole["stop_reason"], usage=whole["usage"])
            for block in whole["content"]:
                answer.text += block.get("text", "")
                answer.thought += block.get("thinking", "")
                if block["type"] == "tool_use":
                    answer.calls.append((block["id"], block["name"], block["input"]))
            return answer
        answer = Answer(events=events(text))
        inputs: dict[int, list[str]] = {}
        for event in answer.events:
            delta = event.get("delta", {})
            block = event.get("content_block", {})
            answer.text += delta.get("text", "")
            answer.thought += delta.get("thinking", "")
            if block.get("type") == "tool_use":
                inputs[event["index"]] = [block["id"], block["name"], ""]
            if "partial_json" in delta:
                inputs[event["index"]][2] += delta["partial_json"]
            answer.stop = delta.get("stop_reason", answer.stop)
            answer.usage |= event.get("message", {}).get("usage", {})
        answer.calls = [(number, tool, json.loads(given)) for number, tool, given in inputs.values()]
        return answer


class Chat(Speaker):
    dialect = "openai-chat"

    def path(self, stream: bool) -> str:
        return "/v1/chat/completions"

    def ask(
        self, results: Sequence[Result], *, prompt: str, stream: bool, tools: Sequence[str] = TOOLS
    ) -> dict[str, Any]:
        messages: list[dict[str, Any]] = [{"role": "system", "content": "s"}, {"role": "user", "content": prompt}]
        for one in results:
            called = {"id": one.id, "type": "function", "function": {"name": one.tool, "arguments": "{}"}}
            messages += [
                {"role": "assistant", "content": None, "tool_calls": [called]},
                {"role": "tool", "tool_call_id": one.id, "content": one.text},
                {"role": "user", "content": "<system-reminder>be brief</system-reminder>"},
            ]
        offered = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in tools]
        more = {"stream_options": {"include_usage": True}} if stream else {}
        return {"model": "a-model", "stream": stream, "messages": messages, "tools": offered, **more}

    def read(self, text: str, stream: bool) -> Answer:
        if not stream:
            whole = json.loads(text)
            (choice,) = whole["choices"]
            message = choice["message"]
            answer = Answer(
                message["content"] or "", message.get("reasoning_content", ""), stop=choice["finish_reason"]
            )
            for one in message.get("tool_calls", []):
                answer.calls.append((one["id"], one["function"]["name"], json.loads(one["function"]["arguments"])))
            answer.usage = whole["usage"]
            return answer
        assert text.endswith("data: [DONE]\n\n")
        answer = Answer(events=events(text))
        inputs: dict[int, list[str]] = {}
        for event in answer.events:
            answer.usage |= event.get("usage") or {}
            for choice in event["choices"]:
                answer.text += choice["delta"].get("content") or ""
                answer.thought += choice["delta"].get("reasoning_content", "")
                answer.stop = choice["finish_reason"] or answer.stop
                for one in choice["delta"].get("tool_calls", []):
                    if "id" in one:
                        inputs[one["index"]] = [one["id"], one["function"]["name"], ""]
                    inputs[one["index"]][2] += one["function"].get("arguments", "")
        answer.calls = [(number, tool, json.loads(given)) for number, tool, given in inputs.values()]
        return answer


class Responses(Speaker):
    dialect = "openai-responses"
    #: Of the tools offered, those that are freeform.
    freeform = ("patch",)

    def path(self, stream: bool) -> str:
        return "/v1/responses"

    def ask(
        self, results: Sequence[Result], *, prompt: str, stream: bool, tools: Sequence[str] = TOOLS
    ) -> dict[str, Any]:
        items: list[dict[str, Any]] = [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "d"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": prompt}]},
        ]
        for one in results:
            kind, given = ("custom_tool_call", "input") if one.tool in self.freeform else ("function_call", "arguments")
            items += [
                {"type": "reasoning", "id": "rs_1", "summary": []},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I go on."}]},
                {"type": kind, "call_id": one.id, "name": one.tool, given: "{}"},
                {"type": f"{kind}_output", "call_id": one.id, "output": one.text},
            ]
        offered = [
            {"type": "custom", "name": name} if name in self.freeform else {"type": "function", "name": name}
            for name in tools
        ]
        hosted = [{"type": "web_search"}] if tools else []
        more = {"store": False, "include": ["reasoning.encrypted_content"]}
        return {"model": "gpt-5.5", "stream": stream, "input": items, "tools": [*offered, *hosted], **more}

    def read(self, text: str, stream: bool) -> Answer:
        if stream:
            found = events(text)
            names = [line[7:] for line in text.splitlines() if line.startswith("event: ")]
            assert names == [event["type"] for event in found]
            last = found[-1]
            assert last["type"] == f"response.{last['response']['status']}"
            # What the events said piece by piece is what the last one says whole.
            done = [event["item"] for event in found if event["type"] == "response.output_item.done"]
            assert done == last["response"]["output"]
            whole = last["response"]
        else:
            found, whole = [], json.loads(text)
        answer = Answer(events=found, usage=whole["usage"], stop=whole["status"])
        if whole["status"] == "incomplete":
            answer.stop = whole["incomplete_details"]["reason"]
        for item in whole["output"]:
            if item["type"] == "message":
                answer.text += "".join(part["text"] for part in item["content"])
            elif item["type"] == "reasoning":
                answer.thought += "".join(part["text"] for part in item["summary"])
            elif item["type"] == "function_call":
                answer.calls.append((item["call_id"], item["name"], json.loads(item["arguments"])))
            elif item["type"] == "custom_tool_call":
                answer.calls.append((item["call_id"], item["name"], item["input"]))
        return answer


class Gemini(Speaker):
    dialect = "gemini"

    def path(self, stream: bool) -> str:
        return f"/v1beta/models/a-model:{'streamGenerateContent?alt=sse' if stream else 'generateContent'}"

    def ask(
        self, results: Sequence[Result], *, prompt: str, stream: bool, tools: Sequence[str] = TOOLS
    ) -> dict[str, Any]:
        contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": prompt}]}]
        for one in results:
            response = {"error": one.text} if one.failed else {"output": one.text}
            returned = {"id": one.id, "name": one.tool, "response": response}
            contents += [
                {"role": "model", "parts": [{"functionCall": {"id": one.id, "name": one.tool, "args": {}}}]},
                {"role": "user", "parts": [{"functionResponse": returned}]},
            ]
        declared = [{"name": name, "parametersJsonSchema": {}} for name in tools]
        return {"contents": contents, "tools": [{"functionDeclarations": declared}] if tools else []}

    def read(self, text: str, stream: bool) -> Answer:
        found = events(text) if stream else [json.loads(text)]
        answer = Answer(events=found if stream else [])
        for one in found:
            (candidate,) = one["candidates"]
            for part in candidate["content"]["parts"]:
                if part.get("thought"):
                    answer.thought += part["text"]
                else:
                    answer.text += part.get("text", "")
                if "functionCall" in part:
                    called = part["functionCall"]
                    answer.calls.append((called["id"], called["name"], called["args"]))
            answer.stop = candidate.get("finishReason", answer.stop)
            answer.usage |= one.get("usageMetadata", {})
        return answer


SPEAKERS: tuple[Speaker, ...] = (Anthropic(), Chat(), Responses(), Gemini())
