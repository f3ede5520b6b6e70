"""How the user behaves: the answer to session/request_permission, by option *kind*, never by option id; a cancel."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from runner.config.base import WEEK_S, Config, Id

Answer = Literal["allow_once", "allow_always", "reject_once", "reject_always", "cancelled", "never"]


#: ACP's ToolKind.
ToolKind = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]


class Rule(Config):
    """The first rule whose given conditions all hold decides."""

    answer: Answer
    kind: ToolKind | None = None
    #: Glob over the paths of the request (locations, rawInput's file_path / path / filePath).
    path: str | None = None
    #: Glob over the command of the request (rawInput.command, else the title).
    command: str | None = None


class Cancel(Config):
    """The user cancels the turn, once: session/cancel is sent `after_s` seconds after the moment `at` has come.

    `start`: session/prompt was sent; `text`: the first piece of the answer; `tool`: the first tool call is heard of
    (some agents tell of it only by asking for leave); `ask`: the first ask for leave, which then gets no other answer;
    `terminal`: the agent waits for a command in a terminal of the client's.
    """

    at: Literal["start", "text", "tool", "ask", "terminal"]
    after_s: float = Field(default=0.0, ge=0, le=WEEK_S)


class Policy(Config):
    """A named built-in (`Policy(id='allow_once', answer='allow_once')`) or one written in a sweep."""

    id: Id
    #: Answer where no rule fits.
    answer: Answer = "allow_once"
    rules: list[Rule] = []
    #: Seconds every answer waits.
    delay_s: float = Field(default=0.0, ge=0, le=WEEK_S)
    #: elicitation/create is answered with this action.
    elicitation: Literal["accept", "decline", "cancel"] = "decline"
    #: None: turns run to their end.
    cancel: Cancel | None = None


BUILTIN: dict[str, Policy] = {
    answer: Policy(id=answer, answer=answer)
    for answer in ("allow_once", "allow_always", "reject_once", "reject_always", "cancelled", "never")
}
