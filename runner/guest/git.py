"""Runs git so that nothing but our own arguments decides what it does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence

from .channel import OpError
from .untrusted import conditions

#: No configuration of the system, of a user or of the caller; a fixed language and zone.
ENV = {
    "PATH": os.defpath,
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "TZ": "UTC",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
}
#: Whatever could start a program or read a file of the work tree's choosing is off.
_OPTIONS = [
    option
    for setting in (
        "core.hooksPath=/dev/null",
        "core.fsmonitor=false",
        "core.attributesFile=/dev/null",
        "core.excludesFile=/dev/null",
        "core.pager=cat",
        "diff.external=",
        "gc.auto=0",
        "maintenance.auto=false",
        "commit.gpgSign=false",
        "core.autocrlf=false",
        "safe.directory=*",
    )
    for option in ("-c", setting)
]


def git(
    *args: str,
    cwd: str,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    ok: Sequence[int] = (0,),
    timeout_s: float = 60.0,
) -> subprocess.CompletedProcess[bytes]:
    """Runs `git ARGS` in `cwd`. Raises OpError `git_failed` where it ends otherwise than with one of `ok`.

    It waits for its child itself: not to be used once the reaper has started, and never on a repository that an agent
    could write to.
    """
    try:
        done = subprocess.run(
            ["git", *_OPTIONS, *args],
            cwd=cwd,
            env={**ENV, **(env or {})},
            input=stdin,
            capture_output=True,
            timeout=timeout_s,
            check=False,
            preexec_fn=conditions,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OpError("git_failed", f"git {args[0]}: {error}") from error
    if done.returncode not in ok:
        text = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
        raise OpError("git_failed", f"git {args[0]} ended with {done.returncode}: {text[-400:]}")
    return done


def ignored(paths: Iterable[str], *, repository: str, work_tree: str, timeout_s: float = 60.0) -> set[str]:
    """Which of the paths the .gitignore files of `work_tree` cover. Raises OpError as `git` does."""
    # Each begins with `./`: a name that begins with `:` would be a pathspec with magic.
    done = git(
        "check-ignore", "--no-index", "--stdin", "-z",
        cwd=work_tree,
        env={"GIT_DIR": repository, "GIT_WORK_TREE": work_tree},
        stdin=b"".join(b"./" + os.fsencode(path) + b"\0" for path in paths),
        ok=(0, 1),
        timeout_s=timeout_s,
    )  # fmt: skip
    return {os.fsdecode(name).removeprefix("./") for name in done.stdout.split(b"\0") if name}
