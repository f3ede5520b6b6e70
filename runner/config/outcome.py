"""The names a cell may end as, in design order of precedence; a sweep's `expect` is checked against them."""

from __future__ import annotations

from runner.config.knobs import Deadlines

#: Strongest first; `timeout` stands for every `timeout:<phase>`.
PRECEDENCE = (
    "aborted", "infra", "timeout", "agent-error", "protocol-violation", "model-script", "task-failed", "passed",
)  # fmt: skip

#: Outcomes after which a run says nothing of its agent: it is in no figure, and an agent is not waited for.
UNMEASURED = frozenset({"aborted", "infra"})
#: Those of them that are tried again.
TRIED_AGAIN = frozenset({"infra"})
#: Those in which the script did not fit say nothing of what an agent does with it.
OFF_SCRIPT = UNMEASURED | {"model-script"}
#: Outcomes that a verdict stands behind.
JUDGED = frozenset({"task-failed", "passed"})

#: Deadlines after which a run goes on.
_ENDLESS = frozenset({"quiet", "mcp_connected"})


def outcome_names() -> list[str]:
    """Every outcome a record may hold, `timeout:<phase>` written out per deadline."""
    names: list[str] = []
    for name in PRECEDENCE:
        if name == "timeout":
            names.extend(f"timeout:{phase}" for phase in Deadlines.model_fields if phase not in _ENDLESS)
        else:
            names.append(name)
    return names
