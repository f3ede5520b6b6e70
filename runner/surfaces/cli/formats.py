"""Formats of CLI output that are one JSON object a line, each read into a `CliResult`.

What the fields mean was read off the programs' own output. A figure that a format does not give stays None.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from runner.surfaces.cli.result import (
    CliResult,
    CliUsage,
    Kinds,
    Lines,
    OutputLines,
    Spoken,
    kept,
    number_findings,
)
from runner.wire.values import as_list, as_object, as_text

_CLINE_USAGE = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
#: Denied calls that are named.
_DENIED = 1000


def gemini_stream_json(lines: Lines, kinds: Kinds) -> CliResult:
    """`init`, `message` (pieces of text), `tool_use`, `tool_result`, at the end `result` with `stats`.

    The total counts every model that was asked, that of side requests too; usage is therefore the largest model's.
    """
    stream = OutputLines(lines, kinds, spoken=Spoken(""))
    result: dict[str, Any] | None = None
    result_ns: int | None = None
    model: str | None = None
    for t_ns, line in stream.objects():
        match line.get("type"):
            case "init":
                model = as_text(kept(line.get("model")))
            case "message" if line.get("role") == "assistant":
                stream.spoken.append(as_text(line.get("content")) or "")
            case "tool_use":
                stream.called(line.get("tool_id"), line.get("tool_name"), t_ns)
            case "tool_result":
                stream.ended(line.get("tool_id"), failed=line.get("status") != "success")
            case "result":
                result, result_ns = kept(line), t_ns
    if result is None:
        stream.no_result()
        result = {}
    stats = as_object(result.get("stats"))
    models = [as_object(model) for model in as_object(stats.get("models")).values()] or [stats]
    main = max(models, key=lambda one: stream.numbers.count(one.get("total_tokens"), "stats.total_tokens") or 0)
    return _result(
        "gemini-stream-json",
        stream,
        result_ns,
        usage=stream.usage(main, "stats", "input", "output_tokens", "cached"),
        duration_ms=stream.numbers.amount(stats.get("duration_ms"), "stats.duration_ms"),
        subtype=as_text(result.get("status")),
        is_error=result.get("status") not in (None, "success"),
        text=stream.spoken.text,
        model=model,
    )


def codex_json(lines: Lines, kinds: Kinds) -> CliResult:
    """`thread.started`, `turn.started`, `item.started` and `item.completed` by the item's type, at the end
    `turn.completed` with the usage, or `turn.failed`. It has no names of tools and no durations.
    """
    item_kinds = {
        "command_execution": "execute",
        "file_change": "edit",
        "web_search": "fetch",
        "mcp_tool_call": "other",
        "todo_list": "think",
    }
    stream = OutputLines(lines, kinds)
    ended: dict[str, Any] | None = None
    ended_ns: int | None = None
    for t_ns, line in stream.objects():
        item = as_object(line.get("item"))
        kind = item_kinds.get(as_text(item.get("type")) or "")
        match line.get("type"):
            case "item.started" | "item.completed" if kind is not None:
                stream.called(item.get("id"), item.get("type"), t_ns, kind=kind)
                if line["type"] == "item.completed":
                    stream.ended(item.get("id"), failed=item.get("status") == "failed" or bool(item.get("exit_code")))
            case "item.completed" if item.get("type") == "agent_message":
                stream.spoken.append(as_text(item.get("text")) or "")
            case "turn.completed" | "turn.failed":
                ended, ended_ns = kept(line), t_ns
    if ended is None:
        stream.no_result()
        ended = {}
    usage = as_object(ended.get("usage"))
    counted = stream.usage(usage, "usage", "input_tokens", "output_tokens", "cached_input_tokens")
    if counted is not None and counted.cached_read > counted.input:
        stream.numbers.fault("usage.cached_input_tokens: more than the input that it is a part of")
        counted = None
    return _result(
        "codex-json",
        stream,
        ended_ns,
        # Its input holds what came from the cache.
        usage=replace(counted, input=counted.input - counted.cached_read) if counted is not None else None,
        subtype=as_text(ended.get("type")),
        is_error=ended.get("type") == "turn.failed",
    )


def opencode_json(lines: Lines, kinds: Kinds) -> CliResult:
    """`step_start`, `text`, `tool_use` (when it has ended), `step_finish` with that step's tokens; no last line, so the
    last `step_finish` whose reason is not tool calls is the result. `error` lines are errors.
    """
    stream = OutputLines(lines, kinds)
    total: CliUsage | None = CliUsage(0, 0)
    steps = 0
    reason: str | None = None
    result_ns: int | None = None
    failed = False
    for t_ns, line in stream.objects():
        part = as_object(line.get("part"))
        match line.get("type"):
            case "text":
                stream.spoken.append(as_text(part.get("text")) or "")
            case "tool_use":
                state = as_object(part.get("state"))
                stream.called(part.get("callID"), part.get("tool"), t_ns)
                stream.ended(part.get("callID"), failed=state.get("status") == "error")
            case "step_finish":
                tokens, steps = as_object(part.get("tokens")), steps + 1
                cache = as_object(tokens.get("cache"))
                told = {**tokens, "cache.read": cache.get("read"), "cache.write": cache.get("write")}
                total = stream.added(total, told, "tokens", "input", "output", "cache.read", "cache.write")
                reason = as_text(part.get("reason"))
                if reason != "tool-calls":
                    result_ns = t_ns
            case "error":
                failed = True
    if result_ns is None:
        stream.no_result()
    return _result(
        "opencode-json",
        stream,
        result_ns,
        usage=total if steps else None,
        turns=steps,
        stop=reason,
        is_error=failed,
    )


def vibe_streaming(lines: Lines, kinds: Kinds) -> CliResult:
    """`message`, `effect` (a tool call that has ended), `callback` (an approval); it has no last line and no usage: the
    result is the assistant's last message.
    """
    families = {"shell": "execute", "file_read": "read", "file_edit": "edit", "file_write": "edit"}
    stream = OutputLines(lines, kinds)
    result_ns: int | None = None
    denied: list[str] = []
    for t_ns, line in stream.objects():
        match line.get("type"):
            case "message" if line.get("role") == "assistant":
                result_ns = t_ns
                for part in as_list(line.get("content")):
                    stream.spoken.append(as_text(as_object(part).get("text")) or "")
            case "effect":
                state, detail = as_object(line.get("state")), as_object(line.get("detail"))
                kind = families.get(as_text(detail.get("kind")) or "")
                stream.called(line.get("id"), detail.get("toolName"), t_ns, kind=kind)
                stream.ended(line.get("id"), failed=state.get("status") != "completed")
                if state.get("decision") not in (None, "execute") and len(denied) < _DENIED:
                    denied.append(as_text(line.get("id")) or "")
    if result_ns is None:
        stream.no_result()
    return _result("vibe-streaming", stream, result_ns, denied=tuple(denied))


def cline_json(lines: Lines, kinds: Kinds) -> CliResult:
    """`agent_event` (its `event` opens and closes text and tool calls) and at the end `run_result`."""
    stream = OutputLines(lines, kinds)
    result: dict[str, Any] | None = None
    result_ns: int | None = None
    for t_ns, line in stream.objects():
        event = as_object(line.get("event"))
        if line.get("type") == "run_result":
            result, result_ns = kept(line), t_ns
        elif event.get("contentType") == "tool":
            stream.called(event.get("toolCallId"), event.get("toolName"), t_ns)
            if event.get("type") == "content_end":
                outputs = [as_object(item) for item in as_list(event.get("output"))]
                failed = bool(event.get("error")) or any(output.get("success") is False for output in outputs)
                stream.ended(event.get("toolCallId"), failed=failed)
        elif event.get("contentType") == "text" and event.get("type") == "content_end":
            stream.spoken.append(as_text(event.get("text")) or "")
    if result is None:
        stream.no_result()
        result = {}
    reason = as_text(result.get("finishReason"))
    return _result(
        "cline-json",
        stream,
        result_ns,
        usage=stream.usage(as_object(result.get("usage")), "usage", *_CLINE_USAGE),
        duration_ms=stream.numbers.amount(result.get("durationMs"), "durationMs"),
        turns=stream.numbers.count(result.get("iterations"), "iterations"),
        subtype=reason,
        is_error=reason not in (None, "completed"),
        text=as_text(result.get("text")) or stream.spoken.text,
        model=as_text(as_object(result.get("model")).get("id")),
    )


def _result(parser: str, stream: OutputLines, result_ns: int | None, **fields: Any) -> CliResult:
    stream.findings.extend(number_findings(stream.numbers))
    return CliResult(
        parser=parser,
        result_ns=result_ns,
        tool_calls=stream.calls,
        findings=stream.findings,
        **{"text": stream.spoken.text, **fields},
    )
