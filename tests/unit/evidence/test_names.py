"""Names that every run of an agent would give, from what one run happened to have."""

from __future__ import annotations

from typing import Any

import pytest

from runner.evidence import names
from runner.evidence.handshake import Handshake

HOME = "/home/agent"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (f"{HOME}/.claude.json", "~/.claude.json"),
        (f"{HOME}/.claude.json.backup.1796050276262", "~/.claude.json.backup.*"),
        (f"{HOME}/.a/projects/-workspace-semver/d7604ec3-5040-427a-bd1a-3f0015ef33a6.jsonl",
         "~/.a/projects/-workspace-semver/*.jsonl"),
        (f"{HOME}/.cache/mcp-logs/2026-11-30T14-51-13-462Z.jsonl", "~/.cache/mcp-logs/*.jsonl"),
        (f"{HOME}/.a/chats/session-2026-11-30T14-53-5bdc714f.jsonl", "~/.a/chats/session-*-*.jsonl"),
        (f"{HOME}/.a/file-history/01a71d01dfd29e1c@v1", "~/.a/file-history/*@v1"),
        (f"{HOME}/.a/data/1796050286111_vBFpL_cli", "~/.a/data/*_cli"),
        (f"{HOME}/.a/sessions/2026/11/30/rollout.jsonl", "~/.a/sessions/*/*/**"),
        (f"{HOME}/.a/goals_1.sqlite-wal", "~/.a/goals_1.sqlite"),
        (f"{HOME}/.a/state.db-shm", "~/.a/state.db"),
        (f"{HOME}/.a/cleanup-9ff7c8967e9b2216", "~/.a/cleanup-*"),
        (f"{HOME}/.a/deep/er/and/deeper/still", "~/.a/deep/er/and/**"),
        # What is only like an id stays.
        (f"{HOME}/.a/deadbeef/README-2.md", "~/.a/deadbeef/README-2.md"),
        (f"{HOME}/.a/IMPORTANT_NOTES.txt", "~/.a/IMPORTANT_NOTES.txt"),
        (f"{HOME}/.a/tmp/arg0/a-arg0UyBZ4p/x", None),
        ("/tmp/a-arg0UyBZ4p", None),
        (f"{HOME}/tmp", "~/tmp"),
        (f"{HOME}-other/x", f"{HOME}-other/x"),
    ],
)  # fmt: skip
def test_stable_paths(path: str, name: str | None) -> None:
    assert names.stable(path, HOME) == name


def test_two_runs_name_the_same_files() -> None:
    def run(session: str, stamp: int) -> list[str]:
        paths = [f"{HOME}/.a/{session}.jsonl", f"{HOME}/.a/backup.{stamp}", f"{HOME}/.a/x.db", f"{HOME}/.a/x.db-wal"]
        return names.outside([{"path": path, "sha256": "a"} for path in paths], {}, HOME)

    one = run("66d37b75-d01a-478f-aa1d-11d0b6c12d88", 1796050236282)
    assert (
        one
        == run("8d0d1ac7-a595-47e4-9483-62807dbffd2a", 1796050237777)
        == ["~/.a/*.jsonl", "~/.a/backup.*", "~/.a/x.db"]
    )


def test_what_is_there_by_chance_is_left_out() -> None:
    paths = [f"{HOME}/.a/.last-cleanup", f"{HOME}/.a/cache/flags.json", f"{HOME}/.a/kept", f"{HOME}/tmp/x"]
    files = [{"path": path, "sha256": "a"} for path in paths]
    assert names.outside(files, {}, HOME, ["~/.a/.last-*", "~/.a/cache/*"]) == ["~/.a/kept"]
    assert names.outside(files, {}, HOME) == ["~/.a/.last-cleanup", "~/.a/cache/flags.json", "~/.a/kept"]


def test_files_of_the_workspace_keep_their_names() -> None:
    assert names.inside(["src/a-1796050236282.js", "b", "b"]) == ["b", "src/a-1796050236282.js"]
    assert names.inside([f"a/b/c/d/e/f/g/h/{leaf}" for leaf in "xy"]) == ["a/b/c/d/e/f/g/h/**"]


@pytest.mark.parametrize(
    ("declared", "leaves"),
    [
        ({}, {}),
        ({"loadSession": False}, {"loadSession": False}),
        ({"session": {"fork": {}, "list": None}}, {"session.fork": True, "session.list": "null"}),
        ({"modes": ["a", "b"], "none": []}, {"modes.a": True, "modes.b": True, "none": "[]"}),
        ({"mixed": ["a", 1], "limit": 3, "ratio": 0.5}, {"mixed": '["a", 1]', "limit": 3, "ratio": "0.5"}),
        ({"a": {"b": {"c": {"d": {"e": {"f": {"g": 1}}}}}}}, {"a.b.c.d.e.f": '{"g": 1}'}),
    ],
)
def test_capabilities(declared: dict[str, Any], leaves: dict[str, Any]) -> None:
    assert names.capabilities(Handshake(capabilities=declared)) == leaves


def test_configuration_options() -> None:
    hello = Handshake(config_options={"mode": "auto", "on": True, "model": None, "odd": {"a": 1}})
    assert names.config_options(hello) == {"mode": "auto", "on": True, "model": "null", "odd": '{"a": 1}'}
