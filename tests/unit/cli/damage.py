"""A sweep's folder to be damaged, every verb that reads one, and what may be done to a file."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.unit.study.folder import StudyFolder
from tests.unit.study.undoctored import study

#: Arms whose runs leave every kind of evidence: asks, probes, buffers, planted files, sub-agents, a CLI's stream.
ARMS = ("boundary", "refused", "probes", "unsaved", "subagent", "cli", "fd", "cancelled")
#: One that reads the lock, one that does not.
FORMATS = ("table", "csv")
_SWEEP = "id: a-study\narms:\n  - {adapters: [a], surfaces: [acp], fixtures: [f], models: [scripted/x]}\n"


def sweep(folder: Path) -> Path:
    """One run an arm, with all files that a real sweep has."""
    whole = study()
    arms = {name: whole.arms[name] for name in ARMS}
    for arm in arms.values():
        arm.runs = 1
    StudyFolder(arms, whole.names).write(folder)
    lock = {
        "lock_version": 1,
        "acpbench": "0.1.0",
        "sweep": "a-study",
        "jobs": 1,
        "kernel": "6.1",
        "engine": {"cpus": 2},
    }
    lock |= {"adapters": {"an-adapter@1.2.3": {"image": "an-image", "packages": [], "binaries": {}, "programs": {}}}}
    (folder / "lock.json").write_text(json.dumps(lock))
    (folder / "sweep.yaml").write_text(_SWEEP)
    return folder


def attempt(folder: Path, part: str = "--boundary--allow") -> Path:
    return next(path for path in sorted((folder / "runs").glob("*/1")) if part in path.parent.name)


def verbs(folder: Path, whole: Path, aside: Path) -> list[list[str]]:
    """Command lines that read `folder`; `whole` is one that nothing happened to, `aside` a place to write."""
    run, there = str(attempt(folder)), str(folder)
    return [
        *(["report", there, "--format", form] for form in FORMATS),
        ["findings", there],
        ["permissions", there],
        ["compare", there, "--base", "*--boundary--allow*", "--new", "*--boundary--reject*"],
        ["compare", there, str(whole)],
        ["compare", str(whole), there],
        ["history", "to_result_ms", "--add", there, "--history", str(aside / "history")],
        ["baseline", there, "frozen"],
        ["frames", run],
        ["frames", run, "--with-model"],
        ["frames", run, "--seq", "3"],
        ["frames", run, "--model", "0"],
        ["frames", run, "--record", "exact"],
        ["frames", run, "--file", "/home/agent/.profile"],
    ]


def garbage(path: Path) -> None:
    path.write_bytes(b"\x00\xff{]\n" * 3)


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def link(path: Path) -> None:
    """To its own content, elsewhere: whoever follows it finds nothing wrong."""
    away = path.with_name("away")
    path.rename(away)
    path.symlink_to(away.name)


def dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def bound_socket(path: Path) -> None:
    path.unlink()
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def huge(path: Path) -> None:
    """Ten gigabytes that take no room."""
    with path.open("r+b") as file:
        file.truncate(10 * 10**9)


def huge_from_the_start(path: Path) -> None:
    path.write_bytes(b"")
    huge(path)


DAMAGES: list[Callable[[Path], None]] = [garbage, fifo, folder, link, dangling, bound_socket, huge_from_the_start]

#: What a value of JSON may become.
VALUES: list[Any] = [
    None, True, False, 0, -1, 1.5, 1e308, -1e308, 10**30, 10**400, 2**63, "", "x" * 3000, "\ud800", "\x1b[2J", [], {},
    [[]], {"a": {}}, ["a", 1], [None], "::error::", "2026-01-01", "../../../etc/passwd", "\u00b2",
]  # fmt: skip


def damaged(path: Path, chance: random.Random) -> str:
    """Damage a file as a disk, an editor or somebody else would; what was done."""
    data = path.read_bytes()
    how = chance.choice(["truncated", "flipped", "value", "value", "value"])
    if how == "truncated":
        path.write_bytes(data[: chance.randrange(len(data) + 1)])
    elif how == "flipped":
        flipped = bytearray(data)
        for _ in range(chance.choice([1, 3, 20])):
            flipped[chance.randrange(len(flipped))] = chance.randrange(256)
        path.write_bytes(bytes(flipped))
    else:
        # A file of JSON lines is damaged in one of them.
        lines = data.split(b"\n") if path.suffix == ".jsonl" else [data]
        index = chance.randrange(max(1, len(lines) - 1))
        lines[index] = _changed(lines[index], chance)
        path.write_bytes(b"\n".join(lines))
    return how


def _changed(text: bytes, chance: random.Random) -> bytes:
    document = json.loads(text)
    for _ in range(chance.choice([1, 1, 1, 2, 5])):
        places = _places(document)
        where, key = chance.choice(places) if places else (document, None)
        if key is None:
            break
        what = chance.random()
        if what < 0.7:
            where[key] = chance.choice(VALUES)
        elif what < 0.8:
            del where[key]
        elif what < 0.9 and isinstance(where, dict):
            where[chance.choice(["more", "schema_version", "lock_version", ""])] = chance.choice(VALUES)
        else:
            where[key] = [where[key]] if chance.random() < 0.5 else {"x": where[key]}
    return json.dumps(document).encode("ascii")


def _places(value: Any) -> list[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    return [place for key in keys for place in [(value, key), *_places(value[key])]]


def copied(whole: Path, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return Path(shutil.copytree(whole, folder, symlinks=True))
