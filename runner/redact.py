"""The second line behind key isolation: what looks like a key, or is one of the sweep's, is struck out of what is kept.

The first line is that keys reach the gateway alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from runner.config.keys import BEARER, SHAPES

STRUCK = b"***"
#: Shorter secrets would strike out innocent text.
_SHORTEST = 8


class Redactor:
    """Strikes out `secrets` (exact values) and everything of a key's shape."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {secret.encode() for secret in secrets if len(secret) >= _SHORTEST}
        self._known = sorted(known, key=len, reverse=True)

    def __call__(self, data: bytes) -> bytes:
        for secret in self._known:
            data = data.replace(secret, STRUCK)
        return BEARER.sub(rb"\1" + STRUCK, SHAPES.sub(STRUCK, data))

    def text(self, text: str) -> str:
        return self(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    def files(self, folder: Path) -> list[str]:
        """Rewrite every file below `folder` that holds one; their names. Nobody else may write them any more."""
        struck = []
        for path in sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()):
            data = path.read_bytes()
            if (clean := self(data)) != data:
                path.write_bytes(clean)
                struck.append(path.relative_to(folder).as_posix())
        return struck
