"""A fixture: a git tree with a prompt, a verifier and pinned tree and commit hashes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from runner.config.base import Config, Id

Sha1 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]


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


class Fixture(Config):
    """`fixtures/<id>/fixture.yaml`; the tree is the folder `tree/` beside it."""

    id: Id
    title: str = ""
    tree: Sha1
    commit: Sha1
    prompt: str
    verify: Verify
