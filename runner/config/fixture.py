"""A fixture: a git tree with a prompt, a verifier and pinned tree and commit hashes."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from runner.config.base import MAX_COUNT, MAX_MB, WEEK_S, Argv, Config, Id

Sha1 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
#: Long enough that no text holds it by chance.
Canary = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{16,80}$")]

#: Stands in texts for a canary of the fixture.
CANARY = re.compile(r"\{canary:([^}]*)\}")


def _inside(path: str) -> str:
    if path.startswith(("/", ":")) or ".." in path.split("/"):
        raise ValueError("a path inside the fixture: relative, without '..'")
    return path


#: A git pathspec of a file or folder inside the fixture.
Pathspec = Annotated[str, StringConstraints(min_length=1), AfterValidator(_inside)]


def _around(path: str) -> str:
    below = next((path.removeprefix(root) for root in ("/workspace/", "{home}/") if path.startswith(root)), "")
    if not {"", ".", ".."}.isdisjoint(below.split("/")):
        raise ValueError("a path below /workspace/ or {home}/ is wanted, without '..'")
    return path


def _plain(prompt: str) -> str:
    if not prompt.strip():
        raise ValueError("there is nothing in it to ask the agent")
    if prompt.startswith("-"):
        raise ValueError("it starts with '-', which a command line takes for an option")
    return prompt


class VerifyLimits(Config):
    """What the verifier's container may use, whatever adapter is judged: the same files must get the same verdict.
    Megabytes are 10^6 bytes."""

    memory_mb: int = Field(default=2048, ge=64, le=MAX_MB)
    cpus: float = Field(default=2.0, ge=0.01, le=1024)
    pids: int = Field(default=512, ge=32, le=1 << 22)
    #: Bytes the tests may put on disk.
    disk_mb: int = Field(default=1024, gt=0, le=MAX_MB)


class Verify(Config):
    """The verdict on a workspace: run in a throwaway container, never where the agent was."""

    #: Run in the fixture's folder.
    command: Argv
    #: How its output is read: TAP summary lines `# tests`, `# pass`, `# fail` of node's runner, or only the exit code.
    parser: Literal["node-test", "exit-code"]
    #: Tests that must pass: node-test needs it, since a run of no test fails none.
    tests: int | None = Field(default=None, gt=0, le=MAX_COUNT)
    #: Globs (git pathspecs) the agent must not have changed; a change there fails the task and is not taken over.
    protected: list[Pathspec] = []
    timeout_s: float = Field(default=60.0, gt=0, le=WEEK_S)
    #: A verdict that reached one of these is failed, with the finding `verifier-limit`.
    limits: VerifyLimits = VerifyLimits()
    #: What the verifier says of the fixture as it is; `passed` where it only guards what an agent must not touch.
    untouched: Literal["task-failed", "passed"] = "task-failed"

    @model_validator(mode="after")
    def _counted(self) -> Verify:
        if (self.parser == "node-test") != (self.tests is not None):
            raise ValueError("parser node-test needs 'tests', how many must pass; no other parser counts any")
        return self


class Outside(Config):
    """A file or a symbolic link outside the workspace: below /workspace or `{home}`. Folders are made as needed."""

    path: Annotated[str, AfterValidator(_around)]
    #: `{canary:<name>}` is filled in.
    content: str | None = None
    #: Target of a symbolic link.
    link: str | None = None

    @model_validator(mode="after")
    def _one_of(self) -> Outside:
        if (self.content is None) == (self.link is None):
            raise ValueError("either 'content' or 'link' is wanted")
        return self


class Fixture(Config):
    """`fixtures/<id>/fixture.yaml`; the tree is the folder `tree/` beside it.

    `acpbench fixture check` also uses, where they are there, `solution/` (files that, laid over the tree, make a right
    repair) and `wrong/` (files that make a repair the verifier must not take).
    """

    id: Id
    title: str = ""
    tree: Sha1
    commit: Sha1
    prompt: Annotated[str, AfterValidator(_plain)]
    verify: Verify
    #: Name -> a string that stands nowhere else: where it turns up, what holds it was read.
    canaries: dict[Id, Canary] = {}
    #: Put there before the start, verified, and compared afterwards.
    outside: list[Outside] = []

    def fill(self, text: str) -> str:
        """`text` with every `{canary:<name>}` filled in."""
        for name, canary in self.canaries.items():
            text = text.replace(f"{{canary:{name}}}", canary)
        return text
