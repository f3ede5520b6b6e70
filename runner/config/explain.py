"""What pydantic found, in a user's words: place, whether the key or the value is meant, and one sentence."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Union

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from runner.config.nearest import quoted, suggest
from runner.config.source import Place

#: Errors that say only "this is another type": the branch of a union that was never meant.
_SHAPES = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
#: Patterns of runner.config in words.
_PATTERNS = {
    r"^[A-Za-z0-9][A-Za-z0-9._+@-]*$": "is not an id: letters, digits and . _ + @ - only, a letter or digit first",
    r"^[A-Za-z_][A-Za-z0-9_]*$": "is no variable's name: letters, digits and _ only, no digit first",
    "^/": "is not an absolute path",
    r"^(/|\{workspace\}(/|$))": "is not an absolute path; {workspace} is the fixture's folder",
    r"^[0-9a-f]{40}$": "is not a hash of 40 lower-case hexadecimal digits",
}
_COMPARISONS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}


@dataclass(frozen=True)
class ConfigProblem:
    """`place` is where, `key` says that the key (not the value) is meant, `text` is the sentence."""

    place: Place
    key: bool
    text: str


@dataclass(frozen=True)
class _Found:
    """A pydantic error with its place in the data. `branch` = (place of the union, label) where one was tried."""

    error: ErrorDetails
    place: Place
    branch: tuple[Place, str] | None
    on_key: bool
    shape: str | None


def explain(errors: Sequence[ErrorDetails], data: Any, model: type[BaseModel]) -> list[ConfigProblem]:
    """One problem per fault. Of a union only the branch the user meant is explained; a key that is missing because
    it is misspelt is told once."""
    found = _one_branch([_locate(error, data) for error in errors])
    problems: dict[tuple[Place, str], ConfigProblem] = {}
    renamed: set[Place] = set()
    for located in found:
        if located.error["type"] == "extra_forbidden":
            valid = [
                key
                for key in keys_at(model, located.error["loc"][:-1])
                if key not in _mapping(data, located.place[:-1])
            ]
            hint = suggest(str(located.place[-1]), valid or keys_at(model, located.error["loc"][:-1]))
            match = re.match(r"; did you mean '(.*)'\?$", hint)
            if match:
                renamed.add((*located.place[:-1], match.group(1)))
            problem = ConfigProblem(located.place, True, f"unknown key {quoted(located.place[-1])}{hint}")
            problems.setdefault((problem.place, problem.text), problem)
    for located in found:
        kind = located.error["type"]
        if kind == "extra_forbidden" or (kind == "missing" and located.place in renamed):
            continue
        problem = ConfigProblem(located.place, located.on_key, _sentence(located, data))
        problems.setdefault((problem.place, problem.text), problem)
    return list(problems.values())


def _locate(error: ErrorDetails, data: Any) -> _Found:
    """Split pydantic's location into steps that exist in the data and labels of union branches that do not."""
    value, on_key = data, False
    place: list[str | int] = []
    branch: tuple[Place, str] | None = None
    loc = error["loc"]
    for index, step in enumerate(loc):
        if _has(value, step):
            value = value[step]
            place.append(step)
        elif step == "[key]":
            on_key = True
        elif index == len(loc) - 1 and error["type"] == "missing":
            place.append(step)
        elif branch is None:
            branch = (tuple(place), str(step))
    at_union = branch is not None and branch[0] == tuple(place) and not on_key
    shape = _SHAPES.get(error["type"]) if branch is None or at_union else None
    return _Found(error, tuple(place), branch, on_key, shape)


def _has(value: Any, step: str | int) -> bool:
    if isinstance(value, dict):
        return step in value
    return isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value)


def _one_branch(found: Iterable[_Found]) -> list[_Found]:
    """Of each union keep the branch whose type fits the data; where none fits, one error that names all types."""
    kept: list[_Found] = []
    unions: dict[Place, list[_Found]] = {}
    for located in found:
        if located.branch is None:
            kept.append(located)
        else:
            unions.setdefault(located.branch[0], []).append(located)
    for group in unions.values():
        meant = [located for located in group if located.shape is None]
        if meant:
            label = meant[0].branch
            kept.extend(located for located in meant if located.branch == label)
        else:
            shapes = dict.fromkeys(located.shape for located in group if located.shape)
            first = group[0]
            kept.append(_Found(first.error, first.place, first.branch, False, " or ".join(shapes)))
    return kept


