"""What was published, and what it left open, as data: the reference column of the findings.

Source: the published study of a real adapter over ACP (ACP SDK 1.3.0, Node v25.9.0, a live model on a desktop machine;
14 runs, 11 of them over ACP). `left open` marks a question it named and could not answer; the claim is then the
hypothesis that our runs test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LEFT_OPEN: Final = "left open"


@dataclass(frozen=True)
class Claim:
    """One row. `row`: its number in the study; where it has letters after a dot, the part of it."""

    id: str
    row: str
    claim: str
    published: str


_ALL: Final = (
    Claim(
        "dead-name",
        "0",
        "The old package names are dead: they still install, with only a deprecation notice",
        "old names frozen 5.5 months behind",
    ),
    Claim(
        "own-io",
        "1",
        "The agent never calls the client's fs/* or terminal/*: it does its own I/O",
        "0 calls in 11 ACP runs",
    ),
    Claim(
        "frames-of-a-run",
        "1",
        "One run is one initialize, one session/new, one session/prompt, asks that are all answered, and updates",
        "100 frames: initialize 1, session/new 1, session/prompt 1, results 3, session/update 86, "
        "request_permission 4, answers 4",
    ),
    Claim(
        "no-capabilities",
        "2",
        "Declaring no capabilities changes nothing",
        "3 of 3 runs pass the tests, same tool shape (2 reads, 6-7 shell commands, edits)",
    ),
    Claim("reads-inside", "3", "Reads inside the session's cwd are never surfaced", "0 of 22 (an .env in cwd too)"),
    Claim("reads-outside", "3", "Reads outside the session's cwd are surfaced", "2 of 2 (../sibling/secret.txt)"),
    Claim(
        "project-code",
        "3b",
        "Without a standing grant every command that runs project code is surfaced",
        "15 of 15",
    ),
    Claim(
        "inspection",
        "3b",
        "Without a standing grant no inspection command is surfaced",
        "0 of 10 (ls, find, cat, git status, git diff)",
    ),
    Claim(
        "standing-grants",
        "3b",
        "Under a standing grant project code runs without being surfaced",
        "7 project-code commands were not surfaced",
    ),
    Claim(
        "permission-table", "3b", "Whether a call is surfaced depends on its tool kind and on what it does", LEFT_OPEN
    ),
    Claim("boundary-absolute", "3", "A deep absolute path and HOME are outside like a sibling: asked for", LEFT_OPEN),
    Claim("boundary-shell", "3", "The shell is no way around: what it reads outside cwd is asked for too", LEFT_OPEN),
    Claim("boundary-link", "3", "A symlink in cwd that leads outside is asked for like its target", LEFT_OPEN),
    Claim("boundary-writes", "3", "Nothing is written without being asked for, inside cwd or outside", LEFT_OPEN),
    Claim(
        "boundary-additional", "3", "additionalDirectories move the boundary for reads, and for reads alone", LEFT_OPEN
    ),
    Claim(
        "boundary-leaks",
        "3",
        "Nothing from outside the session's directories reaches the model without an answer that allows it",
        LEFT_OPEN,
    ),
    Claim(
        "veto",
        "4",
        "Reject is honoured: the files are byte-identical",
        "4 requests, 4 rejected: git blob hash equals the baseline's, git status empty, "
        "tests 3 total / 1 pass / 2 fail",
    ),
    Claim("veto-by-kind", "4", "Rejecting one tool kind stops that kind alone", LEFT_OPEN),
    Claim("veto-detour", "4", "What was rejected is not reached by another tool without being asked for", LEFT_OPEN),
    Claim("veto-cancelled", "4", "An ask answered `cancelled` does nothing, as a reject", LEFT_OPEN),
    Claim("veto-unanswered", "4", "An ask that is never answered does nothing", LEFT_OPEN),
    Claim("veto-delayed", "4", "The agent waits for a late answer: nothing is done before it", LEFT_OPEN),
    Claim(
        "terminal-standard",
        "5",
        "The standard `terminal` flag alone gives no live terminal output",
        "0 terminal content items",
    ),
    Claim(
        "terminal-vendor",
        "5",
        "The vendor key `_meta.terminal_output` turns live terminal output on, under ids the client never created",
        "21 items, each with a terminalId the client never created",
    ),
    Claim("options", "6", "session/new gives modes and configOptions", "configOptions and modes in session/new"),
    Claim(
        "set-option",
        "6",
        "session/set_config_option in mid-session takes effect",
        "session/set_config_option offered; effect not shown",
    ),
    Claim(
        "session-methods",
        "6",
        "Sessions can be forked, resumed, listed, deleted, closed",
        "fork, resume, list, delete, close offered",
    ),
    Claim(
        "load-replays",
        "6",
        "session/load replays the conversation before it answers, session/resume does not",
        "promised by the protocol; not shown",
    ),
    Claim(
        "inputs",
        "6",
        "MCP over http and sse; prompts with images and embedded context, not audio",
        "MCP http, sse; image, embeddedContext, no audio",
    ),
    Claim("usage-updates", "6", "Usage is reported live, during the turn", "usage_update 18 times in one run"),
    Claim(
        "tool-output",
        "6",
        "Full tool output crosses in the vendor's _meta",
        "_meta.claudeCode.toolResponse",
    ),
    Claim(
        "commands",
        "6",
        "Slash commands with their full descriptions cross the boundary before the first prompt",
        "65 commands",
    ),
    Claim("plan-thought", "6", "No plan and no agent_thought_chunk is ever sent", "none seen"),
    Claim("editor-state", "6", "The agent knows no document/* and no nes/* methods", "none seen"),
    Claim(
        "handshake",
        "7",
        "Crossing the boundary costs about a second: spawn, initialize and session/new",
        "772-922 ms, median 820 ms, 11 runs",
    ),
    Claim(
        "turn",
        "7b",
        "The surfaces do the same work: same tool calls, same tokens; 3 runs of a live model name no winner",
        "medians of 3: acp 59.3 s / 304.5k tokens, acp-nocaps 54.5 s / 305.1k, cli 47.5 s / 305.1k; 9 tool calls each",
    ),
    Claim(
        "question-capabilities",
        "7b",
        "With the model held constant, capabilities cost the agent no time of its own (agent_ms, with over without)",
        LEFT_OPEN,
    ),
    Claim(
        "question-active",
        "7b",
        "With the model held constant, ACP's work between first and last model request takes as long as the CLI's "
        "(active_ms, ACP over CLI)",
        LEFT_OPEN,
    ),
    Claim(
        "question-result",
        "7b",
        "With the model held constant, ACP is as fast as the CLI from start to result (to_result_ms, ACP over CLI)",
        LEFT_OPEN,
    ),
    Claim("resources", "7", "ACP needs as much memory and processor time as the CLI", LEFT_OPEN),
    Claim("tokens", "7b", "Tokens are reported as they were served", LEFT_OPEN),
    Claim(
        "contamination-file",
        "R",
        "Answering `always allow` leaves a file in the workspace",
        ".claude/settings.local.json",
    ),
    Claim(
        "contamination-clean",
        "R",
        "`git clean -fd` keeps that file (globally ignored), so the next run is pre-authorised and asks less",
        "44 of 55 commands `never asked`: an artefact",
    ),
    Claim(
        "contamination-fdx",
        "R",
        "`git clean -fdx` is a reset: the next run asks as the first did",
        "needs git reset --hard && git clean -fdx && rm -rf .claude, and an assertion",
    ),
    Claim("contamination-container", "R", "A fresh container per run has no contamination", LEFT_OPEN),
    Claim(
        "subagent",
        "11",
        "What a sub-agent does is surfaced as if the agent did it, under ids the client can tell",
        LEFT_OPEN,
    ),
    Claim("mcp", "11", "An MCP server of session/new is started inside the sandbox, and its tools ask", LEFT_OPEN),
    Claim("elicitation", "11", "The agent asks questions through elicitation where the client offers forms", LEFT_OPEN),
    Claim(
        "unsaved",
        "12",
        "The agent reads the disk, not the editor: it sees a stale copy and overwrites unsaved work",
        "explained from the protocol; not shown",
    ),
    Claim("ledger", "12", "Mediated writes make the client the ledger of every change", "explained; not shown"),
)  # fmt: skip

CLAIMS: Final[dict[str, Claim]] = {claim.id: claim for claim in _ALL}
