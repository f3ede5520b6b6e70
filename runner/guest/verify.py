"""The throwaway container's work: what has the agent changed, and do the tests pass on it?

The agent's archive is laid over a clean fixture. Its files are only ever hashed, compared as git *objects* in a store
that we write ourselves, and executed by the test command: no git looks at a work tree or a repository of the agent's,
so neither an attribute nor a nested `.git` is read as one.
"""

from __future__ import annotations

import os
import queue
import shutil
import signal
import stat
import tempfile
import threading
import time
from collections.abc import Collection
from typing import Any, NamedTuple

from . import fixture, gitobj, isolated, limits, procs, tree
from .channel import OpError, Request, within
from .git import git, ignored
from .gitobj import GitEntry, Manifest
from .spawn import spawn
from .untrusted import AGENT, Untrusted, User

#: What the agent's archive may unpack to.
_CAP_BYTES = 1 << 30
_PATCH_BYTES = 64 << 20
#: Changes that are listed, the protected ones first.
_MAX_CHANGES = 20_000
_OUTPUT_BYTES = 256_000
_MAX_SKIPPED = 1_000
#: What the lists of changes and of what was skipped, and the status, may take of the reply.
_LIST_BYTES = 8 << 20
_SKIPPED_BYTES = 2 << 20
_DRAIN_S = 5.0
#: As a shell says it.
_NOT_FOUND = 127


class FileChange(NamedTuple):
    """One path that differs from the fixture: A added, M content or executable bit, D deleted, T other type."""

    path: str
    status: str
    before: str | None
    after: str | None
    protected: bool = False

    def as_json(self) -> dict[str, Any]:
        return self._asdict()


class CommandResult(NamedTuple):
    """The test command. `exit_code` is null where it was stopped; a signal shows as 128 + number, as in a shell."""

    exit_code: int | None
    timed_out: bool
    output: str
    test_ms: float


def verify(request: Request, layout: fixture.Layout) -> None:
    """`verify` {fixture, tar, tree, commit, agent_tar, differing, cap_bytes, protected, command, env, timeout_s,
    disk_bytes, tests} -> {tree, commit, proofs, workspace, patch, patch_cut, status, changes, changes_cut, skipped,
    exit_code, timed_out, output, test_ms, limits}. Replies itself.

    `differing`: the fixture's paths that are not as they were; the archive then holds changes alone. Absent or null: it
    is whole. `cap_bytes`: what it may unpack to. `workspace`: the tree of what was judged, as the agent left it, before
    protected paths were put back. `limits`: which of the container's the command reached (`limits.LimitWatch`).

    Event `testing`: from here on code that we do not trust runs.

    `tests`: those of an isolated fixture, which run apart from the code; without it the command runs as the code does.

    Errors: those of `prepare`, `bad_fixture` (a pin differs: nothing is run), and `spawn_failed` (the
    command is no program of the image's).
    """
    name, archive, agent_archive = request.text("fixture"), request.blob("tar"), request.blob("agent_tar")
    protected, command, env = request.texts("protected"), request.texts("command"), request.text_map("env")
    tests = request.blob("tests") if "tests" in request.args else None
    timeout_s = float(request.args.get("timeout_s", 60))
    differing = None if request.args.get("differing") is None else request.texts("differing")
    cap_bytes, disk_bytes = request.optional_number("cap_bytes"), request.optional_number("disk_bytes")
    pins = fixture.Pins(request.optional_text("tree"), request.optional_text("commit"))
    prepared = fixture.prepare(layout, name, archive, pins, {}, fsck=False)
    result: dict[str, Any] = {
        "tree": prepared.tree,
        "commit": prepared.commit,
        "proofs": [proof.as_json() for proof in prepared.proofs],
    }
    if not all(proof.ok for proof in prepared.proofs):
        raise OpError("bad_fixture", "; ".join(f"{p.name}: {p.detail}" for p in prepared.proofs if not p.ok))
    with tempfile.TemporaryDirectory(dir=layout.tmp) as scratch:
        skipped, agent = lay_over(
            prepared.workspace, prepared.manifest, agent_archive, differing, cap_bytes or _CAP_BYTES
        )
        del agent_archive
        comparison = TreeComparison(prepared, agent, f"{scratch}/objects", protected)
        patch, patch_cut = comparison.patch(scratch)
        result |= {"patch_cut": patch_cut, **_changes(comparison, skipped)}
        restore(prepared, [change for change in comparison.changes if change.protected], archive)
    del archive
    present = procs.snapshot().keys()
    request.event("testing")
    with limits.LimitWatch(disk_bytes, lambda: _end_all(present)) as watch:
        if tests is None:
            ran = run(command, prepared.workspace, env, timeout_s)
        else:
            with isolated.laid_apart(layout.isolated, tests, prepared.workspace, env) as place:
                own_env = place.environment(env, prepared.workspace)
                ran = run(command, place.tests, own_env, timeout_s, isolated.TESTS)
    request.reply(result | ran._asdict() | {"limits": watch.reached()}, blobs={"patch": patch})