def _sentence(one: _Found, data: Any) -> str:
    error, place = one.error, one.place
    kind, context = error["type"], error.get("ctx", {})
    value = error["input"]
    name = _name(place)
    if kind == "missing":
        where = f" in {_name(place[:-1])}" if len(place) > 1 else ""
        return f"the key {quoted(place[-1])} is missing{where}"
    if one.on_key:
        if kind == "literal_error":
            return f"unknown key {quoted(place[-1])}{suggest(str(place[-1]), _choices(context))}"
        return f"the key {quoted(place[-1])} is not valid: {_lower(error['msg'])}"
    if one.shape is not None:
        fix = "; put it in quotes" if one.shape == "text" and isinstance(value, (int, float)) else ""
        return f"{name} must be {one.shape}, not {_what(value)}{fix}"
    if kind == "literal_error":
        return f"{name} cannot be {quoted(value)}{suggest(str(value), _choices(context))}"
    if kind in _COMPARISONS:
        words, key = _COMPARISONS[kind]
        return f"{name} must be {words} {context.get(key)}, not {quoted(value)}"
    if kind == "too_short":
        return f"{name} needs at least {context.get('min_length')} item(s)"
    if kind == "string_pattern_mismatch":
        words = _PATTERNS.get(str(context.get("pattern")), f"does not match {context.get('pattern')}")
        return f"{name}: {quoted(value)} {words}"
    if kind == "string_too_long":
        return f"{name} is longer than {context.get('max_length')} characters"
    if kind == "value_error":
        return f"{name}: {context.get('error')}"
    return f"{name}: {_lower(error['msg'])}"


def _name(place: Place) -> str:
    """`'adapters'`, `item 2 of 'adapters'`, `the file`."""
    if not place:
        return "the file"
    if isinstance(place[-1], int):
        return f"item {place[-1] + 1} of {_name(place[:-1])}"
    return quoted(place[-1])


def _what(value: Any) -> str:
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return f"{str(value).lower()}"
    if isinstance(value, (int, float)):
        return f"the number {quoted(value)}"
    if isinstance(value, str):
        return f"the text {quoted(value)}"
    return "a list" if isinstance(value, list) else "a mapping"


def _choices(context: dict[str, Any]) -> list[str]:
    """The names out of pydantic's `'a', 'b' or 'c'`."""
    return re.findall(r"'([^']*)'", str(context.get("expected", "")))


def _lower(message: str) -> str:
    text = " ".join(message.split())
    return text.replace("Input should be", "must be")


def _mapping(data: Any, place: Place) -> dict[str, Any]:
    for step in place:
        data = data[step]
    return data if isinstance(data, dict) else {}


def keys_at(model: type[BaseModel], loc: Sequence[str | int]) -> list[str]:
    """The keys that are valid at a pydantic location, in the models' own order."""
    kinds: list[Any] = [model]
    for step in loc:
        kinds = _step(kinds, step)
    keys: dict[str, None] = {}
    for kind in _flatten(kinds):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            keys.update(dict.fromkeys(kind.model_fields))
    return list(keys)


def _step(kinds: list[Any], step: str | int) -> list[Any]:
    flat = _flatten(kinds)
    below: list[Any] = []
    for kind in flat:
        origin, args = typing.get_origin(kind), typing.get_args(kind)
        if isinstance(step, str) and isinstance(kind, type) and issubclass(kind, BaseModel):
            if step in kind.model_fields:
                below.append(kind.model_fields[step].annotation)
        elif origin is list and isinstance(step, int):
            below.append(args[0])
        elif origin is dict and isinstance(step, str):
            below.append(args[1])
    if below:
        return below
    # A union branch's label: narrow to the type of that name where there is one.
    named = [kind for kind in flat if getattr(kind, "__name__", None) == step]
    return named or flat


def _flatten(kinds: Iterable[Any]) -> list[Any]:
    flat: list[Any] = []
    for kind in kinds:
        origin = typing.get_origin(kind)
        if origin is Annotated:
            flat.extend(_flatten([typing.get_args(kind)[0]]))
        elif origin in (Union, types.UnionType):
            flat.extend(_flatten(typing.get_args(kind)))
        else:
            flat.append(kind)
    return flat
