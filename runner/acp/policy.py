"""Answers session/request_permission: a policy and a request in, an offered option out. Pure; by option *kind* only.

An answer is never another one than asked without saying so: every fallback stands in `Decision.note`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, Literal

from runner.acp.toolcalls import ToolCall
from runner.config.policy import Answer, Policy, Rule

Outcome = Literal["selected", "cancelled", "never"]

#: Kinds of option to look for, in order. An allow is never widened (once -> always) and never turns into a reject or
#: the other way round; where none is offered the outcome is `cancelled`.
CHAINS: Final[dict[str, tuple[str, ...]]] = {
    "allow_once": ("allow_once",),
    "allow_always": ("allow_always", "allow_once"),
    "reject_once": ("reject_once",),
    "reject_always": ("reject_always", "reject_once"),
}

#: Among several rejects, an option with such a word in its id may end the turn; a plain "no" is preferred.
_ENDS_TURN: Final = re.compile(r"cancel|abort", re.IGNORECASE)

#: Names under which tools put a path or a command into rawInput.
_PATHS: Final = ("file_path", "filePath", "path")
_COMMANDS: Final = ("command", "cmd")


@dataclass(frozen=True, slots=True)
class Decision:
    """`kind` is the chosen option's (None: none was), `rule` the index of the rule that decided (None: the default)."""

    kind: str | None
    option_id: str | None
    outcome: Outcome
    delay_s: float
    rule: int | None
    note: str = ""
    #: An id that several of the options have: which of them an answer with it means, nobody can say.
    duplicate: str | None = None

    def result(self) -> dict[str, Any] | None:
        """The result of the request; None where it is never answered."""
        if self.outcome == "never":
            return None
        if self.outcome == "cancelled":
            return {"outcome": {"outcome": "cancelled"}}
        return {"outcome": {"outcome": "selected", "optionId": self.option_id}}


@dataclass(frozen=True, slots=True)
class Subject:
    """What a request is about, joined with what was announced for the same call before."""

    kind: str | None
    paths: tuple[str, ...]
    command: str | None


def decide(policy: Policy, params: Mapping[str, Any], tool_calls: Mapping[str, ToolCall]) -> Decision:
    """The answer to a request's `params` (as `PermissionRequest.params`). `tool_calls`: `client.tool_calls.calls`."""
    answer, rule = _answer(policy, subject(params, tool_calls))
    options = _options(params)
    duplicate = _duplicate(options)
    if answer == "never" or answer == "cancelled":
        return Decision(None, None, answer, policy.delay_s, rule, duplicate=duplicate)
    if duplicate is not None:
        return Decision(None, None, "cancelled", policy.delay_s, rule, duplicate=duplicate)
    option, note = _choose(answer, options)
    if option is None:
        return Decision(None, None, "cancelled", policy.delay_s, rule, note)
    return Decision(option["kind"], option["optionId"], "selected", policy.delay_s, rule, note)


def subject(params: Mapping[str, Any], tool_calls: Mapping[str, ToolCall]) -> Subject:
    """Some agents send only a toolCallId: what is absent is taken from the call's earlier messages."""
    call = params.get("toolCall")
    fields: Mapping[str, Any] = call if isinstance(call, Mapping) else {}
    known = tool_calls.get(str(fields.get("toolCallId")))
    kind = _first(fields.get("kind"), known and known.kind)
    title = _first(fields.get("title"), known and known.title)
    raw_input = _first(fields.get("rawInput"), known and known.raw_input)
    locations = _first(fields.get("locations"), known and known.locations)
    return Subject(kind if isinstance(kind, str) else None, _paths(locations, raw_input), _command(raw_input, title))


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _paths(locations: Any, raw_input: Any) -> tuple[str, ...]:
    """Each path once, locations first."""
    named = [item.get("path") for item in locations if isinstance(item, Mapping)] if isinstance(locations, list) else []
    if isinstance(raw_input, Mapping):
        named += [raw_input.get(name) for name in _PATHS]
    return tuple(dict.fromkeys(path for path in named if isinstance(path, str)))


def _command(raw_input: Any, title: Any) -> str | None:
    """rawInput's command, an argv joined as a shell would quote it; else the title without its backticks."""
    if isinstance(raw_input, Mapping):
        for name in _COMMANDS:
            value = raw_input.get(name)
            if isinstance(value, str):
                return value
            if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
                return shlex.join(value)
    return title.strip("`") if isinstance(title, str) else None


def _answer(policy: Policy, about: Subject) -> tuple[Answer, int | None]:
    for index, rule in enumerate(policy.rules):
        if _fits(rule, about):
            return rule.answer, index
    return policy.answer, None


def _fits(rule: Rule, about: Subject) -> bool:
    """All given conditions hold; a path condition holds where any path of the request fits. `*` also matches `/`."""
    if rule.kind is not None and rule.kind != about.kind:
        return False
    if rule.path is not None and not any(fnmatchcase(path, rule.path) for path in about.paths):
        return False
    return rule.command is None or (about.command is not None and fnmatchcase(about.command, rule.command))


def _options(params: Mapping[str, Any]) -> list[dict[str, str]]:
    """The options that can be chosen at all: those with an id and a kind."""
    options = params.get("options")
    return [
        {"optionId": option["optionId"], "kind": option["kind"]}
        for option in (options if isinstance(options, list) else [])
        if isinstance(option, Mapping)
        and isinstance(option.get("optionId"), str)
        and isinstance(option.get("kind"), str)
    ]


def _duplicate(options: Sequence[dict[str, str]]) -> str | None:
    """The first id that stands twice."""
    seen: set[str] = set()
    for option in options:
        if option["optionId"] in seen:
            return option["optionId"]
        seen.add(option["optionId"])
    return None


def _choose(answer: str, options: Sequence[dict[str, str]]) -> tuple[dict[str, str] | None, str]:
    """The option, and a note where it is not simply the one that was asked for."""
    for kind in CHAINS[answer]:
        offered = [option for option in options if option["kind"] == kind]
        if not offered:
            continue
        chosen = _prefer(kind, offered)
        notes = [] if kind == answer else [f"no {answer} offered, took {kind}"]
        if len(offered) > 1:
            notes.append(f"{len(offered)} options of kind {kind}, took {chosen['optionId']}")
        return chosen, "; ".join(notes)
    kinds = ", ".join(dict.fromkeys(option["kind"] for option in options)) or "none"
    return None, f"no {answer} offered (offered: {kinds}), answered cancelled"


def _prefer(kind: str, offered: Sequence[dict[str, str]]) -> dict[str, str]:
    if kind.startswith("reject"):
        return next((option for option in offered if not _ENDS_TURN.search(option["optionId"])), offered[0])
    return offered[0]
