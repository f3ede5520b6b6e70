"""What each finding of a record means, in one sentence for a reader who knows the protocol and not this project.

What the frames show by themselves is described in `runner.acp.findings`; here stands the rest. results/FINDINGS.md is
made of both. A test holds that every id in the code has its sentence.
"""

from __future__ import annotations

from typing import Final

from runner.acp import findings

DESCRIPTIONS: Final[dict[str, str]] = findings.DESCRIPTIONS | {
    # Before and around the turn
    "auth-method-not-offered": "the authentication method that the configuration names is not among those offered",
    "auth-method-not-supported": "the configured authentication method is of a type that only a person can carry out",
    "mode-not-offered": "the mode that the configuration names is not among those offered; the default stays",
    "mcp-not-connected": "our MCP server had not been asked for its tools in time; the prompt was sent all the same",
    "configure-refused": "the agent refused a setting that the configuration asks for",
    "policy-fallback": "no option of the kind that the policy wants was offered; another one was chosen",
    "cancel-moment-missed": "the moment at which the user was to cancel never came",
    "cancel-ended-agent": "the agent ended, or hung up, after session/cancel",
    "load-without-replay": "session/load was answered without a replay of the conversation",
    "load-late-replay": "a part of the replay came after session/load was answered",
    "resume-replayed": "session/resume replayed the conversation, which only session/load does",
    # Work and its end
    "works-before-prompt": "the agent worked before the prompt was sent; its times are compared with nothing",
    "works-after-answer": "the agent worked after it had answered the prompt; its times are compared with nothing",
    "crash-after-answer": "the agent ended with an error after its last answer",
    "out-of-memory": "memory ran out during the run, and a process of the agent was killed",
    "no-exit-on-eof": "the agent went on after its input had ended, and was ended from outside",
    "process-left-behind": "processes of the agent lived on after it had ended, and were killed",
    "forwarder-killed": "the agent ended the program that forwards requests to its model",
    "resolver-died": "the name server beside the agent ended during the run",
    # Command lines
    "no-result": "the command line's output ended without a line that says its result",
    "extra-result": "the command line's output says a result more than once",
    # The model
    "gateway-limit": "requests to the model were refused, since they were too many, too large or too slow",
    "replay-drift": "the system prompt or the tools are not those that were recorded",
    "no-tape": "the recording of this run could not be written",
    # The protocol's schema
    "schema-newest-invalid": "a message that the newest JSON Schema of the protocol refuses",
    # The workspace and its verdict
    "collect-cut": "files of the workspace were not collected, since they are above the limit",
    "collect-skipped": "entries of the workspace were not collected, since they are no plain files",
    "outside-cut": "the list of files outside the workspace was cut",
    "not-looked-at": "the workspace could not be looked at before the prompt, so early changes are not known",
    "changes-cut": "more paths were changed than are listed",
    "patch-cut": "workspace.patch holds the first part of the changes only",
    "verify-skipped": "entries of the workspace were not taken over by the verifier",
    "verifier-ended": "the code under test ended its verifier; the task counts as failed",
    "verifier-limit": "the verifier reached a limit of the fixture; this says nothing of the repair",
    "verifier-flaky": "equal workspaces got different verdicts: the fixture's tests are not repeatable",
    # Evidence
    "evidence-cut": "a part of the run is beyond what is kept; counts may be too low",
    "redacted": "something that looks like a key stood in the evidence, and was struck out",
}
