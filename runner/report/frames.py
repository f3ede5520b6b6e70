"""A run's frame log for a reader: one line a frame, or one frame in full."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from runner.errors import UsageError
from runner.evidence.intervals import ms
from runner.evidence.messages import Message, decode
from runner.report.text import printable, shortened
from runner.text.visible import json_text
from runner.wire.frames import Frame
from runner.wire.values import as_list, as_object, as_text

_ARROWS = {"c2a": "->", "a2c": "<-"}
#: Columns of a line.
WIDTH = 160
#: Longest text of its flags.
_FLAGS = 60
#: Bytes of a line that are enough for its summary.
_ENOUGH = 1000


def render(
    frames: Sequence[Frame],
    origin_ns: int | None = None,
    width: int = WIDTH,
    *,
    seq_columns: int = 0,
    size_columns: int = 0,
) -> Iterator[str]:
    """One line a frame: seq, milliseconds since `origin_ns` (the agent's spawn; else the first frame), arrow,
    channel, bytes, summary.

    What the agent sent is shown with its control characters escaped.

    :param seq_columns: at least so wide, for lines that are not frames'; as `size_columns`.
    """
    if not frames:
        return
    start = frames[0].t_ns if origin_ns is None else origin_ns
    messages = {message.seq: message for message in decode(frames, whole=True)}
    digits = max(seq_columns, len(str(frames[-1].seq)))
    size = max(size_columns, len(str(max(frame.length for frame in frames))))
    for frame in frames:
        message = messages.get(frame.seq)
        what = _message(message, frame) if message is not None else _text(frame)
        flags = f" [{shortened(', '.join(frame.flags), _FLAGS)}]" if frame.flags else ""
        head = (
            f"{frame.seq:>{digits}} {ms(start, frame.t_ns):>10.1f} {_ARROWS[frame.direction]} {frame.channel:<6} "
            f"{frame.length:>{size}}  "
        )
        yield head + shortened(what, max(3, width - len(head) - len(flags))) + flags


def render_one(frames: Iterable[Frame], seq: int) -> str:
    """The frame in full, JSON indented; ends with a line feed. Raises UsageError where the log has no such frame."""
    known: list[int] = []
    for frame in frames:
        known.append(frame.seq)
        if frame.seq == seq:
            head = f"seq {seq}, t_ns {frame.t_ns}, {frame.channel} {_ARROWS[frame.direction]}, {frame.length} bytes"
            return "\n".join([shortened(", ".join([head, *frame.flags]), WIDTH), _pretty(frame.raw)]) + "\n"
    where = f"it has {min(known)} to {max(known)}" if known else "it is empty"
    raise UsageError(f"the frame log has no frame {seq}: {where}")


def _pretty(raw: bytes) -> str:
    try:
        return json_text(json.dumps(json.loads(raw), indent=2, ensure_ascii=False))
    except (ValueError, RecursionError):
        return printable(raw.decode("utf-8", "backslashreplace"))


def _text(frame: Frame) -> str:
    return frame.raw[:_ENOUGH].decode("utf-8", "backslashreplace")


def _message(message: Message, frame: Frame) -> str:
    match message.kind:
        case "request":
            return f"{message.method} #{_id(message)} {_request(message)}".rstrip()
        case "notification":
            return f"{message.method} {_update(as_object(message.payload.get('update')))}".rstrip()
        case "result":
            return f"result #{_id(message)} of {message.method or 'nothing'} {_result(message)}".rstrip()
        case "error":
            code, text = message.payload.get("code"), as_text(message.payload.get("message")) or ""
            return f"error #{_id(message)} of {message.method or 'nothing'}: {code} {text}"
    return _line(frame)


def _id(message: Message) -> str:
    return json.dumps(message.id)


def _request(message: Message) -> str:
    """What a reader wants to know of a request's params."""
    payload = message.payload
    call = as_object(payload.get("toolCall"))
    if call:
        options = "/".join(as_text(as_object(option).get("kind")) or "?" for option in as_list(payload.get("options")))
        return f"{_call(call)} ({options})"
    return as_text(payload.get("path")) or as_text(payload.get("command")) or as_text(payload.get("terminalId")) or ""


def _result(message: Message) -> str:
    for key in ("stopReason", "sessionId", "terminalId", "protocolVersion"):
        if key in message.payload:
            return f"{key}={_brief(message.payload[key])}"
    outcome = as_object(message.payload.get("outcome"))
    return " ".join(_brief(value) for value in (outcome.get("outcome"), outcome.get("optionId")) if value is not None)


def _update(body: dict[str, Any]) -> str:
    kind = as_text(body.get("sessionUpdate")) or ""
    if kind.startswith("tool_call"):
        return f"{kind} {_call(body)}"
    text = as_text(as_object(body.get("content")).get("text"))
    return f"{kind} {json.dumps(text, ensure_ascii=False)}" if text is not None else kind


def _call(call: dict[str, Any]) -> str:
    words = (as_text(call.get(key)) for key in ("toolCallId", "kind", "status", "title"))
    return " ".join(word for word in words if word)


def _line(frame: Frame) -> str:
    """A line of stdout that is no JSON-RPC: a JSON object by its type (a CLI's stream), else its text."""
    try:
        body = json.loads(frame.raw)
    except (ValueError, RecursionError):
        return f"not JSON: {_text(frame)}"
    if not isinstance(body, dict):
        return f"no message: {_text(frame)}"
    words = [word for key in ("type", "subtype") if (word := as_text(body.get(key)))]
    for block in map(as_object, as_list(as_object(body.get("message")).get("content"))):
        words += [word for key in ("type", "name", "id", "tool_use_id") if (word := as_text(block.get(key)))]
    return " ".join(words) or _text(frame)


def _brief(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
