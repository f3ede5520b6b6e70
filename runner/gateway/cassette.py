"""Tapes: the requests and answers of one run, written from the gateway's ledger and read back for a replay.

A tape is JSON lines, one request a line: `entry`, `kind`, `rule`, `request` (normalised: `method`, `path`, `body`),
`hashed` (digests of what is out of the match key), `response` (`status`, `headers`, `end`, `chunks`: milliseconds since
the request's last byte, and the bytes as text, or base64 where they are none). A conversation repeats itself in every
request: the items that a list of the body shares with an earlier entry's are written once, then as
`{"as_entry": n, "items": k}`. It holds no key, no header beside the few that shape an agent's behaviour, no token and
no host.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from runner.errors import ConfigError, UsageError
from runner.gateway.journal import JournalEntry
from runner.records.schema import Finding
from runner.text.encoding import json_line, repaired
from runner.text.files import read_regular, unreadable

#: Largest tape that is read.
TAPE_BYTES = 2 << 30
Line = dict[str, Any]
DRIFT = "replay-drift"
_REFERENCE = {"as_entry", "items"}
#: Of requests that later ones may refer to, bytes as JSON.
_HELD_BYTES = 8_000_000


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Request(_Part):
    method: str
    path: str
    body: Any


class _Response(_Part):
    status: int
    headers: dict[str, str]
    end: Literal["whole", "cut", "client"] | None
    chunks: list[tuple[float, str | dict[Literal["base64"], str]]]


class _Entry(_Part):
    """A line as it stands in a file."""

    entry: int
    kind: Literal["main", "side"]
    rule: str | None
    request: _Request
    hashed: dict[str, str]
    response: _Response


def tape_of(entries: Iterable[JournalEntry]) -> Iterator[Line]:
    """The entries of a captured run that reached the upstream, in the order given (that of arrival), numbered from 0.

    :raises UsageError: the run cannot be a tape: the upstream said its token in a form that cannot be masked, or a
        request is larger than what is kept.
    """
    number = 0
    for entry in entries:
        tape = entry.tape
        if tape is not None and tape.large:
            raise UsageError(f"request {entry.seq}: it or its answer is larger than what is kept (knob model_cap_mb)")
        if tape is None or tape.request is None:
            continue
        if tape.leak:
            raise UsageError(f"request {entry.seq}: the answer says the run's token in pieces, which cannot be masked")
        yield {
            "entry": number,
            "kind": entry.kind,
            "rule": entry.rule,
            "request": tape.request,
            "hashed": dict(sorted(tape.hashed.items())),
            "response": {
                "status": entry.status,
                "headers": dict(sorted(tape.headers.items())),
                "end": tape.end,
                "chunks": [list(chunk) for chunk in tape.chunks],
            },
        }
        number += 1


def dump(lines: Iterable[Line]) -> Iterator[bytes]:
    """The tape's bytes, line by line. Of what went before only the latest requests are held."""
    bodies: deque[tuple[int, int, Any]] = deque()
    held = 0
    for line in lines:
        body = line["request"]["body"]
        short = {**line, "request": {**line["request"], "body": _shortened(body, bodies)}}
        data = json_line(short, separators=(", ", ": ")) + b"\n"
        size = len(json.dumps(body))
        bodies.append((line["entry"], size, body))
        held += size
        while held > _HELD_BYTES and len(bodies) > 1:
            held -= bodies.popleft()[1]
        yield data


def _shortened(body: Any, earlier: Iterable[tuple[int, int, Any]]) -> Any:
    """`earlier`: (number, size, body) of the entries it may refer to."""
    if not isinstance(body, dict):
        return body
    short = {}
    for key, value in body.items():
        shared = [(_shared(value, old.get(key)), -n) for n, _, old in earlier if isinstance(old, dict)]
        count, back = max(shared, default=(0, 0))
        # One name of a tool says more than a pointer to it.
        worth = count > 0 and isinstance(value, list) and isinstance(value[0], dict)
        short[key] = [{"as_entry": -back, "items": count}, *value[count:]] if worth else value
    return short


