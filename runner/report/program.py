"""A compiled program for a reader: what each step of a script becomes for one adapter."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from runner.report.text import shortened

Row = tuple[object, ...]


def rows(program: Mapping[str, Any], width: int) -> Iterator[Row]:
    """Rows (step, when, becomes, tokens, ends, faults); a step with several lines has None in the others' first column.
    A sub-agent's steps come after the run's own, as `a<number>.<step>`.

    :param width: columns of `becomes`; what is longer is cut.
    """
    yield from _rows(program["steps"], "", width)
    for number, one in enumerate(program["subagents"]):
        yield from _rows(one["steps"], f"a{number}.", width)


def _rows(steps: Iterable[Mapping[str, Any]], mark: str, width: int) -> Iterator[Row]:
    for step in steps:
        lines = [shortened(line, width) for line in _becomes(step)]
        usage = step["usage"]
        total_in = usage["input"] + usage["cache_read"] + usage["cache_write"]
        ends = None if step["finish"] == "tool_use" else step["finish"]
        faults = ", ".join(_fault(fault) for fault in step["faults"]) or None
        yield f"{mark}{step['index']}", _when(step["when"]), lines[0], f"{total_in:,}/{usage['output']:,}", ends, faults
        for line in lines[1:]:
            yield "", "", line, "", "", ""


def _becomes(step: Mapping[str, Any]) -> Iterator[str]:
    if step["think"] is not None:
        yield f"think {_text(step['think'])}"
    if step["say"] is not None:
        yield f"say {_text(step['say'])}"
    for call in step["calls"]:
        for number, alternative in enumerate(call["alternatives"]):
            arguments = alternative["arguments"]
            said = _text(arguments) if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            freeform = " (freeform)" if isinstance(arguments, str) else ""
            yield f"{'  or ' if number else ''}{call['meaning']}: {alternative['tool']}{freeform} {said}"


def _when(when: Mapping[str, Any] | None) -> str | None:
    if when is None:
        return None
    words = [when["outcome"]] if when["outcome"] is not None else []
    words += [f"{key} /{when[key]}/" for key in ("matches", "lacks") if when[key] is not None]
    return " and ".join(words) + (f" (of step {when['step']})" if when["step"] is not None else "")


def _fault(fault: Mapping[str, Any]) -> str:
    times = "always" if fault["times"] is None else f"x{fault['times']}"
    return f"{fault['kind']} {times}"


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
