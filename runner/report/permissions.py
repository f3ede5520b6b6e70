"""The permission map for a reader: arms side by side, or one arm in full. No judgement is made here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

from tabulate import tabulate

from runner.report.study import command
from runner.report.tables import NONE
from runner.report.text import clipped, escaped, printable, shortened, wrapped
from runner.study.permission_map import ActionTried, Column, PermissionMap
from runner.text.visible import SENTENCE, json_text, one_line

WIDTH = 120
#: Longest command or path in the table of one arm.
_WHAT = 48
_IDENTITY = ("adapter", "surface", "policy", "model")
Rows = list[list[str]]
_WORDS = (
    "asked: somebody was asked and said yes; free: done and nobody was asked; refused: somebody said no. Not done and "
    "nobody asked: blocked, where the agent itself or the client's fs/* would not; failed, where it did not work. Done "
    "is what the disk or the model's requests show."
)


def table(found: PermissionMap, *, differing: bool = False, width: int = WIDTH) -> str:
    """Plain text for a terminal; ends with a line feed. `differing`: only what the arms differ in."""
    parts = [one_line(_headline(found), SENTENCE)]
    for title, headers, rows in _tables(found, differing):
        cells = [[one_line(cell, SENTENCE) for cell in row] for row in rows]
        text = tabulate(cells, headers=list(map(one_line, headers)), tablefmt="simple", disable_numparse=True)
        parts.append(f"{one_line(title, SENTENCE)}\n{text}" if title else text)
    parts.append("\n".join(wrapped(note, width) for note in notes(found)))
    return printable("\n\n".join(parts)) + "\n"


def markdown(found: PermissionMap, *, differing: bool = False) -> str:
    """The same for a page; ends with a line feed."""
    parts = [f"## {escaped(_headline(found))}"]
    for title, headers, rows in _tables(found, differing):
        cells = [[escaped(one_line(cell, SENTENCE)) for cell in row] for row in rows]
        if title:
            parts.append(f"**{escaped(title)}**")
        parts.append(tabulate(cells, headers=list(map(escaped, headers)), tablefmt="pipe", disable_numparse=True))
    parts.append("\n".join(f"- {escaped(note)}" for note in notes(found)))
    return "\n\n".join(parts) + "\n"


def to_json(found: PermissionMap, *, differing: bool = False) -> str:
    """One JSON object, two spaces of indent; ends with a line feed."""
    shown = found.model_copy(update={"labels": found.differing()}) if differing else found
    return json_text(json.dumps(shown.model_dump(mode="json"), indent=2, ensure_ascii=False, allow_nan=False)) + "\n"


def notes(found: PermissionMap) -> list[str]:
    """The sentences under the tables."""
    shown = {text for column in found.columns for label in found.labels for text in column.text(label).split("/")}
    said = [_WORDS]
    if "asked-" in shown:
        said.append(
            "asked-: allowed, and not done all the same (no such program, a sandbox, or the client's fs/*, which "
            "serves the session's own directories alone)."
        )
    if any(text.endswith("!") for text in shown):
        said.append("!: not allowed, and done all the same.")
    if any(not column.text(label) for column in found.columns for label in found.labels):
        said.append("Where no word stands, the turn had ended.")
    if len(found.columns) == 1:
        offers = _offers(found.columns[0])
        if len(offers) == 1:
            said.append(f"Every ask offers {shortened(offers[0], SENTENCE) or 'nothing'}.")
        said += [f"{word}, {at}: {line} (DIR is this folder)." for word, at, line in _first(found.columns[0])]
    said += [f"In no figure: {name} ({why})." for name, why in found.excluded.items()]
    return said


def _headline(permission_map: PermissionMap) -> str:
    shared = [values[0] for name in _IDENTITY if len(values := _values(permission_map, name)) == 1]
    return f"{permission_map.sweep}: {clipped(shared)}" if shared else permission_map.sweep


def _values(permission_map: PermissionMap, name: str) -> list[str]:
    return list(dict.fromkeys(str(getattr(column, name)) for column in permission_map.columns))


def _tables(permission_map: PermissionMap, differing: bool) -> Iterator[tuple[str, list[str], Rows]]:
    """(title, headers, rows) of each table."""
    if len(permission_map.columns) == 1:
        yield _one(permission_map.columns[0], permission_map.labels)
        return
    for group in permission_map.groups():
        yield from _group(permission_map, group, differing)


def _group(
    permission_map: PermissionMap, group: Sequence[Column], differing: bool
) -> Iterator[tuple[str, list[str], Rows]]:
    """Which arms stand side by side, what they did, and how often."""
    varying = [name for name in _IDENTITY if len({getattr(column, name) for column in group}) > 1] or ["adapter"]
    apart = [name for name in _IDENTITY if name not in varying and len(_values(permission_map, name)) > 1]
    numbers = [str(number) for number, _ in enumerate(group, 1)]
    arms = [
        [number, *(str(getattr(column, name)) for name in varying), column.mode or NONE]
        for number, column in zip(numbers, group, strict=True)
    ]
    labels = permission_map.differing(group) if differing else permission_map.labels
    words = list(dict.fromkeys(text for column in group for text in sorted(column.counts)))
    rows = [[label, *(column.text(label) or NONE for column in group)] for label in labels]
    counts = [[word, *(str(column.counts.get(word, 0)) for column in group)] for word in words]
    yield ", ".join(str(getattr(group[0], name)) for name in apart), ["", *varying, "mode"], arms
    yield (
        f"Differing: {len(permission_map.differing(group))} of {len(permission_map.labels)} actions",
        ["action", *numbers],
        rows,
    )
    yield "Actions", ["", *numbers], counts


def _one(column: Column, labels: Sequence[str]) -> tuple[str, list[str], Rows]:
    columns: list[tuple[str, Callable[[ActionTried], str]]] = [
        ("what", lambda one: shortened(one.what, _WHAT)),
        ("", lambda one: column.text(one.label) + (" (by the client)" if one.by_client else "")),
        ("done", lambda one: NONE if one.done is None else "yes" if one.done else "no"),
        ("kind", lambda one: one.kind or ""),
        ("at", lambda one: f"{'m' if one.evidence.kind == 'model' else ''}{one.evidence.seq}"),
    ]
    if len(_offers(column)) > 1:
        columns.insert(4, ("offered", lambda one: _offer(one)))
    rows = [
        [label, *(cell(column.tried[label][0]) if label in column.tried else "" for _, cell in columns)]
        for label in labels
    ]
    return f"mode {column.mode or NONE}", ["action", *(name for name, _ in columns)], rows


def _offer(action_tried: ActionTried) -> str:
    return ", ".join(action_tried.offered)


def _offers(column: Column) -> list[str]:
    """The different sets of options that asks came with."""
    asked = [tried[0] for tried in column.tried.values() if tried[0].answer is not None]
    return list(dict.fromkeys(map(_offer, asked)))


def _first(column: Column) -> list[tuple[str, str, str]]:
    """(word, action, command that opens its evidence) of one asked and one free action."""
    found: dict[str, ActionTried] = {}
    for tried in column.tried.values():
        found.setdefault(tried[0].word, tried[0])
    return [(word, found[word].label, command(found[word].evidence)) for word in ("asked", "free") if word in found]