def _shared(value: Any, old: Any) -> int:
    """How many items two lists begin with in common."""
    if not isinstance(value, list) or not isinstance(old, list):
        return 0
    return next((n for n, (a, b) in enumerate(zip(value, old, strict=False)) if a != b), min(len(value), len(old)))


def read_tape(path: Path) -> list[Line]:
    """The inverse of `dump`. Raises ConfigError with file:line for a line that is none of a tape's."""
    try:
        data = read_regular(path, TAPE_BYTES, links=True)
    except OSError as problem:
        raise unreadable(path, problem) from None
    lines: list[Line] = []
    # At 0x0A only: text may hold U+2028 and the like.
    for number, raw in enumerate(data.split(b"\n"), start=1):
        if not raw.strip():
            continue
        try:
            line = json.loads(raw)
            _Entry.model_validate_json(raw if (plain := repaired(line)) is line else json.dumps(plain))
            if line["entry"] != len(lines):
                raise ValueError(f"entry {len(lines)} must stand here, not entry {line['entry']}")
            line["request"]["body"] = _whole(line["request"]["body"], lines)
        except (ValueError, KeyError, TypeError, IndexError, RecursionError) as problem:
            raise ConfigError(path, number, f"not an entry of a tape: {_why(problem)}") from None
        lines.append(line)
    return lines


def _why(problem: Exception) -> str:
    if not isinstance(problem, ValidationError):
        return f"no such thing in an earlier entry: {problem}" if isinstance(problem, LookupError) else str(problem)
    first = problem.errors()[0]
    at = ".".join(map(str, first["loc"]))
    return f"{at}: {first['msg']}" if at else str(first["msg"])


def _whole(body: Any, earlier: Sequence[Line]) -> Any:
    if not isinstance(body, dict):
        return body
    return {key: _expanded(key, value, earlier) for key, value in body.items()}


def _expanded(key: str, value: Any, earlier: Sequence[Line]) -> Any:
    if not (isinstance(value, list) and value and isinstance(value[0], dict) and set(value[0]) == _REFERENCE):
        return value
    there = earlier[value[0]["as_entry"]]["request"]["body"][key]
    if len(there) < value[0]["items"]:
        raise ValueError(f"entry {value[0]['as_entry']} has fewer than {value[0]['items']} items of '{key}'")
    return [*there[: value[0]["items"]], *value[1:]]


def replay_problems(
    entries: Collection[JournalEntry], tape: Sequence[Mapping[str, Any]], *, stopped: str | None = None
) -> list[str]:
    """One line for each way in which a run and its tape did not fit; empty means that the tape was played to its end.

    An entry whose answer the agent had not waited for when it was recorded need not be asked for again.

    :param stopped: as for `runner.gateway.journal.script_problems`.
    """
    problems = [problem for entry in entries if (problem := _miss(entry)) is not None]
    used = {entry.tape.entry for entry in entries if entry.tape is not None}
    left = [line for line in tape if line["entry"] not in used and line["response"]["end"] != "client"]
    if left and stopped is None:
        names = ", ".join(_name(line) for line in left[:5]) + (", ..." if len(left) > 5 else "")
        problems.append(f"{len(left)} of {len(tape)} recorded requests were not asked for: {names}")
    return problems


def _miss(entry: JournalEntry) -> str | None:
    if entry.kind != "miss":
        return None
    nearest = f"; nearest: {entry.nearest}" if entry.nearest else ""
    return f"request {entry.seq} ({entry.method} {entry.path}): {entry.reason}{nearest}"


def _name(line: Mapping[str, Any]) -> str:
    return f"{line['entry']} ({line['kind']}{' ' + line['rule'] if line['rule'] else ''})"


def drift(entries: Iterable[JournalEntry]) -> list[Finding]:
    """A warning for each part that is out of the match key and is not what it was when the tape was recorded."""
    played = [entry.tape for entry in entries if entry.tape is not None and entry.tape.entry is not None]
    parts = sorted({part for tape in played for part in tape.drift})
    return [
        Finding(
            id=DRIFT,
            message=f"'{part}' is not what was recorded, in {sum(part in tape.drift for tape in played)} of "
            f"{len(played)} requests; the recorded answers were given to something else",
        )
        for part in parts
    ]
