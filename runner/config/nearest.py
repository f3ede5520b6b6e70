"""The nearest valid name to one that is not valid: the second half of every "unknown ..." message."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from runner.text.visible import printable

_ENDS = str.maketrans({"\n": "\\n", "\r": "\\r", "\t": "\\t"})
#: How many names a message lists where none is near.
_LISTED = 12


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate a user most likely meant, or None where none is near.

    Near is: equal but for case; difflib's ratio of at least 0.6; or one holds the other (`claude` in
    `claude-agent-acp@1.0.0`).
    """
    names = list(dict.fromkeys(candidates))
    by_folded = {candidate.casefold(): candidate for candidate in reversed(names)}
    folded = name.casefold()
    close = difflib.get_close_matches(folded, by_folded, n=1, cutoff=0.6)
    if close:
        return by_folded[close[0]]
    if folded:
        for candidate_folded, candidate in sorted(by_folded.items()):
            if folded in candidate_folded or (len(candidate_folded) > 2 and candidate_folded in folded):
                return candidate
    return None


def suggest(name: str, candidates: Iterable[str]) -> str:
    """What to append to `unknown x 'name'`: `; did you mean 'y'?`, or the valid names, or that there is none."""
    names = list(dict.fromkeys(candidates))
    found = nearest(name, names)
    if found is not None:
        return f"; did you mean '{found}'?"
    if not names:
        return "; there is none"
    listed = ", ".join(names[:_LISTED])
    more = f", ... ({len(names) - _LISTED} more)" if len(names) > _LISTED else ""
    return f"; valid: {listed}{more}"


def quoted(value: object, limit: int = 60) -> str:
    """A value as one short line, made visible: long text cut."""
    # Ends of lines are shown here, since whoever wrote the value must find them.
    text = f"'{printable(value[: limit + 1].translate(_ENDS))}'" if isinstance(value, str) else ascii(value)
    return text if len(text) <= limit else text[: limit - 4] + "...'"
