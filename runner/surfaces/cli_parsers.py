"""What a CLI agent's standard output says: named parsers from output lines to one `CliResult`.

A parser is chosen by an adapter's `cli.parser`. It reads what a program prints in that *format*, whichever program
that is; nothing here judges. Every parser survives any line: what it does not understand it keeps as a finding or
passes over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from runner.errors import UsageError
from runner.records.schema import Finding

Lines = Iterable[tuple[int, bytes]]

#: ACP tool kinds of the tools that the `claude-stream-json` format names; a tool that is not here is `other`. The
#: stream itself has no kinds; this is the assignment that the agent's ACP adapters make, so that the counts by kind
#: mean the same on every surface.
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


@dataclass(frozen=True)
class CliToolCall:
    """One tool call of the stream.

    `failed` is None until the stream gives its result; `parent` is the call of the sub-agent's task.
    """

    id: str
    name: str
    kind: str
    t_ns: int
    failed: bool | None = None
    parent: str | None = None


@dataclass(frozen=True)
class CliUsage:
    """Tokens as the CLI itself reports them."""

    input: int
    output: int
    cached_read: int = 0
    cached_write: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output + self.cached_read + self.cached_write


@dataclass(frozen=True)
class CliResult:
    """Facts of one CLI run. Times: CLOCK_MONOTONIC ns; durations: ms. None: the format, or this run, does not say."""

    parser: str
    #: When the result line came.
    result_ns: int | None = None
    #: The CLI's own figures.
    duration_ms: float | None = None
    duration_api_ms: float | None = None
    turns: int | None = None
    usage: CliUsage | None = None
    #: By id, in the order of the stream; None where the format has no tool calls.
    tool_calls: dict[str, CliToolCall] | None = None
    #: Ids of the calls that the CLI says it denied.
    denied: tuple[str, ...] = ()
    #: Why the model stopped (`end_turn`), and how the CLI calls its end (`success`, `error_max_turns`).
    stop: str | None = None
    subtype: str | None = None
    is_error: bool = False
    text: str = ""
    version: str | None = None
    model: str | None = None
    permission_mode: str | None = None
    #: Names of the tools offered.
    tools: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


def parse(name: str, lines: Lines) -> CliResult:
    """Parses a CLI's output `lines` (arrival time in ns, the line's bytes without or with its LF) with the parser
    `name`.

    Raises UsageError where no such parser exists. Never raises for what a line holds.
    """
    parser = _PARSERS.get(name)
    if parser is None:
        raise UsageError(f"no CLI output parser {name!r}; there are: {', '.join(sorted(_PARSERS))}")
    return parser(lines)


def _generic(lines: Lines) -> CliResult:
    """Plain text. The result is all there is, so it is complete with the last line that is not blank."""
    kept = list(lines)
    spoken = [t_ns for t_ns, line in kept if line.strip()]
    text = "\n".join(line.rstrip(b"\r\n").decode("utf-8", "replace") for _, line in kept)
    return CliResult(parser="generic", result_ns=spoken[-1] if spoken else None, text=text.strip())


def _claude_stream_json(lines: Lines) -> CliResult:
    """One JSON object a line: `system`/`init`, `assistant` and `user` messages, at the end `result`."""
    findings: list[Finding] = []
    calls: dict[str, CliToolCall] = {}
    spoken: list[str] = []
    init: dict[str, Any] = {}
    result: dict[str, Any] | None = None
    result_ns: int | None = None
    for number, (t_ns, raw) in enumerate(lines, 1):
        if not raw.strip():
            continue
        line = _object(raw)
        if line is None:
            findings.append(
                Finding(id="not-json", message=f"output line {number} is not a JSON object: {_excerpt(raw)}")
            )
            continue
        match line.get("type"):
            case "system" if line.get("subtype") == "init" and not init:
                init = line
            case "assistant":
                for block in _blocks(line):
                    if block.get("type") == "text":
                        spoken.append(_text(block.get("text")) or "")
                    elif block.get("type") == "tool_use" and isinstance(block.get("id"), str):
                        call = _call(block, t_ns, _text(line.get("parent_tool_use_id")))
                        calls.setdefault(call.id, call)
            case "user":
                for block in _blocks(line):
                    done = calls.get(_text(block.get("tool_use_id")) or "")
                    if block.get("type") == "tool_result" and done is not None:
                        calls[done.id] = _ended(done, failed=bool(block.get("is_error")))
            case "result":
                if result is not None:
                    findings.append(Finding(id="extra-result", message=f"output line {number} is a second result"))
                result, result_ns = line, t_ns
    if result is None:
        findings.append(Finding(id="no-result", message="the output ended without a result line"))
        result = {}
    denied = tuple(
        identity
        for denial in _list(result.get("permission_denials"))
        if isinstance(denial, dict) and (identity := _text(denial.get("tool_use_id"))) is not None
    )
    return CliResult(
        parser="claude-stream-json",
        result_ns=result_ns,
        duration_ms=_number(result.get("duration_ms")),
        duration_api_ms=_number(result.get("duration_api_ms")),
        turns=_count(result.get("num_turns")),
        usage=_usage(result.get("usage")),
        tool_calls=calls,
        denied=denied,
        stop=_text(result.get("stop_reason")),
        subtype=_text(result.get("subtype")),
        is_error=bool(result.get("is_error")),
        text=_text(result.get("result")) or "\n".join(spoken),
        version=_text(init.get("claude_code_version")),
        model=_text(init.get("model")),
        permission_mode=_text(init.get("permissionMode")),
        tools=tuple(tool for tool in _list(init.get("tools")) if isinstance(tool, str)),
        findings=tuple(findings),
    )


_PARSERS: dict[str, Callable[[Lines], CliResult]] = {"generic": _generic, "claude-stream-json": _claude_stream_json}


def _call(block: dict[str, Any], t_ns: int, parent: str | None) -> CliToolCall:
    name = _text(block.get("name")) or ""
    return CliToolCall(id=block["id"], name=name, kind=STREAM_JSON_KINDS.get(name, "other"), t_ns=t_ns, parent=parent)


def _ended(call: CliToolCall, *, failed: bool) -> CliToolCall:
    return CliToolCall(id=call.id, name=call.name, kind=call.kind, t_ns=call.t_ns, failed=failed, parent=call.parent)


def _blocks(line: dict[str, Any]) -> list[dict[str, Any]]:
    """The content blocks of a message line; text content has none."""
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return [block for block in _list(content) if isinstance(block, dict)]


def _usage(value: Any) -> CliUsage | None:
    if not isinstance(value, dict):
        return None
    counts = [
        _count(value.get(key))
        for key in ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    ]
    if counts[0] is None and counts[1] is None:
        return None
    return CliUsage(*(count or 0 for count in counts))


def _object(raw: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _excerpt(raw: bytes) -> str:
    return ascii(raw[:80].decode("utf-8", "replace").strip())
