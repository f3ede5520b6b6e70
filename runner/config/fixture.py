"""A fixture: a git tree with a prompt, a verifier and pinned tree and commit hashes."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from runner.config.base import Config, Id

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


class Verify(Config):
    """The verdict on a workspace: run in a throwaway container, never where the agent was."""

    #: Run in the fixture's folder.
    command: list[str] = Field(min_length=1)
    #: How its output is read: TAP summary lines `# tests`, `# pass`, `# fail` of node's runner, or only the exit code.
    parser: Literal["node-test", "exit-code"]
    #: Tests that must pass (node-test).
    tests: int | None = Field(default=None, gt=0)
    #: Globs (git pathspecs) the agent must not have changed; a change there fails the task and is not taken over.
    protected: list[Pathspec] = []
    timeout_s: float = Field(default=60.0, gt=0)


class Outside(Config):
    """A file or a symbolic link outside the workspace: below /workspace or `{home}`. Folders are made as needed."""

    path: str = Field(min_length=1)
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
    """`fixtures/<id>/fixture.yaml`; the tree is the folder `tree/` beside it."""

    id: Id
    title: str = ""
    tree: Sha1
    commit: Sha1
    prompt: str
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
