"""Reads numbers that come from outside: each is bounded, and a value of the wrong kind is reported by its field.

JSON has one number type, so `12.0` is a count. Python reads `1e999` as an infinity and integers of thousands of digits,
which no other reader of a record can hold: both are refused here. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, Final

#: The largest number that every JSON reader holds exactly. A sum has the same bound, so that sums of sums fit 64 bits.
MAX_NUMBER: Final = 2**53 - 1
#: Faults that are kept of one reader.
_KEPT: Final = 100
#: Characters of a value, and of a field's name, that a fault shows.
_SHOWN: Final = 40
_FIELD_SHOWN: Final = 120
#: Digits of an integer that is shown whole.
_DIGITS: Final = 20
#: Values that are looked at for `out_of_range`, and how deep.
_LOOKS: Final = 10_000
_DEPTH: Final = 50


class Numbers:
    """Reads numbers and keeps in `faults` why a value that is there is none, a line each; an absent one is no fault."""

    def __init__(self) -> None:
        self.faults: list[str] = []

    def count(self, value: Any, field: str) -> int | None:
        """A whole number from 0 to MAX_NUMBER; None where it is absent, and where it is none (a fault)."""
        fault = None if value is None else _fault(value) or _not_whole(value)
        return int(value) if self._good(value, fault, field) else None

    def amount(self, value: Any, field: str) -> float | None:
        """A number from 0 to MAX_NUMBER (a duration, a price); None as `count`."""
        return abs(float(value)) if self._good(value, None if value is None else _fault(value), field) else None

    def total(self, parts: Iterable[int | None], field: str) -> int | None:
        """The sum of the counts that are there; None where there are none, and above MAX_NUMBER (a fault)."""
        found = [part for part in parts if part is not None]
        if sum(found) > MAX_NUMBER:
            self.fault(f"{field}: the sum is out of range")
            return None
        return sum(found) if found else None

    def fault(self, words: str) -> None:
        """Keep a fault that only the reader of the field can see."""
        if len(self.faults) < _KEPT:
            self.faults.append(words)

    def _good(self, value: Any, fault: str | None, field: str) -> bool:
        if fault is not None:
            self.fault(f"{field[:_FIELD_SHOWN]}: {fault}")
        return value is not None and fault is None


def count(value: Any) -> int | None:
    """`Numbers.count` where nobody asks why."""
    return Numbers().count(value, "")


def measure(value: Any) -> float | None:
    """Any number that can be measured with, negative ones included; None for all else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and in_range(value) else None


def in_range(value: Any) -> bool:
    """Whether a number is one that every reader of a record can hold, negative ones included."""
    return isinstance(value, bool) or -MAX_NUMBER <= value <= MAX_NUMBER


def shown(value: Any) -> str:
    """A number in a few characters, however many it has."""
    if isinstance(value, int) and not -(10**_DIGITS) < value < 10**_DIGITS:
        # Counted by bits: Python refuses to write out what has more than some thousand digits.
        return f"{'-' if value < 0 else ''}1e{math.floor(abs(value).bit_length() * math.log10(2))} or so"
    text = ascii(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def out_of_range(value: Any, field: str) -> Iterator[str]:
    """One line for each number below `value` that `in_range` refuses; a deep or large value is looked at in part."""
    pending: list[tuple[Any, str, int]] = [(value, field, 0)]
    looks = 0
    while pending and looks < _LOOKS:
        one, name, depth = pending.pop()
        looks += 1
        if isinstance(one, int | float):
            if not in_range(one):
                yield f"{name[:_FIELD_SHOWN]}: {shown(one)} is out of range"
        elif isinstance(one, dict) and depth < _DEPTH:
            pending.extend((part, f"{name[:_FIELD_SHOWN]}.{key[:_SHOWN]}", depth + 1) for key, part in one.items())
        elif isinstance(one, list) and depth < _DEPTH:
            pending.extend((part, name, depth + 1) for part in one)


def bounded(value: Any, depth: int = _DEPTH) -> Any:
    """A JSON value as every reader can hold it: numbers out of range become text, what lies too deep `"..."`."""
    if isinstance(value, int | float):
        return value if in_range(value) else shown(value)
    if isinstance(value, dict):
        return {key: bounded(part, depth - 1) for key, part in value.items()} if depth else "..."
    if isinstance(value, list):
        return [bounded(part, depth - 1) for part in value] if depth else "..."
    return value


def _fault(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        kinds = {bool: "a boolean", str: f"the text {shown(value)}", list: "an array", dict: "an object"}
        return f"{kinds.get(type(value), 'something else')} in place of a number"
    if not in_range(value):
        return f"{shown(value)} is out of range"
    return f"{shown(value)} is negative" if value < 0 else None


def _not_whole(value: Any) -> str | None:
    return None if value == int(value) else f"{shown(value)} is no whole number"
