from __future__ import annotations

import base64
import os
import time
from pathlib import Path
from typing import Any

import pytest

from runner.guest import changed, collect, fixture, verify
from runner.guest.channel import OpError
from runner.guest.fixture import Layout, Pins, Prepared
from tests.unit.guest.recorder import Recorder, files_tar
from tests.unit.guest.test_collect import unpacked

CLEAN = {"a.js": "a\n", "b.js": "b\n", "src/c.js": "c\n", "test/t.js": "t\n", ".gitignore": "node_modules/\n*.log\n"}


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    return made(tmp_path, CLEAN)


def made(folder: Path, files: dict[str, str]) -> Prepared:
    for name in ("workspace", "home"):
        (folder / name).mkdir(parents=True)
    layout = Layout(str(folder / "workspace"), str(folder / "home"))
    return fixture.prepare(layout, "fx", files_tar(files), Pins(), {})


def put(prepared: Prepared, path: str, size: int) -> None:
    file = Path(prepared.workspace) / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x" * size)


def run(prepared: Prepared, cap: int = 1 << 20, **args: Any) -> dict[str, Any]:
    recorder = Recorder()
    whole: dict[str, Any] = {"cap_bytes": cap, "writable": [], "changes_only": True, **args}
    collect.collect(recorder.request(workspace=prepared.workspace, **whole), prepared)
    (reply,) = recorder.sent
    return reply


def test_what_is_as_it_was_does_not_travel(prepared: Prepared) -> None:
    reply = run(prepared)
    assert (unpacked(reply), reply["differing"], reply["cut"], reply["left_out"]) == ({}, [], False, {})


def test_changes_come_and_the_fixture_s_differing_paths_are_named(prepared: Prepared) -> None:
    root = Path(prepared.workspace)
    (root / "a.js").write_text("other\n")
    (root / "b.js").unlink()
    (root / "test/t.js").chmod(0o755)
    (root / "src/c.js").unlink()
    (root / "src/c.js").symlink_to("../a.js")
    (root / "empty").mkdir()
    put(prepared, "new/file", 3)
    reply = run(prepared)
    assert set(unpacked(reply)) == {"a.js", "src/c.js", "test/t.js", "new", "new/file", "empty", "src", "test"}
    assert sorted(reply["differing"]) == ["a.js", "b.js", "src/c.js", "test/t.js"]


def test_a_folder_that_became_a_link_to_equal_files_differs(prepared: Prepared) -> None:
    root = Path(prepared.workspace)
    (root / "src").rename(root / "aside")
    (root / "src").symlink_to("aside")
    reply = run(prepared)
    assert reply["differing"] == ["src/c.js"]
    assert unpacked(reply)["src"].issym()


def test_an_install_that_does_not_fit_leaves_the_repair_alone(prepared: Prepared) -> None:
    """Whatever the order of names: node_modules comes before src, and zz after both."""
    for number in range(50):
        put(prepared, f"node_modules/m{number}/index.js", 1000)
    put(prepared, "src/new.js", 10)
    put(prepared, "zz.js", 10)
    put(prepared, "debug.log", 10)
    put(prepared, ":!src", 10)  # no pathspec
    (Path(prepared.workspace) / "src/c.js").write_text("repaired\n")
    reply = run(prepared, cap=30_000)
    names = {name for name, member in unpacked(reply).items() if not member.isdir()}
    assert names == {"src/c.js", "src/new.js", "zz.js", "debug.log", ":!src"}
    assert reply["left_out"]["ignored"] == {"files": 50, "bytes": 50_000}
    assert reply["cut"]


def test_without_a_gitignore_new_folders_still_come_whole_or_not_at_all(tmp_path: Path) -> None:
    prepared = made(tmp_path, {"src/c.js": "c\n"})
    for number in range(50):
        put(prepared, f"node_modules/m{number}", 1000)
    put(prepared, "src/big.bin", 40_000)
    put(prepared, "src/small.js", 10)
    reply = run(prepared, cap=30_000)
    assert {name for name, member in unpacked(reply).items() if not member.isdir()} == {"src/small.js"}
    assert reply["left_out"]["untracked"] == {"files": 51, "bytes": 90_000}


