"""The second line behind key isolation: what is a key of the sweep's, in any form, or looks like one, is struck out.

The first line is that keys reach the gateway alone, and that the gateway strikes them out of what an upstream answers.
Struck out is what leaves a run with a live model: its files (`runner.redaction.files`), its record, and what the
command prints. Which forms of a known key are found, and which cannot be: `runner.redaction.forms`. Of keys that nobody
told us of only the common shapes are known (`runner.config.keys`), written plainly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from runner.config.keys import BEARER, SHAPES, SHORTEST
from runner.redaction.files import strike_files
from runner.redaction.forms import Forms, Span, merged, struck


class Redactor:
    """Strikes out `secrets` (exact values, in all their forms) and everything of a key's shape.

    Secrets shorter than SHORTEST are left out: they would strike innocent text. No such key is taken
    (`runner.gateway.upstream_access`).
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self.forms = Forms(secret for secret in secrets if len(secret) >= SHORTEST)

    def __call__(self, data: bytes) -> bytes:
        return struck(data, self.spans(data))

    def spans(self, data: bytes) -> list[Span]:
        """What is to be struck out, in order, none overlapping another."""
        return merged([*self.forms.spans(data), *_shapes(data)])

    def text(self, text: str) -> str:
        """A text by itself: a key that was cut at its beginning or end is struck out too."""
        data = text.encode("utf-8", "surrogatepass")
        spans = merged([*self.spans(data), *self.forms.edges(data)])
        return struck(data, spans).decode("utf-8", "surrogatepass") if spans else text

    def value(self, value: Any) -> Any:
        """A JSON-like value with all its text struck, keys of maps too; two keys that become the same stay two."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list | tuple):
            return [self.value(part) for part in value]
        if not isinstance(value, dict):
            return value
        clean: dict[Any, Any] = {}
        for key, part in value.items():
            name = unused = self.value(key)
            number = 1
            while unused in clean:
                number += 1
                unused = f"{name} ({number})"
            clean[unused] = self.value(part)
        return clean

    def files(self, folder: Path) -> list[str]:
        """Rewrite every file below `folder` that holds one; their names. Nobody else may write them any more.

        :raises InfraError: the disk refuses.
        """
        return strike_files(self, folder)


def _shapes(data: bytes) -> Iterator[Span]:
    yield from (found.span() for found in SHAPES.finditer(data))
    yield from ((found.end(1), found.end()) for found in BEARER.finditer(data))


#: Of the keys that this process read; what it prints goes through it.
_spoken: list[Redactor] = []


def know(secrets: Iterable[str]) -> None:
    """From now on `spoken` strikes these out, in place of those before."""
    _spoken[:] = [Redactor(secrets)]


def spoken(text: str) -> str:
    """Text for a terminal or a page: without the keys that this process read."""
    return _spoken[0].text(text) if _spoken else text
