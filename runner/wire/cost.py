"""What a JSON text takes in memory once it is read: an agent's line of 30 MB may become two gigabytes of values.

Pure, and an upper estimate: strings by their widest character (Python stores all of a string that way), every other
value by its own size, the text itself beside them.
"""

from __future__ import annotations

import re
from typing import Final

#: Texts below it cannot take more than `MAX_COST`; nothing is looked at.
_SMALL: Final = 300_000
#: Bytes that the values of one text may take. A line of 31 MB of plain text takes 62.
MAX_COST: Final = 66_000_000
#: Of one value: an empty object, its place in a list, a key.
_VALUE_BYTES: Final = 100

_FOUR_BYTES: Final = re.compile(rb"[\xf0-\xf4]|\\u[dD][89abAB]")
_TWO_BYTES: Final = re.compile(rb"[\xc4-\xef]|\\u(?!00)")
_STRINGS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_CONTINUATION: Final = bytes(range(0x80, 0xC0))


def too_costly(raw: bytes, most: int = MAX_COST) -> bool:
    """Whether reading `raw` would take more memory than one line of an agent may."""
    return len(raw) > _SMALL and cost(raw, most) > most


def cost(raw: bytes, most: int = MAX_COST) -> int:
    """Bytes that the text and its values take, roughly and never too few. Beyond `most` it may be any number above."""
    width = 4 if _FOUR_BYTES.search(raw) else 2 if _TWO_BYTES.search(raw) else 1
    characters = len(raw) if raw.isascii() else len(raw.translate(None, _CONTINUATION))
    texts = 2 * characters * width
    rough = texts + _VALUE_BYTES * _marks(raw)
    if texts > most or rough <= most:
        return rough
    # Marks inside strings are text: looked at only where it matters.
    return texts + _VALUE_BYTES * _marks(_STRINGS.sub(b"", raw))


def _marks(raw: bytes) -> int:
    """At least one for each value."""
    return sum(map(raw.count, (b",", b"{", b"[", b":")))
