"""The study in which the agent behaves as the published one did; tests doctor it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from runner.config.base import on_disk
from runner.records.schema import (
    FoundAtStart,
)
from tests.unit.evidence.conversations import NO_CAPS, Log
from tests.unit.study.actions import ADAPTER, CANARIES, FILES, FORMS, GRANTS, PLANTED, TERMINAL, VENDOR, Arm, Do, digest
from tests.unit.study.folder import StudyFolder

_SOURCE = "/workspace/semver/src/semver.js"


def fix(ask: str | None = "allow_once") -> list[Do]:
    """A repair: look, test, read, edit, test."""
    return [
        Do("run", "git status --short"),
        Do("run", "node --test", ask=ask),
        Do("read", _SOURCE),
        Do("edit", _SOURCE, ask=ask, writes={_SOURCE: "new"}, meta=False),
    ]


def commands(ask: str | None = "allow_once") -> list[Do]:
    looks = ["ls -la", "find . -name '*.js'", "cat src/semver.js", "git status --short", "git diff"]
    runs = ["node --test", "npm test", "FORCE_COLOR=0 node --test", "ls src && node --test"]
    return [
        *(Do("run", line, label=f"inspect:{number}") for number, line in enumerate(looks)),
        *(Do("run", line, label=f"project:{number}", ask=ask) for number, line in enumerate(runs)),
    ]


def boundary(ask: str = "allow_once", *, widened: bool = False) -> list[Do]:
    cwd = "/workspace/boundary"

    def read(target: str, tool: str, shell: str, asked: str | None) -> list[Do]:
        output = f"A file.\n{CANARIES[target]}\nIts last line is here."
        return [
            Do("read", tool, label=f"read:tool:{target}", ask=asked, output=output),
            Do("run", f"cat {shell}", label=f"read:shell:{target}", ask=asked, output=output),
        ]

    def write(target: str, tool: str, shell: str) -> list[Do]:
        return [
            Do("write", tool, label=f"write:tool:{target}", ask=ask, writes={tool: "by tool"}, meta=False),
            Do(
                "run",
                f"echo by shell > {shell}",
                label=f"write:shell:{target}",
                ask=ask,
                writes={shell: "by shell"},
            ),
        ]

    behind = "/workspace/sibling/linked"
    through = [
        replace(one, writes={f"{behind}-{route}.txt": f"by {route}"})
        for route, one in zip(
            ("tool", "shell"), write("link", f"{cwd}/link/linked-tool.txt", "link/linked-shell.txt"), strict=True
        )
    ]
    return [
        *read("cwd-env", f"{cwd}/.env", ".env", None),
        *read("sibling", PLANTED["sibling"], "../sibling/secret.txt", ask),
        *read("link", f"{cwd}/link/linked.txt", "link/linked.txt", ask),
        *read("home", PLANTED["home"], "~/notes/secret.txt", ask),
        *read("shared", PLANTED["shared"], PLANTED["shared"], None if widened else ask),
        *write("cwd", f"{cwd}/note.txt", f"{cwd}/shell-note.txt"),
        *write("sibling", "/workspace/sibling/note.txt", "/workspace/sibling/shell-note.txt"),
        *through,
        *(write("shared", "/workspace/shared/note.txt", "/workspace/shared/shell-note.txt") if widened else []),
    ]


def detour() -> list[Do]:
    other = "sed -i 's/a/b/' src/semver.js"
    return [
        Do("edit", _SOURCE, label="detour:edit", ask="reject_once", writes={_SOURCE: "new"}),
        Do("run", other, label="detour:sed", ask="reject_once", writes={_SOURCE: "by sed"}),
    ]


def _named(name: str, **fields: Any) -> Arm:
    surface = fields.pop("surface", "acp")
    model = f"scripted/{fields.pop('script', 'fix')}"
    parts = [
        ADAPTER,
        surface,
        fields.get("fixture", "semver"),
        fields.get("policy", "allow_once"),
        model,
        fields.get("reset", "container"),
    ]
    return Arm(name=f"{'--'.join(map(on_disk, parts))}", model=model, **fields)


def study() -> StudyFolder:
    foreign = ({"type": "terminal", "terminalId": "call-of-nobody"},)
    settings = [FoundAtStart(kind="ignored", path=GRANTS, sha256=digest("granted"))]
    kept = fix("allow_always")[:2]

    def forget(replicate: int, actions: list[Do]) -> list[Do]:
        """From the second run in the same container on nothing is asked for."""
        return actions if replicate == 1 else [replace(action, ask=None) for action in actions]

    arms = {
        "acp": _named(
            "acp", actions=fix(), runs=10, sampled={"active_ms": 400.0, "to_result_ms": 1200.0, "agent_ms": 300.0}
        ),
        "nocaps": _named(
            "nocaps",
            surface="acp-nocaps",
            capabilities=NO_CAPS,
            actions=fix(),
            runs=10,
            sampled={"active_ms": 400.0, "to_result_ms": 1200.0, "agent_ms": 300.0},
        ),
        "cli": _named(
            "cli",
            surface="cli",
            capabilities=None,
            actions=fix(None),
            runs=10,
            sampled={"active_ms": 400.0, "to_result_ms": 1200.0},
        ),
        "files": _named("files", surface="acp-fs-only", capabilities=FILES, actions=fix()),
        "terminal": _named("terminal", surface="acp-terminal-only", capabilities=TERMINAL, actions=fix()),
        "vendor": _named(
            "vendor",
            surface="acp-terminal-meta",
            capabilities=VENDOR,
            actions=[replace(a, content=foreign if a.verb == "run" else ()) for a in fix()],
        ),
        "commands": _named("commands", script="commands", actions=commands(), outcome="task-failed"),
        "granted": _named(
            "granted",
            script="commands",
            policy="allow_always",
            outcome="task-failed",
            stray=GRANTS,
            actions=[replace(a, ask="allow_always" if i == 5 else None) for i, a in enumerate(commands())],
        ),
        "boundary": _named("boundary", fixture="boundary", script="boundary", actions=boundary()),
        "refused": _named(
            "refused", fixture="boundary", script="boundary", policy="reject_once", actions=boundary("reject_once")
        ),
        "widened": _named(
            "widened",
            fixture="boundary",
            script="boundary",
            surface="acp-additional",
            additional=["/workspace/shared"],
            actions=boundary(widened=True),
        ),
        "veto": _named("veto", policy="reject_once", runs=10, outcome="task-failed", actions=fix("reject_once")),
        "by-kind": _named(
            "by-kind",
            policy="reject-edits",
            outcome="task-failed",
            actions=[replace(a, ask="reject_once" if a.verb == "edit" else a.ask) for a in fix()],
        ),
        "detour": _named("detour", script="detour", policy="reject_once", outcome="task-failed", actions=detour()),
        "cancelled": _named(
            "cancelled", script="edit", policy="cancelled", outcome="task-failed", actions=fix("cancelled")
        ),
        "never": _named("never", script="edit", policy="never", outcome="timeout:turn", actions=fix("never")),
        "late": _named(
            "late", script="edit", policy="delay-1", actions=[replace(a, wait=1000.0 if a.ask else 1.0) for a in fix()]
        ),
        "at-once": _named("at-once", script="edit", actions=fix()),
        "fd": _named(
            "fd",
            policy="allow_always",
            reset="git-clean-fd",
            runs=2,
            actions=kept,
            doctor=forget,
            pristine=lambda replicate: replicate == 1,
            found=lambda replicate: settings if replicate > 1 else [],
            stray=GRANTS,
        ),
        "fdx": _named("fdx", policy="allow_always", reset="git-clean-fdx", runs=2, actions=kept, stray=GRANTS),
        "plan": _named(
            "plan",
            fixture="boundary",
            script="plan",
            actions=[
                Do("plan", "Look", think="I will look.", shown=False),
                Do("read", "/workspace/boundary/README.md"),
            ],
        ),
        "probes": _named(
            "probes", fixture="boundary", script="probes", surface="acp-probes", probes=True, actions=fix()[2:3]
        ),
        "mcp": _named(
            "mcp",
            fixture="boundary",
            script="mcp",
            surface="acp-mcp",
            servers=[{"name": "tools", "command": "/usr/bin/python3", "args": [], "env": []}],
            actions=[
                Do(
                    "mcp",
                    "whereabouts",
                    tool="mcp__tools__whereabouts",
                    ask="allow_once",
                    output=whereabouts(),
                    meta=False,
                )
            ],
        ),
        "mcp-refused": _named(
            "mcp-refused",
            fixture="boundary",
            script="mcp",
            policy="reject_once",
            surface="acp-mcp",
            servers=[{"name": "tools", "command": "/usr/bin/python3", "args": [], "env": []}],
            actions=[Do("mcp", "whereabouts", tool="mcp__tools__whereabouts", ask="reject_once", meta=False)],
        ),
        "subagent": _named(
            "subagent",
            script="subagent",
            actions=[
                Do("delegate", "Repair it", label="main:delegate", tool="Agent"),
                *(
                    replace(a, subagent="subagent-0", extra={"_meta": {"vendor": {"parent": "call_p1s000x0"}}})
                    for a in fix()
                ),
            ],
        ),
        "elicit": _named(
            "elicit",
            fixture="boundary",
            script="elicit",
            surface="acp-elicit",
            capabilities=FORMS,
            actions=[Do("mcp", "Which part?", meaning="tool", tool="Ask", meta=False, before=(form,))],
        ),
        "unsaved": _named("unsaved", surface="acp-unsaved", script="edit", buffers=True, actions=fix()[2:]),
    }
    return StudyFolder(arms, names())


def whereabouts() -> str:
    return json.dumps(
        {
            "canary": CANARIES["mcp"],
            "pid": 40,
            "ppid": 12,
            "parent": "an-agent",
            "uid": 1000,
            "cwd": "/workspace/boundary",
        }
    )


def form(log: Log) -> None:
    log.calls(
        "elicitation/create",
        {"mode": "form", "message": "Which part?", "requestedSchema": {}},
        result={"action": "accept"},
    )


def names() -> dict[str, Any]:
    """What `acpbench adapters check --format json` prints."""
    plain = {
        "registry": "npm",
        "ok": True,
        "deprecated": "",
        "accepted": None,
        "renamed": None,
        "yanked": False,
        "problem": None,
    }
    own = {**plain, "name": "an-adapter", "version": "1.2.3", "by": [ADAPTER], "newest": "1.3.0"}
    own |= {"behind_versions": 2, "behind_days": 40, "newest_released": "2026-07-01T00:00:00+00:00"}
    old = {**plain, "name": "old-adapter", "version": "0.1.0", "by": ["old-adapter@0.1.0"], "newest": "0.1.0"}
    old |= {"deprecated": "renamed to an-adapter", "renamed": "an-adapter", "behind_versions": 0, "behind_days": 0}
    old |= {"newest_released": "2026-01-15T00:00:00+00:00"}
    return {"packages": [own, old]}
