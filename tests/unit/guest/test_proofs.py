"""The proofs on a workspace made here: true as prepared, and false for every single thing that is then done to it.

The proofs of network, user and privileges are true only in the sandbox: tests/engine/guest.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.guest import fixture, proofs
from runner.guest.channel import OpError
from runner.guest.fixture import Layout, Pins, Prepared
from runner.guest.probing import ProbeReport
from tests.unit.guest.recorder import files_tar


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    for name in ("workspace", "home"):
        (tmp_path / name).mkdir()
    return Layout(str(tmp_path / "workspace"), str(tmp_path / "home"))


@pytest.fixture
def prepared(layout: Layout) -> Prepared:
    archive = files_tar({"src/a.js": "a\n", ".gitignore": "*.log\n"})
    return fixture.prepare(layout, "fx", archive, Pins(), {".agent/settings.json": "{}"})


#: What the probe finds where all is well.
STATUS = {"Uid": "1000\t" * 4, "Gid": "1000\t" * 4, "Groups": "1000", "NoNewPrivs": "1", "CapBnd": "0" * 16}


def probed(**status: str) -> ProbeReport:
    return ProbeReport([], {**STATUS, **status}, [])


def unseen() -> ProbeReport:
    raise OpError("probe_failed", "no python")


def git(workspace: Path, *args: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *identity, *args], cwd=workspace, check=True, capture_output=True)


def write(name: str, text: str = "x") -> Callable[[Path], object]:
    def do(workspace: Path) -> None:
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(text)

    return do


def test_a_prepared_workspace_is_clean(prepared: Prepared) -> None:
    assert proofs.clean_workspace(prepared.workspace, prepared) == []


def link_instead(workspace: Path) -> None:
    (workspace / "src/a.js").unlink()
    (workspace / "src/a.js").symlink_to("/etc/passwd")


def delete(workspace: Path) -> None:
    (workspace / "src/a.js").unlink()


def empty_store(workspace: Path) -> None:
    for path in (workspace / ".git/objects").glob("??/*"):
        path.unlink()


def stash(workspace: Path) -> None:
    write("src/a.js", "y")(workspace)
    git(workspace, "stash", "-q")


def foreign_object(workspace: Path) -> None:
    write("x")(workspace)
    git(workspace, "hash-object", "-w", "x")
    (workspace / "x").unlink()


def by_git(*args: str) -> Callable[[Path], object]:
    def do(workspace: Path) -> None:
        git(workspace, *args)

    return do


DIRT: dict[str, Callable[[Path], object]] = {
    "changed": write("src/a.js"),
    "untracked": write("new.js"),
    "ignored": write("x.log"),
    "executable": lambda root: (root / "src/a.js").chmod(0o755),
    "deleted": delete,
    "a link instead": link_instead,
    "staged": by_git("rm", "--cached", "-q", "src/a.js"),
    "second commit": by_git("commit", "-q", "--allow-empty", "-m", "x"),
    "amended": by_git("commit", "-q", "--amend", "-m", "x"),
    "second branch": by_git("branch", "other"),
    "packed": by_git("pack-refs", "--all"),
    "tag": by_git("tag", "v1"),
    "stash": stash,
    "remote": by_git("remote", "add", "origin", "https://example.invalid"),
    "detached": by_git("checkout", "-q", "--detach"),
    "foreign object": foreign_object,
    "no repository": lambda root: (root / ".git").rename(root.parent / "gone"),
    "broken object": empty_store,
}


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        ({}, []),
        ({"Uid": "1000\t0\t1000\t1000"}, ["Uid 1000\t0\t1000\t1000"]),
        ({"Gid": "0\t0\t0\t0"}, ["Gid 0\t0\t0\t0"]),
        ({"Groups": "27 1000"}, ["Groups 27 1000"]),
        ({"CapBnd": "00000000000000c0"}, ["CapBnd 00000000000000c0"]),
        ({"NoNewPrivs": "0"}, ["NoNewPrivs 0"]),
    ],
)
def test_what_the_probe_found_is_judged(status: dict[str, str], problem: list[str]) -> None:
    assert proofs.conditions(probed(**status), 1000) == problem


def test_whoever_can_be_reached_is_named() -> None:
    assert proofs.conditions(probed()._replace(reached=["process 1 can be traced"], network=["eth0 is up"]), 1000) == [
        "eth0 is up",
        "process 1 can be traced",
    ]


@pytest.mark.parametrize("name", DIRT)
def test_a_workspace_that_was_touched_is_not(layout: Layout, prepared: Prepared, name: str) -> None:
    DIRT[name](Path(prepared.workspace))
    found = {proof.name: proof for proof in proofs.prove(layout, prepared, probed, 1000, prepared.workspace, [])}
    assert not found["workspace"].ok
    assert found["workspace"].detail


def test_another_workspace_or_none_is_not(prepared: Prepared) -> None:
    assert proofs.clean_workspace("/elsewhere", prepared) == ["not prepared"]
    assert proofs.clean_workspace(prepared.workspace, None) == ["not prepared"]


def test_a_pin_that_differed_stays_a_failure(layout: Layout) -> None:
    prepared = fixture.prepare(layout, "fx", files_tar({"a": "a"}), Pins(tree="0" * 40), {})
    (problem,) = proofs.clean_workspace(prepared.workspace, prepared)
    assert problem.startswith("fixture-tree")


@pytest.mark.parametrize("name", ["left.txt", ".agent/other.json", ".agent/settings.json", "tmp/x", ".git/config"])
def test_home_holds_what_was_written_and_nothing_else(layout: Layout, prepared: Prepared, name: str) -> None:
    assert proofs.home(layout, prepared.home) == []
    write(name, "planted")(Path(layout.home))
    assert proofs.home(layout, prepared.home)


def test_a_folder_in_home_is_seen_too(layout: Layout, prepared: Prepared) -> None:
    (Path(layout.home) / ".cache").mkdir()
    assert proofs.home(layout, prepared.home) == [".cache is there"]


def test_agent_state(layout: Layout, prepared: Prepared) -> None:
    names = [".agent", ".qwen"]
    assert proofs.agent_state(layout, prepared.workspace, names, prepared.home) == []
    (Path(prepared.workspace) / ".agent").mkdir()
    (Path(layout.home) / ".qwen").symlink_to("/nowhere")
    assert proofs.agent_state(layout, prepared.workspace, names, prepared.home) == [
        ".agent in the workspace",
        ".qwen in HOME",
    ]


def test_a_check_that_cannot_be_made_has_failed(tmp_path: Path) -> None:
    nowhere = Layout(str(tmp_path / "a"), str(tmp_path / "b"))
    found = {proof.name: proof for proof in proofs.prove(nowhere, None, unseen, 1000, "/nowhere", [])}
    names = ["network", "address-families", "user", "no-new-privileges", "out-of-reach", "home", "workspace"]
    assert list(found) == [*names, "planted", "state"]
    assert [found[name].detail for name in names[:5] if name != "address-families"] == ["not checked: no python"] * 4
    assert found["home"].detail.startswith("not checked")
    assert not found["home"].ok
