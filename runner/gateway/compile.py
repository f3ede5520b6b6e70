"""A script of meanings and an adapter's tool map -> the program that the gateway serves. Pure.

The gateway never chooses words: each call of a step becomes an ordered list of concrete tool calls, and the gateway
takes the first whose tool the request offers (tools depend on surface and model, so the choice cannot be made here).

Placeholders in a tool map's arguments, beside the meaning's own fields:

- a read's `{end_line}` is the last of its `limit` lines;
- `{path}` is absolute, `{relative_path}` as the script has it, `{workspace}` the workspace;
- `{<field>_sh}` is quoted for a POSIX shell;
- a string that is one placeholder and nothing else takes the field's own type; a null field's key is left out;
- a plan's `{entries_text}` (or `{entries}`) is its lines as one text; a list of one element that mentions `{entry}` is
  repeated for each;
- an edit's or a write's `{patch}` is the same change as the body of an apply_patch tool (`runner.gateway.patch`).

Arguments that are one text, not a mapping, are for freeform tools; the gateway takes them for those alone.

A sub-agent's steps are served to the conversation that opens with its prompt (`subagents`, in the order of the script).
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from runner.config.adapter import Adapter, ToolCall
from runner.config.nearest import suggest
from runner.config.script import Edit, Plan, Read, Script, ScriptedConversation, Step, When, Write
from runner.config.script import Tool as RawTool
from runner.errors import UsageError
from runner.gateway import patch

_PLACEHOLDER = re.compile(r"\{([a-z][a-z_]*)\}")
_ABSENT = object()
#: Key of a plan's entries among the fields; no placeholder can name it.
_EACH = "<entries>"


def compile_program(script: Script, adapter: Adapter, workspace: str) -> dict[str, Any]:
    """Return the program (JSON data; the same for the same arguments).

    Its keys: `dialect`, `steps` (each `index`, `label`, `effect` where it has one, `when`, `say`, `think`, `calls`,
    `usage`, `finish`, `latency`, `faults`), `subagents` (each `name`, `marker`, `steps`), `turns`, `side_requests`,
    `results`, `continuations`, `streaming`, `latency`.

    :param workspace: absolute path of the workspace inside the container.
    :raises UsageError: the script is not for this dialect.
    :raises StepError: the adapter's tool map lacks a meaning or names an unknown placeholder, or a step can never be
        served.
    """
    if script.dialects is not None and adapter.dialect not in script.dialects:
        served = ", ".join(script.dialects)
        raise UsageError(f"script {script.id} is for {served}; adapter {adapter.id} speaks {adapter.dialect}")
    own, *delegated = script.conversations()
    return {
        "dialect": adapter.dialect,
        "steps": _steps(own, script, adapter, workspace),
        "subagents": [
            {
                "name": f"subagent-{conversation.number}",
                "marker": conversation.prompt,
                "steps": _steps(conversation, script, adapter, workspace),
            }
            for conversation in delegated
        ],
        "turns": script.turns,
        "side_requests": [rule.model_dump(mode="json") for rule in adapter.side_requests],
        "results": adapter.results.model_dump(mode="json"),
        "continuations": adapter.continuations,
        "streaming": script.streaming.model_dump(mode="json"),
        "latency": script.latency.model_dump(mode="json"),
    }


class StepError(UsageError):
    """A step that cannot be compiled."""

    def __init__(self, script: Script, conversation: ScriptedConversation, index: int, problem: str) -> None:
        self.problem = f"{conversation.called(index)}: {problem}"
        self.place = (*conversation.place, index)
        super().__init__(f"script {script.id}, {self.problem}")


def _steps(
    conversation: ScriptedConversation, script: Script, adapter: Adapter, workspace: str
) -> list[dict[str, Any]]:
    for index, _, problem in conversation.problems():
        raise StepError(script, conversation, index, problem)
    compiled = []
    for index, step in enumerate(conversation.steps):
        try:
            compiled.append(_step(index, step, conversation, adapter, workspace))
        except _Problem as problem:
            raise StepError(script, conversation, index, str(problem)) from None
    return compiled


def _step(
    index: int, step: Step, conversation: ScriptedConversation, adapter: Adapter, workspace: str
) -> dict[str, Any]:
    calls = [
        {"meaning": meaning, "alternatives": _alternatives(meaning, said, adapter, workspace)}
        for meaning, said in step.meant()
    ]
    return {
        "index": index,
        "label": step.label,
        **({"effect": step.effect.model_dump(mode="json", exclude_none=True)} if step.effect is not None else {}),
        "when": _when(step.when, conversation),
        "say": step.say,
        "think": step.think,
        "calls": calls,
        "usage": step.usage.model_dump(mode="json"),
        "finish": step.stop if step.stop is not None else "tool_use" if calls else "end_turn",
        "latency": step.latency.model_dump(mode="json") if step.latency is not None else None,
        "faults": [fault.model_dump(mode="json") for fault in step.faults],
    }


def _when(when: When | None, conversation: ScriptedConversation) -> dict[str, Any] | None:
    """`step` becomes an index; None stays: the step served last."""
    if when is None:
        return None
    indices = {step.name: index for index, step in enumerate(conversation.steps)}
    return {**when.model_dump(mode="json"), "step": None if when.step is None else indices[when.step]}


def _alternatives(meaning: str, base_model: BaseModel, adapter: Adapter, workspace: str) -> list[dict[str, Any]]:
    if isinstance(base_model, RawTool):
        return [{"tool": base_model.tool, "arguments": base_model.arguments}]
    tools: dict[str, list[ToolCall]] = dict(adapter.tools.items())
    if meaning not in tools:
        known = ", ".join(sorted(tools)) or "nothing"
        raise _Problem(f"adapter {adapter.id} has no tool for '{meaning}' (its tools say: {known})")
    fields = _fields(base_model, workspace)
    return [_alternative(call, fields, f"adapter {adapter.id}, tools.{meaning}") for call in tools[meaning]]


class _Problem(Exception):
    """Why a step cannot be compiled, without saying which."""


def _fields(base_model: BaseModel, workspace: str) -> dict[str, Any]:
    """What placeholders stand for. A null field is kept: it makes its key vanish."""
    fields = base_model.model_dump(mode="json", exclude={"steps"})
    if isinstance(relative := fields.get("path"), str):
        fields["relative_path"] = relative
        fields["path"] = posixpath.normpath(posixpath.join(workspace, relative))
    fields["workspace"] = workspace
    if isinstance(base_model, Read):
        fields["end_line"] = (base_model.line or 1) + base_model.limit - 1 if base_model.limit is not None else None
    if isinstance(base_model, Plan):
        text = "\n".join(base_model.entries)
        fields |= {"entries": text, "entries_text": text, _EACH: base_model.entries}
    if isinstance(base_model, Edit | Write):
        fields["patch"] = _Patch(base_model)
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


class _Patch:
    """Made when a tool map asks for it: not every edit can be said as a patch."""

    def __init__(self, edit: Edit | Write) -> None:
        self._said = edit

    def text(self) -> str:
        said = self._said
        return (
            patch.update(said.path, said.old, said.new)
            if isinstance(said, Edit)
            else patch.add(said.path, said.content)
        )


def _value(name: str, fields: Mapping[str, Any], context: str) -> Any:
    quoted = name.removesuffix("_sh")
    if isinstance(lazy := fields.get(quoted), _Patch):
        try:
            return shlex.quote(lazy.text()) if quoted != name else lazy.text()
        except ValueError as problem:
            raise _Problem(f"{context}: {{{name}}}: {problem}") from None
    if name in fields:
        return fields[name]
    raise _Problem(f"{context}: unknown placeholder {{{name}}}{suggest(name, sorted(fields.keys() - {_EACH}))}")
