"""The proofs of the sandbox, made before *go*: each looks at the thing itself, none at what was asked for.

What a process of the agent's is and can do is looked at by one that is started as the agent is (`probe`).

No git is run here: in a kept container (the reset experiment) an agent has had its hands on the repository.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from . import families, gitobj, planted, tree
from .channel import OpError
from .fixture import Layout, Prepared, ProofResult, commit_tree, head_commit
from .probing import ProbeReport

_CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")


def prove(
    layout: Layout,
    prepared: Prepared | None,
    probed: Callable[[], ProbeReport],
    uid: int,
    workspace: str,
    state_dirs: list[str],
) -> list[ProofResult]:
    """All proofs, in a fixed order. A check that cannot be made is a failed one."""
    checks: list[tuple[str, Callable[[], list[str]]]] = [
        ("network", lambda: probed().network),
        ("user", lambda: user(probed(), uid)),
        ("no-new-privileges", lambda: no_new_privileges(probed())),
        ("out-of-reach", lambda: probed().reached),
        ("home", lambda: home(layout, {} if prepared is None else prepared.home)),
        ("workspace", lambda: clean_workspace(workspace, prepared)),
        ("planted", lambda: [] if prepared is None else planted.differences(prepared.planted)),
        ("state", lambda: agent_state(layout, workspace, state_dirs, {} if prepared is None else prepared.home)),
    ]
    made = [_proof(name, check) for name, check in checks]
    return [made[0], families.prove(), *made[1:]]


def conditions(found: ProbeReport, uid: int) -> list[str]:
    """What speaks against starting in this container what we do not trust, whatever is in its folders."""
    return [*found.network, *user(found, uid), *no_new_privileges(found), *found.reached]


def _proof(name: str, check: Callable[[], list[str]]) -> ProofResult:
    try:
        problems = check()
    except (OSError, ValueError, OpError) as error:
        problems = [f"not checked: {error}"]
    return ProofResult(name, not problems, "; ".join(problems)[:800])


def user(found: ProbeReport, uid: int) -> list[str]:
    """User and group as asked, no other group, no capability in any set."""
    status = found.status
    problems = [
        f"{name} {status.get(name)}" for name in ("Uid", "Gid") if status.get(name, "").split() != [str(uid)] * 4
    ]
    if set(status.get("Groups", "").split()) - {str(uid)}:
        problems.append(f"Groups {status['Groups']}")
    problems += [f"{name} {status[name]}" for name in _CAPABILITIES if int(status.get(name, "0"), 16) != 0]
    return problems


def no_new_privileges(found: ProbeReport) -> list[str]:
    value = found.status.get("NoNewPrivs", "?")
    return [] if value == "1" else [f"NoNewPrivs {value}"]


def home(layout: Layout, expected: dict[str, str]) -> list[str]:
    """HOME holds the files that `prepare` wrote and an empty TMPDIR, nothing else."""
    places = (layout.home, layout.tmp)
    problems = [f"{place} is no folder" for place in places if not stat.S_ISDIR(os.lstat(place).st_mode)]
    found = {path: entry.sha for path, entry in tree.scan(layout.home, skip="").items()}
    folders = {path for path, status in tree.walk(layout.home, skip="") if stat.S_ISDIR(status.st_mode)}
    wanted = {"tmp"} | {path.rsplit("/", depth)[0] for path in expected for depth in range(1, path.count("/") + 1)}
    problems += [f"{path} is there" for path in sorted(found.keys() - expected.keys() | folders - wanted)[:10]]
    problems += [f"{path} differs" for path, sha in expected.items() if found.get(path) != sha]
    return problems


def clean_workspace(workspace: str, prepared: Prepared | None) -> list[str]:
    """One commit, the prepared one; files, index and objects are that commit's and no others; no remote, one ref."""
    if prepared is None or prepared.workspace != workspace:
        return ["not prepared"]
    if problems := [f"{proof.name}: {proof.detail}" for proof in prepared.proofs if not proof.ok]:
        return problems
    folder = f"{workspace}/.git"
    commit = head_commit(workspace)
    if commit != prepared.commit:
        return [f"the branch is at {commit}"]
    root = commit_tree(workspace, commit)
    committed = gitobj.read_tree(f"{folder}/objects", root)
    problems = _differences("committed", committed, prepared.manifest)
    problems += _differences("on disk", tree.scan(workspace), prepared.manifest)
    with open(f"{folder}/index", "rb") as stream:
        problems += _differences("in the index", gitobj.read_index(stream.read()), prepared.manifest)
    problems += _refs(folder)
    problems += _foreign_objects(folder, commit, prepared.manifest)
    return problems


def _differences(where: str, found: dict[str, gitobj.GitEntry], expected: dict[str, gitobj.GitEntry]) -> list[str]:
    paths = sorted(path for path in found.keys() | expected.keys() if found.get(path) != expected.get(path))
    return [f"{where}: {path} {'differs' if path in expected else 'is foreign'}" for path in paths[:10]]


def _refs(folder: str) -> list[str]:
    problems = []
    with open(f"{folder}/HEAD", encoding="utf-8") as stream:
        if stream.read() != "ref: refs/heads/main\n":
            problems.append("HEAD is not the branch main")
    refs = [path for path, status in tree.walk(f"{folder}/refs") if not stat.S_ISDIR(status.st_mode)]
    if refs != ["heads/main"] or os.path.lexists(f"{folder}/packed-refs"):
        problems.append(f"refs: {', '.join(refs)}")
    with open(f"{folder}/config", encoding="utf-8") as stream:
        if "[remote" in stream.read().lower():
            problems.append("a remote")
    return problems


def _foreign_objects(folder: str, commit: str, manifest: dict[str, gitobj.GitEntry]) -> list[str]:
    """Every object in the store belongs to the one commit."""
    trees: set[str] = set()
    gitobj.build_trees(manifest, lambda data: trees.add(gitobj.object_name("tree", data)))
    known = {commit, *trees, *(entry.sha for entry in manifest.values())}
    found = {
        path.replace("/", "") for path, status in tree.walk(f"{folder}/objects") if not stat.S_ISDIR(status.st_mode)
    }
    return [f"object {name} is foreign" for name in sorted(found - known)[:5]]


def agent_state(layout: Layout, workspace: str, state_dirs: list[str], expected: dict[str, str]) -> list[str]:
    """No folder of an agent's own state in the workspace; in HOME only where `prepare` itself wrote into it."""
    problems = []
    for name in state_dirs:
        if os.path.lexists(f"{workspace}/{name}"):
            problems.append(f"{name} in the workspace")
        ours = any(path == name or path.startswith(f"{name}/") for path in expected)
        if os.path.lexists(f"{layout.home}/{name}") and not ours:
            problems.append(f"{name} in HOME")
    return problems
