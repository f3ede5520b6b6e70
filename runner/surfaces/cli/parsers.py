"""What a CLI agent's standard output says: named parsers from output lines to one `CliResult`.

A parser is chosen by an adapter's `cli.parser`. It reads what a program prints in that *format*, whichever program
that is; nothing here judges. Every parser survives any line: what it does not understand it keeps as a finding or
passes over.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import starmap
from typing import Any

from runner.config.adapter import Adapter
from runner.errors import UsageError
from runner.records.schema import Finding
from runner.surfaces.cli import formats
from runner.surfaces.cli.result import (
    SPOKEN_BYTES,
    CliResult,
    CliToolCall,
    CliUsage,
    Kinds,
    Lines,
    OutputLines,
    Spoken,
    kept,
    number_findings,
    usage_of,
)
from runner.wire.values import as_list, as_object, as_text

__all__ = ["CliResult", "CliToolCall", "CliUsage", "Kinds", "Lines", "kinds_of", "parse"]

#: ACP tool kind of each meaning of an adapter's tool map.
_MEANINGS = {
    "read": "read",
    "run": "execute",
    "edit": "edit",
    "write": "edit",
    "list": "search",
    "search": "search",
    "plan": "think",
}
#: ACP tool kinds of the tools that the `claude-stream-json` format names. The stream itself has no kinds; this is the
#: assignment that the agent's ACP adapters make, so that the counts by kind mean the same on every surface. What is not
#: here is looked up in the adapter's tool map, and else `other`.
STREAM_JSON_KINDS = {
    "Read": "read",
    "NotebookRead": "read",
    "Edit": "edit",
    "MultiEdit": "edit",
    "Write": "edit",
    "NotebookEdit": "edit",
    "Bash": "execute",
    "BashOutput": "execute",
    "KillShell": "execute",
    "Glob": "search",
    "Grep": "search",
    "LS": "search",
    "WebFetch": "fetch",
    "WebSearch": "fetch",
    "Task": "think",
    "Agent": "think",
    "TodoWrite": "think",
    "TaskCreate": "think",
    "TaskUpdate": "think",
    "TaskList": "think",
    "TaskGet": "think",
    "ReportFindings": "think",
    "ExitPlanMode": "switch_mode",
}
#: The format's names for tokens in, out, from the cache and into it.
_USAGE = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def kinds_of(adapter: Adapter) -> dict[str, str]:
    """Tool name -> ACP tool kind, by what the adapter's tool map uses a tool for; its first meaning counts."""
    kinds: dict[str, str] = {}
    for meaning, kind in _MEANINGS.items():
        for call in adapter.tools.get(meaning, []):  # type: ignore[call-overload]
            kinds.setdefault(call.tool, kind)
    return kinds


def parse(name: str, lines: Lines, kinds: Kinds | None = None) -> CliResult:
    """Parses a CLI's output `lines` (arrival time in ns, the line's bytes without or with its LF) with the parser
    `name`; `kinds` are the agent's tools.

    Raises UsageError where no such parser exists. Never raises for what a line holds.
    """
    parser = _PARSERS.get(name)
    if parser is None:
        raise UsageError(f"no CLI output parser {name!r}; there are: {', '.join(sorted(_PARSERS))}")
    return parser(lines, kinds or {})


def _generic(lines: Lines, _: Kinds) -> CliResult:
    """Plain text. The result is all there is, so it is complete with the last line that is not blank."""
    spoken = Spoken("")

    def take(t_ns: int, line: bytes) -> int | None:
        spoken.append(line[:SPOKEN_BYTES].rstrip(b"\r\n").decode("utf-8", "replace") + "\n")
        return t_ns if line.strip() else None

    # starmap lets go of a line before it asks for the next one: each may have 60 MB.
    result_ns: int | None = None
    for t_ns in starmap(take, lines):
        result_ns = result_ns if t_ns is None else t_ns
    return CliResult(parser="generic", result_ns=result_ns, text=spoken.text.strip())