def _changes(comparison: TreeComparison, skipped: list[tree.Skipped]) -> dict[str, Any]:
    """What the agent changed, and what of it was not taken over, within what a reply may hold."""
    # Those that decide the verdict first, should not all be told.
    changes = sorted(comparison.changes, key=lambda change: not change.protected)[:_MAX_CHANGES]
    told = within([change.as_json() for change in changes], _LIST_BYTES)
    return {
        "workspace": comparison.tree,
        "status": "".join(within(comparison.status().splitlines(keepends=True), _LIST_BYTES)),
        "changes": sorted(told, key=lambda change: os.fsencode(change["path"])),
        "changes_cut": len(comparison.changes) - len(told),
        "skipped": within(
            [{"path": item.path, "reason": item.reason} for item in skipped[:_MAX_SKIPPED]], _SKIPPED_BYTES
        ),
    }


def _end_all(present: Collection[int]) -> None:
    """Ends the tests and the code, whichever users they are."""
    for user in (isolated.TESTS, AGENT):
        Untrusted(lambda: present, user).end()


def lay_over(
    workspace: str,
    clean: Manifest,
    archive: bytes,
    differing: list[str] | None = None,
    cap_bytes: int = _CAP_BYTES,
) -> tuple[list[tree.Skipped], dict[str, GitEntry]]:
    """Puts the agent's files in the place of the fixture's; the pristine `.git` stays. Returns what was not taken.

    Of the fixture's files those that are not in `differing` stay where they are; without `differing`, none does.
    """
    gone = clean.keys() if differing is None else set(differing)
    kept = {path: entry for path, entry in clean.items() if path not in gone}
    folders = {folder for path in kept for folder in tree.parents(path)}
    for path, _ in list(tree.walk(workspace)):
        if path not in kept and path not in folders:
            _remove(f"{workspace}/{path}")
    extraction = tree.Extraction(workspace, strict=False, cap_bytes=cap_bytes, standing=kept)
    try:
        extraction.run(archive)
    except tree.BadArchive as error:
        raise OpError("bad_archive", str(error)) from error
    return extraction.skipped, extraction.manifest


class TreeComparison:
    """The agent's files against the fixture's, as objects: the pristine store, and one of our own beside it."""

    def __init__(self, prepared: fixture.Prepared, agent: Manifest, objects: str, protected: list[str]) -> None:
        self._prepared = prepared
        self._agent = agent
        self._pristine = f"{prepared.workspace}/.git"
        self._empty = f"{objects}.cwd"
        os.makedirs(objects)
        os.makedirs(self._empty)
        self._env = {
            "GIT_DIR": self._pristine,
            "GIT_WORK_TREE": self._empty,
            "GIT_OBJECT_DIRECTORY": objects,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": f"{self._pristine}/objects",
        }
        changes = compare(prepared.manifest, agent)
        #: The name of the agent's root tree.
        self.tree = self._store(objects, changes) if changes else prepared.tree
        guarded = self._guarded(protected) if changes and protected else set()
        self.changes = [change._replace(protected=True) if change.path in guarded else change for change in changes]

    def patch(self, scratch: str) -> tuple[bytes, bool]:
        """`git diff --binary` of everything, and whether it was cut at its limit."""
        if not self.changes:
            return b"", False
        path = f"{scratch}/patch"
        self._diff("--binary", "--full-index", f"--output={path}")
        with open(path, "rb") as stream:
            data = stream.read(_PATCH_BYTES + 1)
        return data[:_PATCH_BYTES], len(data) > _PATCH_BYTES

    def status(self) -> str:
        """As `git status --porcelain --untracked-files=all --ignored` would say it, were it safe to ask."""
        added = [change.path for change in self.changes if change.status == "A"]
        ignored = self._ignored(added) if added else set()
        lines = []
        for change in self.changes[:_MAX_CHANGES]:
            code = f" {change.status}"
            if change.status == "A":
                code = "!!" if change.path in ignored else "??"
            lines.append((code in ("??", "!!"), code == "!!", f"{code} {quoted(change.path)}\n"))
        return "".join(line for *_, line in sorted(lines, key=lambda item: item[:2]))

    def _store(self, objects: str, changes: list[FileChange]) -> str:
        """Writes the agent's changed files and all its trees as objects. Returns the name of its root tree."""
        changed = {change.path: self._agent[change.path] for change in changes if change.after is not None}
        gitobj.write_files(objects, self._prepared.workspace, changed)
        return gitobj.build_trees(self._agent, lambda data: gitobj.write_object(objects, "tree", data))

    def _diff(self, *options: str, paths: list[str] | None = None) -> bytes:
        return git(
            "diff", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", *options,
            self._prepared.tree, self.tree, "--", *(paths or []),
            cwd=self._empty,
            env=self._env,
        ).stdout  # fmt: skip

    def _guarded(self, pathspecs: list[str]) -> set[str]:
        names = self._diff("--name-only", "-z", paths=pathspecs)
        return {os.fsdecode(name) for name in names.split(b"\0") if name}

    def _ignored(self, paths: list[str]) -> set[str]:
        """Which of the added paths the .gitignore files cover: to git they are data, and it meets no `.git`."""
        return ignored(paths, repository=self._pristine, work_tree=self._prepared.workspace)


