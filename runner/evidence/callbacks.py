"""What the agent called on the client: fs/*, terminal/*, elicitation, extensions; and the time it waited for us."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runner.acp.methods import METHODS, declared, needed_capability
from runner.evidence.conversation import Conversation, computed_once
from runner.evidence.intervals import Span
from runner.wire.jsonrpc import error_code
from runner.wire.values import as_object


@dataclass(frozen=True)
class Callback:
    """One request of the agent to the client, permission requests included.

    `end_ns` None: never answered. `error`: the code it was answered with. `declared` None: the protocol has no such
    method (an extension), so nothing could declare it.
    """

    seq: int
    method: str
    params: dict[str, Any]
    start_ns: int
    end_ns: int | None
    error: int | None
    declared: bool | None


@computed_once
def callbacks(conversation: Conversation) -> list[Callback]:
    """The agent's requests in order; each is held against the capabilities of the latest initialize before it."""
    requested = {
        exchange.request.seq: as_object(exchange.request.payload.get("clientCapabilities"))
        for exchange in conversation.requests("client", "initialize")
    }
    found: list[Callback] = []
    for exchange in conversation.requests("agent"):
        request, response = exchange.request, exchange.response
        capabilities = next((requested[seq] for seq in sorted(requested, reverse=True) if seq < request.seq), {})
        method = request.method or ""
        found.append(
            Callback(
                seq=request.seq,
                method=method,
                params=request.payload,
                start_ns=request.t_ns,
                end_ns=response.t_ns if response else None,
                error=error_code(response.payload) if response and response.kind == "error" else None,
                declared=_declared(method, request.payload, capabilities),
            )
        )
    return found


def _declared(method: str, params: dict[str, Any], capabilities: dict[str, Any]) -> bool | None:
    if method not in METHODS:
        return None
    path = needed_capability(method, params)
    return path is None or declared(capabilities, path)


def waits(calls: Sequence[Callback], end_ns: int) -> list[Span]:
    """When the agent waited for us: one interval a call; a call that was never answered waits until `end_ns`."""
    return [(call.start_ns, call.end_ns if call.end_ns is not None else max(end_ns, call.start_ns)) for call in calls]