def _claude_stream_json(lines: Lines, kinds: Kinds) -> CliResult:
    """One JSON object a line: `system`/`init`, `assistant` and `user` messages, at the end `result`."""
    stream = OutputLines(lines, kinds)
    findings, calls, spoken = stream.findings, stream.calls, stream.spoken
    init: dict[str, Any] = {}
    result: dict[str, Any] | None = None
    result_ns: int | None = None
    for t_ns, line in stream.objects():
        match line.get("type"):
            case "system" if line.get("subtype") == "init" and not init:
                init = kept(line)
            case "assistant":
                for block in _blocks(line):
                    if block.get("type") == "text":
                        spoken.append(as_text(block.get("text")) or "")
                    elif block.get("type") == "tool_use" and isinstance(block.get("id"), str):
                        call = _call(block, t_ns, kinds, as_text(line.get("parent_tool_use_id")))
                        stream.keep(call)
            case "user":
                for block in _blocks(line):
                    done = calls.get(as_text(block.get("tool_use_id")) or "")
                    if block.get("type") == "tool_result" and done is not None:
                        calls[done.id] = _ended(done, failed=bool(block.get("is_error")))
            case "result":
                if result is not None:
                    words = f"output line {stream.number} is a second result"
                    findings.append(Finding(id="extra-result", message=words))
                result, result_ns = kept(line), t_ns
    if result is None:
        stream.no_result()
        result = {}
    numbers = stream.numbers
    denied = tuple(
        identity
        for denial in as_list(result.get("permission_denials"))
        if isinstance(denial, dict) and (identity := as_text(denial.get("tool_use_id"))) is not None
    )
    parsed = CliResult(
        parser="claude-stream-json",
        result_ns=result_ns,
        duration_ms=numbers.amount(result.get("duration_ms"), "duration_ms"),
        duration_api_ms=numbers.amount(result.get("duration_api_ms"), "duration_api_ms"),
        turns=numbers.count(result.get("num_turns"), "num_turns"),
        usage=usage_of(numbers, as_object(result.get("usage")), "usage", *_USAGE),
        tool_calls=calls,
        denied=denied,
        stop=as_text(result.get("stop_reason")),
        subtype=as_text(result.get("subtype")),
        is_error=bool(result.get("is_error")),
        text=as_text(result.get("result")) or spoken.text,
        version=as_text(init.get("claude_code_version")),
        model=as_text(init.get("model")),
        permission_mode=as_text(init.get("permissionMode")),
        tools=tuple(tool for tool in as_list(init.get("tools")) if isinstance(tool, str)),
        findings=findings,
    )
    findings.extend(number_findings(numbers))
    return parsed


_PARSERS: dict[str, Callable[[Lines, Kinds], CliResult]] = {
    "generic": _generic,
    "claude-stream-json": _claude_stream_json,
    "gemini-stream-json": formats.gemini_stream_json,
    "codex-json": formats.codex_json,
    "opencode-json": formats.opencode_json,
    "vibe-streaming": formats.vibe_streaming,
    "cline-json": formats.cline_json,
}


def _call(block: dict[str, Any], t_ns: int, kinds: Kinds, parent: str | None) -> CliToolCall:
    name = as_text(block.get("name")) or ""
    kind = STREAM_JSON_KINDS.get(name) or kinds.get(name, "other")
    return CliToolCall(id=block["id"], name=name, kind=kind, t_ns=t_ns, parent=parent)


def _ended(call: CliToolCall, *, failed: bool) -> CliToolCall:
    return CliToolCall(id=call.id, name=call.name, kind=call.kind, t_ns=call.t_ns, failed=failed, parent=call.parent)


def _blocks(line: dict[str, Any]) -> list[dict[str, Any]]:
    """The content blocks of a message line; text content has none."""
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return [block for block in as_list(content) if isinstance(block, dict)]