def compare(before: Manifest, after: Manifest) -> list[FileChange]:
    """The changes from one manifest to another, by path."""
    changes = []
    for path in sorted(before.keys() | after.keys(), key=os.fsencode):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        if old is None:
            status = "A"
        elif new is None:
            status = "D"
        else:
            status = "M" if stat.S_IFMT(old.mode) == stat.S_IFMT(new.mode) else "T"
        changes.append(FileChange(path, status, old.sha if old else None, new.sha if new else None))
    return changes


def quoted(path: str) -> str:
    """A path as git prints it: in quotes with C's escapes where it holds anything unusual (core.quotePath)."""
    named = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}
    raw = os.fsencode(path)
    text = "".join(
        f"\\{named[byte]}" if byte in named else chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}" for byte in raw
    )
    return f'"{text}"' if "\\" in text or " " in text else text


def restore(prepared: fixture.Prepared, changes: list[FileChange], archive: bytes) -> None:
    """Makes protected paths the fixture's again: what was added goes, what was changed or deleted comes back."""
    for change in changes:
        if change.after is not None:
            _remove(f"{prepared.workspace}/{change.path}")
    wanted = {change.path for change in changes if change.before is not None}
    if not wanted:
        return
    with tempfile.TemporaryDirectory(dir=os.path.dirname(prepared.workspace)) as clean:
        fixture.write_files(clean, archive)
        for path in sorted(wanted):
            _make_way(prepared.workspace, path)
            os.rename(f"{clean}/{path}", f"{prepared.workspace}/{path}")


def _make_way(workspace: str, path: str) -> None:
    """Real folders down to `path`, and nothing at it: a link or a file that stands in the way is removed."""
    here = workspace
    for name in path.split("/")[:-1]:
        here = f"{here}/{name}"
        if not stat.S_ISDIR(_mode(here)):
            _remove(here)
            os.mkdir(here, 0o755)
    _remove(f"{workspace}/{path}")


def _remove(path: str) -> None:
    mode = _mode(path)
    if stat.S_ISDIR(mode):
        shutil.rmtree(path)
    elif mode:
        os.unlink(path)


def _mode(path: str) -> int:
    try:
        return os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0


def run(command: list[str], cwd: str, env: dict[str, str], timeout_s: float, user: User = AGENT) -> CommandResult:
    """Runs the tests and ends whatever they leave behind. Of the output (both streams) the end is kept.

    What this needs stands before they start: they may use up the container's processes.
    """
    present = procs.snapshot().keys()
    untrusted = Untrusted(lambda: present, user)
    reading, writing = os.pipe2(os.O_CLOEXEC)
    kept = bytearray()
    reader = threading.Thread(target=_drain, args=(reading, kept), name="test-output", daemon=True)
    reader.start()
    started: queue.SimpleQueue[int] = queue.SimpleQueue()
    codes: queue.SimpleQueue[int] = queue.SimpleQueue()
    threading.Thread(target=_wait, args=(started, codes), name="test-end", daemon=True).start()
    start = time.monotonic()
    try:
        pid = spawn(command, user, cwd=cwd, env=env, stdout=writing, stderr=writing)
    except OpError as error:
        started.put(0)
        if user is AGENT and "/" in command[0] and not command[0].startswith("/"):
            # It stands in the workspace: that it is not there, or cannot be run, is what the agent left.
            return CommandResult(_NOT_FOUND, False, f"{error}\n", 0.0)
        raise
    finally:
        os.close(writing)
    started.put(pid)
    code = _code(codes, timeout_s)
    timed_out = code is None
    test_ms = (time.monotonic() - start) * 1000
    # The reader then sees the end of its pipe.
    untrusted.end()
    if timed_out:
        _code(codes, _DRAIN_S)
    procs.reap(present)
    reader.join(_DRAIN_S)
    output = bytes(kept[-_OUTPUT_BYTES:]).decode("utf-8", "replace")
    return CommandResult(code if code is None or code >= 0 else 128 - code, timed_out, output, round(test_ms, 3))


def _code(codes: queue.SimpleQueue[int], limit_s: float) -> int | None:
    try:
        return codes.get(timeout=limit_s)
    except queue.Empty:
        return None


def _wait(started: queue.SimpleQueue[int], codes: queue.SimpleQueue[int]) -> None:
    """Waits for the child whose pid comes (0: there is none). Hands on its exit code, or a signal's number below 0."""
    pid = started.get()
    while pid:
        _, status = os.waitpid(pid, 0)
        if not os.WIFSTOPPED(status):
            codes.put(os.waitstatus_to_exitcode(status))
            return
        # It has made us its tracer (PTRACE_TRACEME), so that a signal stops it until we let it go on.
        procs.send(pid, signal.SIGKILL)


def _drain(fd: int, kept: bytearray) -> None:
    with open(fd, "rb", buffering=0) as stream:
        while chunk := stream.read(1 << 16):
            kept += chunk
            if len(kept) > 4 * _OUTPUT_BYTES:
                del kept[: len(kept) - _OUTPUT_BYTES]
