from __future__ import annotations

import stat
import subprocess
import tarfile
from pathlib import Path

import pytest

from runner.guest import fixture
from runner.guest.channel import OpError
from runner.guest.fixture import Layout, Pins, Prepared
from tests.unit.guest.recorder import files_tar, member, tar

ARCHIVE = tar(
    member("src/semver.js", b"export {}\n", mode=0o600),
    member("bin/run", b"#!/bin/sh\n", mode=0o700),
    member("latest", type=tarfile.SYMTYPE, linkname="src/semver.js"),
    member(".gitignore", b"*.log\nbin/\n"),
    member("kept.log", b"an ignored file of the fixture's own\n"),
)
#: Author, committer and date of every fixture's commit.
WHO = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in {
    "NAME": "acpbench", "EMAIL": "acpbench@localhost", "DATE": "2026-01-01T00:00:00Z"}.items()}  # fmt: skip


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    for name in ("workspace", "home"):
        (tmp_path / name).mkdir()
    return Layout(str(tmp_path / "workspace"), str(tmp_path / "home"))


def prepare(
    layout: Layout, archive: bytes = ARCHIVE, pins: Pins | None = None, home: dict[str, str] | None = None
) -> Prepared:
    return fixture.prepare(layout, "semver", archive, pins or Pins(), home or {})


def test_tree_and_commit_are_git_s_own(layout: Layout, tmp_path: Path) -> None:
    """The same files, committed by git alone, give the same two hashes."""
    prepared = prepare(layout)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    fixture.write_files(str(theirs), ARCHIVE)

    def git(*args: str) -> str:
        done = subprocess.run(
            ["git", *args], cwd=theirs, env={"PATH": "/usr/bin:/bin", **WHO}, capture_output=True, check=True
        )
        return done.stdout.decode().strip()

    git("init", "-q", "-b", "main")
    git("add", "--all", "--force")
    git("commit", "-q", "-m", "fixture semver")
    assert prepared.tree == git("rev-parse", "HEAD^{tree}")
    assert prepared.commit == git("rev-parse", "HEAD")


def test_the_repository_is_one_that_git_finds_clean(layout: Layout) -> None:
    prepared = prepare(layout)
    assert [(proof.name, proof.ok) for proof in prepared.proofs] == [
        ("fixture-tree", True),
        ("fixture-commit", True),
        ("git-index", True),
        ("git-fsck", True),
    ]

    def git(*args: str) -> str:
        done = subprocess.run(["git", *args], cwd=prepared.workspace, capture_output=True, check=True)
        return done.stdout.decode().strip()

    assert git("status", "--porcelain") == ""
    assert git("branch", "--show-current") == "main"
    assert git("log", "--format=%H %an %ae %aI %cn %ce %cI %s") == (
        f"{prepared.commit} acpbench acpbench@localhost 2026-01-01T00:00:00+00:00"
        " acpbench acpbench@localhost 2026-01-01T00:00:00+00:00 fixture semver"
    )
    assert git("reflog", "--format=%gs") == "commit (initial): fixture semver"
    assert git("config", "--get", "gc.auto") == "0"
    assert git("remote") == ""
    assert not (Path(prepared.workspace) / ".git/hooks").exists()


def test_modes_are_normalised(layout: Layout) -> None:
    root = Path(prepare(layout).workspace)
    assert stat.S_IMODE((root / "src/semver.js").stat().st_mode) == 0o644
    assert stat.S_IMODE((root / "bin/run").stat().st_mode) == 0o755
    assert (root / "latest").is_symlink()


def test_the_same_every_time(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = prepare(Layout(str(tmp_path / "other"), layout.home))
    ours = prepare(layout)
    assert (ours.tree, ours.commit) == (other.tree, other.commit)


def test_a_pin_that_differs_is_a_failed_proof(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    right = prepare(Layout(str(tmp_path / "other"), layout.home))
    wrong = prepare(layout, files_tar({"src/semver.js": "changed\n"}), Pins(right.tree, right.commit))
    assert [proof.name for proof in wrong.proofs if not proof.ok] == ["fixture-tree", "fixture-commit"]
    assert right.tree in wrong.proofs[0].detail


def test_an_attribute_converts_no_file(layout: Layout) -> None:
    """git stores the file as it is on disk: its hash is the pinned one and the first `git status` is clean."""
    files = {".gitattributes": "* text=auto\n", "a.txt": "dos\r\n", "sub/.gitattributes": "*.x text eol=lf\n"}
    prepared = prepare(layout, files_tar({**files, "sub/b.x": "dos\r\n"}))
    assert [proof for proof in prepared.proofs if not proof.ok] == []
    status = subprocess.run(["git", "status", "--porcelain"], cwd=prepared.workspace, capture_output=True, check=True)
    assert status.stdout == b""


def test_home_is_written(layout: Layout) -> None:
    prepared = prepare(layout, home={".claude/settings.json": "{}"})
    assert (Path(layout.home) / ".claude/settings.json").read_text() == "{}"
    assert (Path(layout.home) / "tmp").is_dir()
    assert list(prepared.home) == [".claude/settings.json"]


@pytest.mark.parametrize("name", ["../evil", "/evil", "", "tmp/x"])
def test_home_is_not_left(layout: Layout, name: str) -> None:
    with pytest.raises(OpError, match="HOME"):
        prepare(layout, home={name: "x"})


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", ".git", "-x", "a\nb"])
def test_a_fixture_s_name_is_one_folder(layout: Layout, name: str) -> None:
    with pytest.raises(OpError) as refused:
        fixture.prepare(layout, name, ARCHIVE, Pins(), {})
    assert refused.value.code == "bad_request"


def test_a_workspace_that_is_there_is_refused(layout: Layout) -> None:
    prepare(layout)
    with pytest.raises(OpError) as refused:
        prepare(layout)
    assert refused.value.code == "exists"


def test_a_hostile_archive_is_refused(layout: Layout, tmp_path: Path) -> None:
    with pytest.raises(OpError) as refused:
        prepare(layout, tar(member("a", type=tarfile.SYMTYPE, linkname=str(tmp_path)), member("a/evil", b"x")))
    assert refused.value.code == "bad_archive"
    assert not (tmp_path / "evil").exists()


def test_git_state_sees_every_change(layout: Layout) -> None:
    workspace = Path(prepare(layout).workspace)
    before = fixture.git_state(str(workspace))
    assert set(before) == {"HEAD", "config", "refs/heads/main"}
    (workspace / ".git/hooks").mkdir()
    (workspace / ".git/hooks/pre-commit").write_text("#!/bin/sh\n")
    (workspace / ".git/config").write_text("[core]\n\tfsmonitor = /tmp/evil\n")
    (workspace / ".git/HEAD").unlink()
    (workspace / ".git/HEAD").symlink_to("/etc/passwd")
    after = fixture.git_state(str(workspace))
    assert after["HEAD"] == "not-a-file"
    assert after["config"] != before["config"]
    assert "hooks/pre-commit" in after
