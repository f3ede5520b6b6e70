"""Edits and new files as bodies of the freeform `apply_patch` tool (the format of OpenAI's Codex). Pure.

The format knows whole lines only: an edit's old and new text must each be whole lines of the file.
"""

from __future__ import annotations

import difflib


def update(path: str, old: str, new: str) -> str:
    """A patch that turns the lines `old` of the file `path` into `new`; no line feed at its end.

    :raises ValueError: one of the texts ends in a line feed and the other does not, or nothing changes.
    """
    if new and old.endswith("\n") != new.endswith("\n"):
        raise ValueError("old and new must both end with a line feed, or neither: a patch replaces whole lines")
    before, after = _lines(old), _lines(new)
    if before == after:
        raise ValueError("old and new are the same: a patch must change something")
    hunk: list[str] = []
    for tag, i, j, k, m in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            hunk += [f" {line}" for line in before[i:j]]
        else:
            hunk += [*(f"-{line}" for line in before[i:j]), *(f"+{line}" for line in after[k:m])]
    return _patch(f"*** Update File: {path}", ["@@", *hunk])


def add(path: str, content: str) -> str:
    """A patch that creates the file `path`; no line feed at its end. The file will end in a line feed."""
    return _patch(f"*** Add File: {path}", [f"+{line}" for line in _lines(content)])


def _lines(text: str) -> list[str]:
    # Not splitlines(): it splits at characters that are no line ends to a patch.
    return text.removesuffix("\n").split("\n") if text else []


def _patch(head: str, lines: list[str]) -> str:
    return "\n".join(["*** Begin Patch", head, *lines, "*** End Patch"])
