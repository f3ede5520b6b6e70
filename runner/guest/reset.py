"""A kept container between two runs: the reset that people use, done as they do it, and what it leaves behind.

Unlike everywhere else git runs here on a repository that an agent could write to, with the agent's HOME and so with
its configuration and its global ignores: that is the subject of the experiment. It is the agent's uid, in the agent's
container, with no agent running; nothing of it decides a verdict.
"""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from typing import Any, NamedTuple

from . import fixture, planted, tree
from .channel import OpError
from .fixture import Layout, Pins, Prepared
from .untrusted import conditions

#: Mode -> the options of `git clean`.
MODES = {"git-clean-fd": "-fd", "git-clean-fdx": "-fdx"}
_TIMEOUT_S = 60.0
#: Of the list of what was found: a hostile run may leave a million files.
MAX_FOUND = 500


class LeftFromBefore(NamedTuple):
    """Something that a pristine start would not have. Kinds: `untracked ignored modified deleted` (`path` below the
    workspace), `state` (a folder of an agent's own) and `home` (both absolute)."""

    kind: str
    path: str
    sha256: str | None = None

    def as_json(self) -> dict[str, Any]:
        return self._asdict()


def reset(
    layout: Layout,
    name: str,
    archive: bytes,
    pins: Pins,
    home: dict[str, str],
    plant: list[dict[str, Any]],
    mode: str,
) -> Prepared:
    """`git reset --hard && git clean` in the workspace of an earlier run; the rest of the container stays as it is.

    Returns what a fresh preparation would have made, for the proofs to compare with.
    Raises OpError `bad_request` for a mode, `not_found` where there is no workspace, `git_failed`.
    """
    if mode not in MODES:
        raise OpError("bad_request", f"mode: {' or '.join(MODES)}, not {mode!r}")
    workspace = f"{layout.workspaces}/{name}"
    if not os.path.isdir(workspace):
        raise OpError("not_found", f"{workspace}: no earlier run left a workspace")
    _git(layout, workspace, "reset", "--hard", "--quiet")
    _git(layout, workspace, "clean", "--quiet", MODES[mode])
    os.makedirs(layout.tmp, mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=layout.tmp) as scratch:
        clean = Layout(f"{scratch}/workspace", f"{scratch}/home")
        os.mkdir(clean.workspaces)
        os.mkdir(clean.home)
        fresh = fixture.prepare(clean, name, archive, pins, {}, fsck=False)
    # What the adapter needs to find its model names the run, so it is written anew.
    written = fixture.write_home(layout, home)
    return fresh._replace(
        workspace=workspace,
        git_state=fixture.git_state(workspace),
        planted=[planted.meant(item) for item in plant],
        home={**written, **planted.blobs_below(layout.home, plant)},
    )


def survey(layout: Layout, prepared: Prepared, state_dirs: list[str]) -> list[LeftFromBefore]:
    """What a pristine start would not have, the workspace first. Empty: there is nothing of an earlier run.

    Must come before *go* and before any long-lived child of the guest's, since git is run.
    """
    present = tree.scan(prepared.workspace)
    extra = sorted(present.keys() - prepared.manifest.keys())
    ignored = _ignored(layout, prepared.workspace, extra) if extra else set()
    found = [
        LeftFromBefore(
            "ignored" if path in ignored else "untracked", path, planted.look(f"{prepared.workspace}/{path}").sha256
        )
        for path in extra
    ]
    for path, entry in sorted(prepared.manifest.items()):
        if path not in present:
            found.append(LeftFromBefore("deleted", path))
        elif present[path] != entry:
            found.append(LeftFromBefore("modified", path, planted.look(f"{prepared.workspace}/{path}").sha256))
    for name in state_dirs:
        ours = any(path == name or path.startswith(f"{name}/") for path in prepared.home)
        places = [prepared.workspace] if ours else [prepared.workspace, layout.home]
        found += [LeftFromBefore("state", f"{place}/{name}") for place in places if os.path.lexists(f"{place}/{name}")]
    for path, status in tree.walk(layout.home, skip=""):
        if not stat.S_ISDIR(status.st_mode) and path not in prepared.home:
            found.append(LeftFromBefore("home", f"{layout.home}/{path}", planted.look(f"{layout.home}/{path}").sha256))
    return found[:MAX_FOUND]


def _ignored(layout: Layout, workspace: str, paths: list[str]) -> set[str]:
    names = b"".join(os.fsencode(path) + b"\0" for path in paths)
    done = _git(layout, workspace, "check-ignore", "--no-index", "--stdin", "-z", stdin=names, ok=(0, 1))
    return {os.fsdecode(name) for name in done.split(b"\0") if name}


def _git(layout: Layout, workspace: str, *args: str, stdin: bytes = b"", ok: tuple[int, ...] = (0,)) -> bytes:
    """git as a person in the container would run it."""
    env = {"PATH": os.defpath, "HOME": layout.home, "LC_ALL": "C", "TZ": "UTC", "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(
            ["git", *args],
            cwd=workspace,
            env=env,
            input=stdin,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
            preexec_fn=conditions,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OpError("git_failed", f"git {args[0]}: {error}") from error
    if done.returncode not in ok:
        raise OpError("git_failed", f"git {args[0]} ended with {done.returncode}: {done.stderr[-400:]!r}")
    return done.stdout
