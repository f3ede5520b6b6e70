"""What a key looks like. A configuration holds none: it is copied into records, locks and agents' environments.

The same shapes as images/gateway/redact.mjs, each tried with a canary. What is found of a key that is known:
`runner.redaction.forms`.
"""

from __future__ import annotations

import re
from typing import Final

#: Characters that a key must have. A shorter one cannot be struck out of what is kept: innocent text would go with it.
SHORTEST: Final = 8
#: A key of a common shape.
SHAPES: Final = re.compile(
    rb"(?<![A-Za-z0-9])(?:"
    rb"sk-[A-Za-z0-9_-]{20,}"  # OpenAI, Anthropic (sk-ant-...), OpenRouter and others
    rb"|AIza[A-Za-z0-9_-]{35}"  # Google
    rb"|(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"  # AWS
    rb"|gh[opsur]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{36,}"  # GitHub
    rb"|dtn_[A-Za-z0-9]{20,}"  # Daytona
    rb")"
)
#: One of any shape, after the word that says so.
BEARER: Final = re.compile(rb"(bearer\s+)[A-Za-z0-9._~+/=-]{20,}", re.IGNORECASE)


def line_with_key(raw: bytes) -> int | None:
    """The first line of a file, from 1, that holds what looks like a key."""
    found = [match.start() for match in (SHAPES.search(raw), BEARER.search(raw)) if match is not None]
    return raw.count(b"\n", 0, min(found)) + 1 if found else None
