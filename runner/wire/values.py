"""A value of JSON as what it should be; whatever else it is counts as empty."""

from __future__ import annotations

from typing import Any


def as_object(value: Any) -> dict[str, Any]:
    """The value if it is a JSON object, else {}."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """The value if it is a JSON array, else []."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
