"""What an agent says of itself before it works: initialize, session/new, announced commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from runner.evidence.conversation import Conversation, computed_once
from runner.evidence.messages import Exchange, Update
from runner.wire.numbers import count
from runner.wire.values import as_list, as_object, as_text

#: Requests that give the client a session.
_OPENERS = ("session/new", "session/load", "session/resume")


@dataclass(frozen=True)
class Commands:
    """The available_commands_update that counts: the last one of the run.

    `length` is its frame in bytes. `before_prompt`: it came before the first session/prompt was sent; agents announce
    right after the session/new result, so that the next request may overtake it.
    """

    seq: int
    names: tuple[str, ...]
    length: int
    before_prompt: bool


@dataclass(frozen=True)
class Handshake:
    """Empty and None where the agent did not say it."""

    protocol_version: int | None = None
    agent_info: dict[str, Any] = field(default_factory=dict)
    capabilities: dict[str, Any] = field(default_factory=dict)
    auth_methods: tuple[str, ...] = ()
    session: str | None = None
    modes: tuple[str, ...] = ()
    default_mode: str | None = None
    #: configId -> current value.
    config_options: dict[str, Any] = field(default_factory=dict)
    commands: Commands | None = None
    #: The frame that opened the session, and when it came.
    opened_seq: int | None = None
    opened_ns: int | None = None


@computed_once
def handshake(conversation: Conversation) -> Handshake:
    """The facts of the first initialize and the first session that the agent granted."""
    hello = _first_result(conversation.requests("client", "initialize"))
    opened = _first_result([e for e in conversation.requests("client") if e.request.method in _OPENERS])
    greeting = as_object(hello.result if hello else None)
    session = as_object(opened.result if opened else None)
    modes = as_object(session.get("modes"))
    request = opened.request.payload if opened else {}
    return Handshake(
        protocol_version=count(greeting.get("protocolVersion")),
        agent_info=as_object(greeting.get("agentInfo")),
        capabilities=as_object(greeting.get("agentCapabilities")),
        auth_methods=_ids(greeting.get("authMethods")),
        session=as_text(session.get("sessionId")) or as_text(request.get("sessionId")),
        modes=_ids(modes.get("availableModes")),
        default_mode=as_text(modes.get("currentModeId")),
        config_options={
            identity: option.get("currentValue")
            for option in map(as_object, as_list(session.get("configOptions")))
            if (identity := as_text(option.get("id"))) is not None
        },
        commands=_commands(conversation),
        opened_seq=opened.response.seq if opened and opened.response else None,
        opened_ns=opened.response.t_ns if opened and opened.response else None,
    )


def _commands(conversation: Conversation) -> Commands | None:
    announced: list[Update] = [update for update in conversation.updates if update.kind == "available_commands_update"]
    if not announced:
        return None
    last = announced[-1]
    prompts = [e.request.seq for e in conversation.requests("client", "session/prompt")]
    return Commands(
        seq=last.message.seq,
        names=tuple(as_text(c.get("name")) or "" for c in map(as_object, as_list(last.body.get("availableCommands")))),
        length=last.message.length,
        before_prompt=not prompts or last.message.seq < prompts[0],
    )


def _first_result(exchanges: Sequence[Exchange]) -> Exchange | None:
    return next((exchange for exchange in exchanges if exchange.result is not None), None)


def _ids(value: Any) -> tuple[str, ...]:
    return tuple(
        identity for item in map(as_object, as_list(value)) if (identity := as_text(item.get("id"))) is not None
    )
