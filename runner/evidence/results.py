"""What went back to the model: the tool results of a request's history, by the id of the call they answer.

One reader for all dialects, by the members that only a result has: `tool_use_id` (Anthropic messages), `tool_call_id`
(OpenAI chat), `call_id` of an item whose type ends in `_output` (OpenAI responses), `functionResponse` (Gemini).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def tool_results(body: str) -> dict[str, str]:
    """Call id -> its result as JSON text; {} for a body that is no JSON. The last result of an id counts."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return {identity: json.dumps(result, ensure_ascii=False) for identity, result in _results(value)}


def _results(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        for item in value:
            yield from _results(item)
        return
    if not isinstance(value, dict):
        return
    identity = _answers(value)
    if identity is not None:
        yield identity, value
        return
    for item in value.values():
        yield from _results(item)


def _answers(value: dict[str, Any]) -> str | None:
    """The id of the call that this object is the result of."""
    for name in ("tool_use_id", "tool_call_id"):
        if isinstance(value.get(name), str):
            return str(value[name])
    if isinstance(value.get("call_id"), str) and str(value.get("type", "")).endswith("_output"):
        return str(value["call_id"])
    response = value.get("functionResponse")
    if isinstance(response, dict) and isinstance(response.get("id"), str):
        return str(response["id"])
    return None
