"""The proofs of the sandbox, made before *go*: each looks at the thing itself, none at what was asked for.

No git is run here: in a kept container (the reset experiment) an agent has had its hands on the repository.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import struct
from collections.abc import Callable

from . import families, gitobj, planted, procs, tree
from .channel import OpError
from .fixture import Layout, Prepared, Proof, commit_tree, head_commit

_SIOCGIFFLAGS = 0x8913
_IFF_UP = 0x1
#: Addresses kept for documentation (RFC 5737, RFC 3849): nobody is there, a network would be asked all the same.
_NOWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
_CONNECT_S = 0.3
#: How our own abstract names begin: the channel's (`supervisor.ADDRESS`).
_OUR_NAMES = "@acpbench-"
_CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")


def prove(layout: Layout, prepared: Prepared | None, uid: int, workspace: str, state_dirs: list[str]) -> list[Proof]:
    """All proofs, in a fixed order. A check that cannot be made is a failed one."""
    checks: list[tuple[str, Callable[[], list[str]]]] = [
        ("network", network),
        ("user", lambda: user(uid)),
        ("no-new-privileges", no_new_privileges),
        ("home", lambda: home(layout, {} if prepared is None else prepared.home)),
        ("workspace", lambda: clean_workspace(workspace, prepared)),
        ("planted", lambda: [] if prepared is None else planted.differences(prepared.planted)),
        ("state", lambda: agent_state(layout, workspace, state_dirs, {} if prepared is None else prepared.home)),
    ]
    made = [_proof(name, check) for name, check in checks]
    return [made[0], families.prove(), *made[1:]]


def _proof(name: str, check: Callable[[], list[str]]) -> Proof:
    try:
        problems = check()
    except (OSError, ValueError, OpError) as error:
        problems = [f"not checked: {error}"]
    return Proof(name, not problems, "; ".join(problems)[:800])


def network() -> list[str]:
    """Nothing but loopback is up, no route leaves it, and a connection to the outside fails at once; nobody else has
    an abstract Unix socket here: they belong to the network stack, and the host's engine has some."""
    problems = [f"{name} is up" for name in _interfaces() if name != "lo" and _is_up(name)]
    routes = [line.split() for line in procs.read("/proc/net/route").splitlines()[1:]]
    problems += [f"a route through {fields[0]}" for fields in routes if fields and fields[0] != "lo"]
    routes = [line.split() for line in procs.read("/proc/net/ipv6_route").splitlines()]
    problems += [f"an IPv6 route through {fields[-1]}" for fields in routes if fields and fields[-1] != "lo"]
    for family, address in _NOWHERE:
        problem = _connects(family, address)
        if problem:
            problems.append(problem)
    return problems + [f"the abstract socket {name[:60]} is in reach" for name in _abstract_sockets()[:5]]


def _abstract_sockets() -> list[str]:
    lines = (line.split() for line in procs.read("/proc/net/unix").splitlines()[1:])
    names = {fields[7] for fields in lines if len(fields) > 7}
    return sorted(name for name in names if name.startswith("@") and not name.startswith(_OUR_NAMES))


def _interfaces() -> list[str]:
    return [line.partition(":")[0].strip() for line in procs.read("/proc/net/dev").splitlines()[2:]]


def _is_up(name: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        answer = fcntl.ioctl(probe, _SIOCGIFFLAGS, struct.pack("16sH14x", name.encode(), 0))
    return bool(struct.unpack("16sH14x", answer)[1] & _IFF_UP)


def _connects(family: int, address: str) -> str:
    """Empty when the kernel itself refuses; a timeout means that something was sent."""
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.settimeout(_CONNECT_S)
            probe.connect((address, 9))
    except TimeoutError:
        return f"a connection to {address} was tried"
    except OSError as error:
        if error.errno in (errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EHOSTUNREACH):
            return ""
        return f"a connection to {address} failed with {errno.errorcode.get(error.errno or 0, error)}"
    return f"a connection to {address} was made"


def user(uid: int) -> list[str]:
    """User and group as asked, no other group, no capability in any set."""
    status = _status()
    problems = [
        f"{name} {status.get(name)}" for name in ("Uid", "Gid") if status.get(name, "").split() != [str(uid)] * 4
    ]
    if set(status.get("Groups", "").split()) - {str(uid)}:
        problems.append(f"Groups {status['Groups']}")
    problems += [f"{name} {status[name]}" for name in _CAPABILITIES if int(status.get(name, "0"), 16) != 0]
    return problems


def no_new_privileges() -> list[str]:
    value = _status().get("NoNewPrivs", "?")
    return [] if value == "1" else [f"NoNewPrivs {value}"]


def _status() -> dict[str, str]:
    lines = (line.partition(":") for line in procs.read("/proc/self/status").splitlines())
    return {name: value.strip() for name, _, value in lines}


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


def _differences(where: str, found: dict[str, gitobj.Entry], expected: dict[str, gitobj.Entry]) -> list[str]:
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


def _foreign_objects(folder: str, commit: str, manifest: dict[str, gitobj.Entry]) -> list[str]:
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
