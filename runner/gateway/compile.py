"""A script of meanings and an adapter's tool map -> the program that the gateway serves. Pure.

The gateway never chooses words: each call of a step becomes an ordered list of concrete tool calls, and the gateway
takes the first whose tool the request offers (tools depend on surface and model, so the choice cannot be made here).

Placeholders in a tool map's arguments, beside the meaning's own fields:

- `{path}` is absolute, `{relative_path}` as the script has it, `{workspace}` the workspace;
- `{<field>_sh}` is quoted for a POSIX shell;
- a string that is one placeholder and nothing else takes the field's own type; a null field's key is left out;
- a plan's `{entries}` are its lines as one text; a list of one element that mentions `{entry}` is repeated for each.

A sub-agent's steps are served to the conversation that opens with its prompt (`subagents`, in the order of the script).
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from runner.config.adapter import Adapter, ToolCall
from runner.config.nearest import suggest
from runner.config.script import Plan, Script, Step, every_step
from runner.config.script import Tool as RawTool
from runner.errors import UsageError

_PLACEHOLDER = re.compile(r"\{([a-z][a-z_]*)\}")
_ABSENT = object()
#: Key of a plan's entries among the fields; no placeholder can name it.
_EACH = "<entries>"


def compile_program(script: Script, adapter: Adapter, workspace: str) -> dict[str, Any]:
    """Return the program (JSON data; the same for the same arguments).

    Its keys: `dialect`, `steps` (each `index`, `label`, `say`, `think`, `calls`, `usage`, `finish`), `subagents` (each
    `name`, `marker`, `steps`), `side_requests`, `streaming`, `latency`.

    :param workspace: absolute path of the workspace inside the container.
    :raises UsageError: the adapter's tool map lacks a meaning or names an unknown placeholder, the script is not for
        this dialect, or a step can never be reached.
    """
    if script.dialects is not None and adapter.dialect not in script.dialects:
        served = ", ".join(script.dialects)
        raise UsageError(f"script {script.id} is for {served}; adapter {adapter.id} speaks {adapter.dialect}")
    delegated = [step.delegate for step in every_step(script.steps) if step.delegate is not None]
    subagents = []
    for number, one in enumerate(delegated):
        where = f"script {script.id}, sub-agent {number}"
        subagents.append(
            {
                "name": f"subagent-{number}",
                "marker": one.prompt,
                "steps": _steps(where, one.steps, adapter, workspace),
            }
        )
    return {
        "dialect": adapter.dialect,
        "steps": _steps(f"script {script.id}", script.steps, adapter, workspace),
        "subagents": subagents,
        "side_requests": [rule.model_dump(mode="json") for rule in adapter.side_requests],
        "streaming": script.streaming.model_dump(mode="json"),
        "latency": script.latency.model_dump(mode="json"),
    }


def _steps(where: str, steps: Sequence[Step], adapter: Adapter, workspace: str) -> list[dict[str, Any]]:
    """The steps of one conversation."""
    compiled = [_step(f"{where}, step {index}", index, step, adapter, workspace) for index, step in enumerate(steps)]
    for step in compiled[:-1]:
        if not step["calls"]:
            told = f"{where}, step {step['index']}: it calls no tool, which ends the turn"
            raise UsageError(f"{told}; the steps after it are never served")
    return compiled


def _step(where: str, index: int, step: Step, adapter: Adapter, workspace: str) -> dict[str, Any]:
    calls = []
    for meaning, said in step.calls.items():
        if isinstance(said, RawTool):
            alternatives = [{"tool": said.tool, "arguments": said.arguments}]
        else:
            fields = _fields(said, workspace)
            context = f"{where}: adapter {adapter.id}, tools.{meaning}"
            alternatives = [_alternative(call, fields, context) for call in _tool_map(meaning, where, adapter)]
        calls.append({"meaning": meaning, "alternatives": alternatives})
    return {
        "index": index,
        "label": step.label,
        "say": step.say,
        "think": step.think,
        "calls": calls,
        "usage": step.usage.model_dump(mode="json"),
        "finish": "tool_use" if calls else "end_turn",
    }


def _tool_map(meaning: str, where: str, adapter: Adapter) -> list[ToolCall]:
    tools: dict[str, list[ToolCall]] = {name: calls for name, calls in adapter.tools.items() if calls}
    if meaning in tools:
        return tools[meaning]
    known = ", ".join(sorted(tools)) or "nothing"
    raise UsageError(f"{where}: adapter {adapter.id} has no tool for '{meaning}' (its tools say: {known})")


def _fields(said: BaseModel, workspace: str) -> dict[str, Any]:
    """What placeholders stand for. A null field is kept: it makes its key vanish."""
    fields = said.model_dump(mode="json", exclude={"steps"})
    if isinstance(relative := fields.get("path"), str):
        fields["relative_path"] = relative
        fields["path"] = posixpath.normpath(posixpath.join(workspace, relative))
    fields["workspace"] = workspace
    if isinstance(said, Plan):
        fields |= {"entries": "\n".join(said.entries), _EACH: said.entries}
    quoted = {f"{name}_sh": shlex.quote(value) for name, value in fields.items() if isinstance(value, str)}
    return fields | quoted


def _alternative(call: ToolCall, fields: Mapping[str, Any], context: str) -> dict[str, Any]:
    context = f"{context}, {call.tool}"
    return {
        "tool": str(_filled_text(call.tool, fields, context)),
        "arguments": _filled(call.arguments, fields, context),
    }


def _filled(template: Any, fields: Mapping[str, Any], context: str) -> Any:
    if isinstance(template, str):
        return _filled_text(template, fields, context)
    if isinstance(template, dict):
        filled = {key: _filled(value, fields, context) for key, value in template.items()}
        return {key: value for key, value in filled.items() if value is not _ABSENT}
    if isinstance(template, list):
        if len(template) == 1 and _EACH in fields and "{entry}" in repr(template):
            return [_filled(template[0], {**fields, "entry": entry}, context) for entry in fields[_EACH]]
        return [value for item in template if (value := _filled(item, fields, context)) is not _ABSENT]
    return template


def _filled_text(template: str, fields: Mapping[str, Any], context: str) -> Any:
    whole = _PLACEHOLDER.fullmatch(template)
    if whole is not None:
        value = _value(whole[1], fields, context)
        return _ABSENT if value is None else value

    def text(found: re.Match[str]) -> str:
        value = _value(found[1], fields, context)
        return "" if value is None else str(value)

    return _PLACEHOLDER.sub(text, template)


def _value(name: str, fields: Mapping[str, Any], context: str) -> Any:
    if name in fields:
        return fields[name]
    raise UsageError(f"{context}: unknown placeholder {{{name}}}{suggest(name, sorted(fields.keys() - {_EACH}))}")
