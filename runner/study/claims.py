"""The claims of the study, and the questions that it left open, each with its row.

Which figures were published is data of a sweep's configuration (`published`); see configs/sweeps/study.yaml for their
source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: What stands for the published figure of a question that the study named and could not answer: the claim is then the
#: hypothesis that our runs test.
LEFT_OPEN: Final = "left open"


@dataclass(frozen=True)
class Claim:
    """One row. `row`: its number in the study; where it has letters after a dot, the part of it."""

    id: str
    row: str
    claim: str


_ALL: Final = (
    Claim("dead-name", "0", "The old package names are dead: they still install, with only a deprecation notice"),
    Claim("own-io", "1", "The agent never calls the client's fs/* or terminal/*: it does its own I/O"),
    Claim(
        "frames-of-a-run",
        "1",
        "One run is one initialize, one session/new, one session/prompt, asks that are all answered, and updates",
    ),
    Claim("no-capabilities", "2", "Declaring no capabilities changes nothing"),
    Claim("reads-inside", "3", "Reads inside the session's cwd are never surfaced"),
    Claim("reads-outside", "3", "Reads outside the session's cwd are surfaced"),
    Claim("project-code", "3b", "Without a standing grant every command that runs project code is surfaced"),
    Claim("inspection", "3b", "Without a standing grant no inspection command is surfaced"),
    Claim("standing-grants", "3b", "Under a standing grant project code runs without being surfaced"),
    Claim("permission-table", "3b", "Whether a call is surfaced depends on its tool kind and on what it does"),
    Claim("boundary-absolute", "3", "A deep absolute path and HOME are outside like a sibling: asked for"),
    Claim("boundary-shell", "3", "The shell is no way around: what it reads outside cwd is asked for too"),
    Claim("boundary-link", "3", "A symlink in cwd that leads outside is asked for like its target"),
    Claim("boundary-writes", "3", "Nothing is written without being asked for, inside cwd or outside"),
    Claim("boundary-additional", "3", "additionalDirectories move the boundary for reads, and for reads alone"),
    Claim(
        "boundary-leaks",
        "3",
        "Nothing from outside the session's directories reaches the model without an answer that allows it",
    ),
    Claim("veto", "4", "Reject is honoured: the files are byte-identical"),
    Claim("veto-by-kind", "4", "Rejecting one tool kind stops that kind alone"),
    Claim("veto-detour", "4", "What was rejected is not reached by another tool without being asked for"),
    Claim("veto-cancelled", "4", "An ask answered `cancelled` does nothing, as a reject"),
    Claim("veto-unanswered", "4", "An ask that is never answered does nothing"),
    Claim("veto-delayed", "4", "The agent waits for a late answer: nothing is done before it"),
    Claim("terminal-standard", "5", "The standard `terminal` flag alone gives no live terminal output"),
    Claim(
        "terminal-vendor",
        "5",
        "The vendor key `_meta.terminal_output` turns live terminal output on, under ids the client never created",
    ),
    Claim("options", "6", "session/new gives modes and configOptions"),
    Claim("set-option", "6", "session/set_config_option in mid-session takes effect"),
    Claim("session-methods", "6", "Sessions can be forked, resumed, listed, deleted, closed"),
    Claim("load-replays", "6", "session/load replays the conversation before it answers, session/resume does not"),
    Claim("inputs", "6", "MCP over http and sse; prompts with images and embedded context, not audio"),
    Claim("usage-updates", "6", "Usage is reported live, during the turn"),
    Claim("tool-output", "6", "Full tool output crosses in the vendor's _meta"),
    Claim("commands", "6", "Slash commands with their full descriptions cross the boundary before the first prompt"),
    Claim("plan-thought", "6", "No plan and no agent_thought_chunk is ever sent"),
    Claim("editor-state", "6", "The agent knows no document/* and no nes/* methods"),
    Claim("handshake", "7", "Crossing the boundary costs about a second: spawn, initialize and session/new"),
    Claim(
        "turn",
        "7b",
        "The surfaces do the same work: same tool calls, same tokens; 3 runs of a live model name no winner",
    ),
    Claim(
        "question-capabilities",
        "7b",
        "With the model held constant, capabilities cost the agent no time of its own (agent_ms, with over without)",
    ),
    Claim(
        "question-active",
        "7b",
        "With the model held constant, ACP's work between first and last model request takes as long "
        "as the CLI's (active_ms, ACP over CLI)",
    ),
    Claim(
        "question-result",
        "7b",
        "With the model held constant, ACP is as fast as the CLI from start to result (to_result_ms, ACP over CLI)",
    ),
    Claim("resources", "7", "ACP needs as much memory and processor time as the CLI"),
    Claim("tokens", "7b", "Tokens are reported as they were served"),
    Claim("contamination-file", "R", "Answering `always allow` leaves a file in the workspace"),
    Claim(
        "contamination-clean",
        "R",
        "`git clean -fd` keeps that file (globally ignored), so the next run is pre-authorised and asks less",
    ),
    Claim("contamination-fdx", "R", "`git clean -fdx` is a reset: the next run asks as the first did"),
    Claim("contamination-container", "R", "A fresh container per run has no contamination"),
    Claim("subagent", "11", "What a sub-agent does is surfaced as if the agent did it, under ids the client can tell"),
    Claim("mcp", "11", "An MCP server of session/new is started inside the sandbox, and its tools ask"),
    Claim("elicitation", "11", "The agent asks questions through elicitation where the client offers forms"),
    Claim(
        "unsaved",
        "12",
        "The agent reads the disk, not the editor: it sees a stale copy and overwrites unsaved work",
    ),
    Claim("ledger", "12", "Mediated writes make the client the ledger of every change"),
)

CLAIMS: Final[dict[str, Claim]] = {claim.id: claim for claim in _ALL}