def test_a_changed_file_that_does_not_fit_is_not_taken_for_the_fixture_s(prepared: Prepared) -> None:
    put(prepared, "a.js", 50_000)
    reply = run(prepared, cap=30_000)
    assert reply["differing"] == ["a.js"]
    assert reply["left_out"] == {"changed": {"files": 1, "bytes": 50_000}}


def test_git_is_not_asked_where_all_fits(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed, "ignored", lambda *_, **__: pytest.fail("git was run"))
    put(prepared, "debug.log", 10)
    assert "debug.log" in unpacked(run(prepared))


def test_an_agent_s_repository_and_its_pipes_have_no_say(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(prepared.workspace)
    (root / ".git/config").write_text("[core]\n\texcludesFile = /nowhere\n\tfsmonitor = /tmp/evil\n")
    (root / ".git/info").mkdir()
    (root / ".git/info/exclude").write_text("src\n")
    (root / "sub").mkdir()
    os.mkfifo(root / "sub/.gitignore")
    monkeypatch.setattr(changed, "_GIT_S", 0.5)
    put(prepared, "src/new.js", 10)
    put(prepared, "sub/x", 10)
    put(prepared, "node_modules/big", 50_000)
    start = time.monotonic()
    reply = run(prepared, cap=30_000)
    assert time.monotonic() - start < 20
    assert "src/new.js" in unpacked(reply)


def test_many_files_are_sorted_in_pieces(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed, "_CHUNK", 7)
    for number in range(40):
        put(prepared, f"node_modules/{number}", 100)
    put(prepared, "zz.js", 10)
    reply = run(prepared, cap=15_000)
    assert "zz.js" in unpacked(reply)
    assert reply["left_out"]["ignored"]["files"] == 40
    assert run(prepared, cap=1 << 20)["left_out"] == {}


def test_more_than_can_be_looked_through_in_time_says_so(prepared: Prepared) -> None:
    with pytest.raises(OpError) as refused:
        run(prepared, within_s=-1)
    assert refused.value.code == "too_much"


@pytest.mark.parametrize(
    "script",
    [
        "",
        "echo x >> a.js",
        "rm b.js; rm -r test",
        "rm -r src; echo file > src",
        "rm a.js; mkdir a.js; echo x > a.js/b",
        "mv src aside; ln -s aside src",
        "mkdir -p deep/er; rm -r src; mkdir src",
        "chmod +x a.js; ln -sf b.js src/c.js",
        "rm -r .gitignore *",
        "mkdir -p sub/.git; echo x > sub/.git/config",
    ],
)
def test_the_verifier_has_the_same_files_as_from_a_whole_archive(tmp_path: Path, script: str) -> None:
    """Whatever was changed: laid over the pristine tree, changes alone make what the whole workspace makes."""
    agent = made(tmp_path / "agent", CLEAN)
    os.system(f"cd {agent.workspace} && {script or 'true'}")
    replies = [run(agent), run(agent, changes_only=False)]
    assert replies[1]["differing"] is None
    found = []
    for number, reply in enumerate(replies):
        made_folder = tmp_path / f"verifier{number}"
        for name in ("workspace", "home"):
            (made_folder / name).mkdir(parents=True)
        recorder = Recorder()
        request = recorder.request(
            fixture="fx",
            tar=base64.b64encode(files_tar(CLEAN)).decode(),
            agent_tar=base64.b64encode(reply["tar"]).decode(),
            differing=reply["differing"],
            protected=["test"],
            command=["sh", "-c", "find . -path ./.git -prune -o -printf '%p %y %m %l\\n' | sort"],
            env={"PATH": "/usr/bin:/bin"},
        )
        verify.verify(request, Layout(str(made_folder / "workspace"), str(made_folder / "home")))
        testing, answer = recorder.sent
        assert testing["event"] == "testing"
        found.append({key: answer[key] for key in ("changes", "status", "patch", "workspace", "output", "skipped")})
    assert found[0] == found[1]
    assert (found[0]["workspace"] == agent.tree) == (script == "" or not found[0]["changes"])
