"""What the agent may ask of a client, as data: methods, the capability each needs, the params each needs.

Source: the client side of ACP v1 (`x-side: client` in the SDK's schema). Omitted capability = unsupported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

#: Method -> path in clientCapabilities; `{mode}` is filled in from the params; None: every client serves it.
METHODS: Final[dict[str, str | None]] = {
    "session/request_permission": None,
    "fs/read_text_file": "fs.readTextFile",
    "fs/write_text_file": "fs.writeTextFile",
    "terminal/create": "terminal",
    "terminal/output": "terminal",
    "terminal/wait_for_exit": "terminal",
    "terminal/kill": "terminal",
    "terminal/release": "terminal",
    "elicitation/create": "elicitation.{mode}",
}

#: Kind of session/update -> path in clientCapabilities. Kinds that are not here need none.
UPDATES: Final[dict[str, str]] = {
    "notice": "session.notices",
    "compaction_update": "session.compaction",
    "compaction_summary_chunk": "session.compaction",
    "plan_update": "plan",
    "plan_removed": "plan",
    "subagent_update": "subagents",
    "session_message": "subagents",
    "session_message_chunk": "subagents",
}

#: Kinds of session/update that are part of a turn: late after the prompt's response. The rest may come at any time.
TURN_KINDS: Final = frozenset(
    {"user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan"}
)


def _string(value: Any) -> bool:
    return isinstance(value, str)


def _optional_string(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _optional_count(value: Any) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0)


def _optional_strings(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(item, str) for item in value))


def _optional_env(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(_has_strings(item, "name", "value") for item in value))


def _has_strings(value: Any, *names: str) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(name), str) for name in names)


def _tool_call(value: Any) -> bool:
    return _has_strings(value, "toolCallId")


def _options(value: Any) -> bool:
    return isinstance(value, list) and all(_has_strings(option, "optionId", "kind") for option in value)


_TERMINAL: Final[dict[str, Callable[[Any], bool]]] = {"sessionId": _string, "terminalId": _string}

#: Method -> param -> test. Only what serving the call needs; the schema says the rest.
PARAMS: Final[dict[str, Mapping[str, Callable[[Any], bool]]]] = {
    "session/request_permission": {"sessionId": _string, "toolCall": _tool_call, "options": _options},
    "fs/read_text_file": {
        "sessionId": _string,
        "path": _string,
        "line": _optional_count,
        "limit": _optional_count,
    },
    "fs/write_text_file": {"sessionId": _string, "path": _string, "content": _string},
    "terminal/create": {
        "sessionId": _string,
        "command": _string,
        "args": _optional_strings,
        "env": _optional_env,
        "cwd": _optional_string,
        "outputByteLimit": _optional_count,
    },
    "terminal/output": _TERMINAL,
    "terminal/wait_for_exit": _TERMINAL,
    "terminal/kill": _TERMINAL,
    "terminal/release": _TERMINAL,
    "elicitation/create": {"mode": _string, "message": _string},
}


def declared(capabilities: Mapping[str, Any], path: str) -> bool:
    """Whether the capability at the dotted `path` is declared: `true`, or an object (ACP's marker for yes)."""
    value: Any = capabilities
    for name in path.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return False
        value = value[name]
    return value is True or isinstance(value, Mapping)


def needed_capability(method: str, params: Any) -> str | None:
    """The capability path that `method` (one of METHODS) needs with these params; None: none."""
    path = METHODS[method]
    if path is None or "{mode}" not in path:
        return path
    mode = params.get("mode") if isinstance(params, Mapping) else None
    return path.replace("{mode}", mode) if isinstance(mode, str) and "." not in mode else path


def bad_param(method: str, params: Any) -> str | None:
    """The first param of `method` that cannot be served, in words; None where all can."""
    if not isinstance(params, Mapping):
        return "params is not an object"
    for name, test in PARAMS[method].items():
        if not test(params.get(name)):
            return f"{name} is missing or of the wrong type"
    return None
