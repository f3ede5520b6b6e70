"""What each adapter does with the script `fix-semver` under `allow_once`, measured once and expected ever since.

The script's ten calls are six commands (`ls -la`, `git status --short`, `node --test` thrice, `git diff --stat`), two
reads and two edits. `Facts` differ where agents differ; what all have in common stands in the test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: One adapter per model dialect: what the test suite builds and runs.
PER_DIALECT = ("claude-agent-acp@0.64.0", "opencode@1.18.33", "zed-codex-acp@0.16.0", "gemini-cli@0.61.0")


@dataclass(frozen=True)
class Facts:
    """Of one adapter over ACP, with all client capabilities unless a name says otherwise."""

    #: Asks by tool kind.
    asks: Mapping[str, int]
    #: Asks by tool kind without capabilities, where they differ.
    asks_nocaps: Mapping[str, int] | None = None
    #: Calls of fs/* and terminal/*.
    callbacks: tuple[int, int] = (0, 0)
    #: Calls that were not declared, without capabilities.
    undeclared: int = 0
    #: Side requests with and without capabilities.
    side: tuple[int, int] = (0, 0)
    default_mode: str | None = None
    commands: int = 0
    #: Findings that every run has; `sometimes` may be there or not.
    findings: frozenset[str] = frozenset()
    sometimes: frozenset[str] = frozenset()
    #: Terminal items of terminals that the client never created.
    terminal_items: int = 0
    #: Tool calls by kind where they are not six executes, two reads and two edits.
    kinds: Mapping[str, int] = field(default_factory=lambda: {"execute": 6, "read": 2, "edit": 2})


PROJECT_CODE_AND_EDITS = {"execute": 3, "edit": 2}

FACTS: Mapping[str, Facts] = {
    "claude-agent-acp@0.64.0": Facts(
        asks=PROJECT_CODE_AND_EDITS,
        side=(1, 1),
        default_mode="default",
        commands=36,
        # On a busy machine its child ends a little after it.
        sometimes=frozenset({"process-left-behind"}),
    ),
    "claude-agent-acp@0.101.0": Facts(
        asks=PROJECT_CODE_AND_EDITS,
        side=(1, 1),
        default_mode="auto",
        commands=40,
        sometimes=frozenset({"process-left-behind"}),
    ),
    "zed-claude-code-acp@0.16.2": Facts(
        asks={"execute": 6, "edit": 2},
        asks_nocaps=PROJECT_CODE_AND_EDITS,
        callbacks=(6, 24),
        side=(2, 6),
        default_mode="default",
        commands=8,
        findings=frozenset({"tool-call-announced-twice", "no-exit-on-eof"}),
        terminal_items=6,
    ),
    "zed-claude-agent-acp@0.23.1": Facts(
        asks=PROJECT_CODE_AND_EDITS,
        side=(1, 1),
        default_mode="default",
        commands=14,
        findings=frozenset({"no-exit-on-eof", "schema-invalid"}),
    ),
    "codex-acp@2.6.0": Facts(
        asks={},
        side=(1, 1),
        default_mode="agent",
        commands=16,
        findings=frozenset({"foreign-terminal"}),
        sometimes=frozenset({"no-exit-on-eof"}),
        terminal_items=5,
        kinds={"execute": 5, "read": 3, "edit": 2},
    ),
    "zed-codex-acp@0.16.0": Facts(
        asks=PROJECT_CODE_AND_EDITS,
        commands=6,
        findings=frozenset({"no-exit-on-eof", "permission-for-unknown-call", "tool-call-status-backwards"}),
        # Its last update may be lost.
        sometimes=frozenset({"tool-call-not-final"}),
        kinds={"execute": 5, "read": 2, "search": 1, "edit": 2},
    ),
    "gemini-cli@0.61.0": Facts(
        asks={"execute": 5, "edit": 2},
        callbacks=(6, 0),
        side=(1, 1),
        default_mode="default",
        commands=20,
        findings=frozenset({"permission-for-unknown-call", "tool-call-before-announcement"}),
    ),
    "qwen-code@0.24.4": Facts(
        asks=PROJECT_CODE_AND_EDITS,
        callbacks=(8, 0),
        default_mode="default",
        commands=49,
        findings=frozenset({"unknown-method", "unknown-notification"}),
    ),
    "opencode@1.18.33": Facts(
        asks={"execute": 6, "edit": 2},
        callbacks=(2, 0),
        undeclared=2,
        side=(1, 1),
        commands=3,
        findings=frozenset({"tool-call-status-backwards"}),
    ),
    "mistral-vibe@3.0.2": Facts(
        asks={"execute": 3},
        side=(1, 1),
        default_mode="accept-edits",
        commands=14,
        findings=frozenset({"early-update"}),
        sometimes=frozenset({"no-exit-on-eof"}),
    ),
    "cline@3.0.65": Facts(
        asks={"execute": 6, "read": 2, "other": 2},
        default_mode="act",
        findings=frozenset({"process-left-behind", "tool-call-before-announcement", "tool-call-status-backwards"}),
        kinds={"execute": 6, "read": 2, "other": 2},
    ),
}
