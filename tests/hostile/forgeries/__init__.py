"""Workspaces that an agent might leave to be judged `passed` without a repair, by families.

Each is data: the files of one attempt. `tests.hostile.forgery` has them judged and counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.hostile.forgeries import answers, planted, printed, reached, spent
from tests.hostile.forgeries.attempt import Attempt

__all__ = ["Attempt", "attempts"]


def attempts() -> Iterator[Attempt]:
    """All of them, by family."""
    for room in (printed, answers, planted, reached, spent):
        yield from room.attempts()
