"""Files of a record that are damaged, or are no files: each verb says so in one line and ends with 64, or does not read
them. None waits, none follows a link out of the folder, none ends by an error of ours."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.cli import main as cli
from tests.unit.cli import damage

pytestmark = pytest.mark.timeout(120)

#: Below a sweep's folder; `.../` is one attempt.
FILES = ("plan.jsonl", "lock.json", "adapters-check.json", ".../record.json", ".../frames.jsonl", ".../model.jsonl",
         ".../program.json", ".../fsdiff.json")  # fmt: skip
#: The verb as it begins -> the files that it must read.
READ: dict[tuple[str, ...], set[str]] = {
    ("report",): {"plan.jsonl", ".../record.json"},
    ("findings",): set(FILES),
    ("permissions",): {*FILES} - {".../fsdiff.json"},
    ("compare",): {"plan.jsonl", "lock.json", ".../record.json"},
    ("history",): {"plan.jsonl", "lock.json", ".../record.json"},
    ("baseline",): {"plan.jsonl", "lock.json", ".../record.json"},
    ("frames", "RUN"): {".../frames.jsonl", ".../record.json"},
    ("frames", "RUN", "--with-model"): {".../frames.jsonl", ".../model.jsonl", ".../record.json"},
    ("frames", "RUN", "--seq"): {".../frames.jsonl"},
    ("frames", "RUN", "--model"): {".../model.jsonl"},
    ("frames", "RUN", "--record"): {".../record.json"},
    ("frames", "RUN", "--file"): {".../record.json", ".../fsdiff.json"},
}
#: Formats of a report that need no lock.
WITHOUT_LOCK = ("junit", "csv")


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return damage.sweep(tmp_path_factory.mktemp("damage") / "whole")


def reads(args: list[str]) -> set[str]:
    words = [args[0], "RUN", *args[2:3]] if args[0] == "frames" else [args[0]]
    found = READ[tuple(words)]
    return found | {"lock.json"} if args[0] == "report" and args[-1] not in WITHOUT_LOCK else found


def one_line(args: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = cli.run(args)
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert code in (0, 1, 2, 64), said
    if code == 64:
        assert said.startswith("acpbench: ")
        assert said.count("\n") == 1, said
    return code, said


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("hurt", damage.DAMAGES, ids=lambda one: str(one.__name__))
def test_every_verb_and_every_file(
    file: str,
    hurt: Callable[[Path], None],
    whole: Path,
    tmp_path: Path,
    root: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = damage.copied(whole, tmp_path / "dir")
    path = damage.attempt(folder) / file[4:] if file.startswith(".../") else folder / file
    hurt(path)
    for args in damage.verbs(folder, whole, tmp_path):
        code, said = one_line(["--root", str(root), *args], capsys)
        if file in reads(args):
            # The history of a night must not be lost over one record: it is named and left out.
            goes_on = args[0] == "history" and path.name == "record.json"
            assert (code, path.name in said) == (0 if goes_on else 64, True), (args, said)
        else:
            assert code != 64, (args, said)


@pytest.mark.parametrize("part", ["runs", "cell", "attempt"])
@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_folder_that_is_none(
    part: str, kind: str, whole: Path, tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A link would have records of another sweep counted, and a resumed sweep write where nobody looks."""
    folder = damage.copied(whole, tmp_path / "dir")
    run = damage.attempt(folder)
    path = {"runs": folder / "runs", "cell": run.parent, "attempt": run}[part]
    verbs = [args for args in damage.verbs(folder, whole, tmp_path) if args[0] != "frames"]
    path.rename(tmp_path / "away")
    if kind == "link":
        path.symlink_to(tmp_path / "away")
    else:
        path.write_text("")
    for args in verbs:
        code, said = one_line(["--root", str(root), *args], capsys)
        assert (code, "where a folder is expected" in said) == (64, True), (args, said)


@pytest.mark.parametrize(
    ("file", "key", "version"),
    [
        ("lock.json", "lock_version", 2),
        ("lock.json", "lock_version", "1"),
        ("lock.json", "lock_version", True),
        ("lock.json", "lock_version", 1.0),
        (".../record.json", "schema_version", 2),
        (".../record.json", "schema_version", True),
        (".../record.json", "schema_version", None),
    ],
)
def test_a_version_from_the_future(
    file: str, key: str, version: object, whole: Path, tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = damage.copied(whole, tmp_path / "dir")
    path = damage.attempt(folder) / file[4:] if file.startswith(".../") else folder / file
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: version}))
    for args in damage.verbs(folder, whole, tmp_path):
        # --record and --file print what stands there, whatever it is.
        if file in reads(args) and args[2:3] not in (["--record"], ["--file"]):
            code, said = one_line(["--root", str(root), *args], capsys)
            # The history of a night must not be lost over one record: it is named and left out.
            goes_on = args[0] == "history" and path.name == "record.json"
            assert code == (0 if goes_on else 64), (args, said)
            assert "version" in said
            assert "use the acpbench that wrote it" in said


@pytest.mark.parametrize(
    "blob",
    ["../../../../../../../../etc/passwd", "/etc/passwd", "blobs/../record.json", "record.json", "blobs/1.bin/x", 7],
)
@pytest.mark.parametrize("options", [[], ["--seq", "0"], ["--with-model"]], ids=str)
def test_no_blob_leads_out_of_the_run(
    blob: object, options: list[str], whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = damage.attempt(damage.copied(whole, tmp_path / "dir"))
    frame = {"seq": 0, "t_ns": 1, "direction": "a2c", "channel": "stdout", "length": 9000, "blob": blob}
    (run / "frames.jsonl").write_text(json.dumps(frame) + "\n")
    assert cli.run(["frames", str(run), *options]) == 64
    said = capsys.readouterr()
    assert "root:" not in said.out + said.err
    assert "frames.jsonl:1: not a frame: " in said.err


@pytest.mark.parametrize("kind", [damage.fifo, damage.folder, damage.link, damage.dangling, damage.bound_socket])
def test_no_blob_is_anything_but_a_file(
    kind: Callable[[Path], None], whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = damage.attempt(damage.copied(whole, tmp_path / "dir"))
    frame = {"seq": 0, "t_ns": 1, "direction": "a2c", "channel": "stdout", "length": 2**62, "blob": "blobs/0.bin"}
    (run / "frames.jsonl").write_text(json.dumps(frame) + "\n")
    (run / "blobs").mkdir(exist_ok=True)
    (run / "blobs/0.bin").write_text("what it says")
    assert cli.run(["frames", str(run), "--seq", "0"]) == 0
    assert "what it says" in capsys.readouterr().out
    kind(run / "blobs/0.bin")
    assert cli.run(["frames", str(run), "--seq", "0"]) == 64
    assert "0.bin: cannot be read: it is " in capsys.readouterr().err


def test_a_folder_of_blobs_that_is_a_link(whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = damage.attempt(damage.copied(whole, tmp_path / "dir"))
    frame = {"seq": 0, "t_ns": 1, "direction": "a2c", "channel": "stdout", "length": 6, "blob": "blobs/0.bin"}
    (run / "frames.jsonl").write_text(json.dumps(frame) + "\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/0.bin").write_text("secret")
    (run / "blobs").symlink_to(tmp_path / "other")
    assert cli.run(["frames", str(run), "--seq", "0"]) == 64
    said = capsys.readouterr()
    assert "secret" not in said.out
    assert "blobs: cannot be read: it is a symbolic link" in said.err


def test_a_run_may_be_named_through_a_link(whole: Path, tmp_path: Path) -> None:
    """What a user types is the user's affair."""
    folder = damage.copied(whole, tmp_path / "dir")
    (tmp_path / "latest").symlink_to("dir")
    assert cli.run(["report", str(tmp_path / "latest")]) == 0
    (tmp_path / "run").symlink_to(damage.attempt(folder))
    assert cli.run(["frames", str(tmp_path / "run"), "--record", "exact"]) == 0


def test_random_damage_is_never_an_error_of_ours(
    whole: Path, tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACPBENCH_DEBUG", "0")
    chance = random.Random(18)
    files = sorted(path.relative_to(whole) for path in whole.rglob("*.json*"))
    names = sorted({path.name for path in files})
    for _ in range(60):
        folder = damage.copied(whole, tmp_path / "dir")
        name = chance.choice(names)
        file = chance.choice([path for path in files if path.name == name])
        how = damage.damaged(folder / file, chance)
        for args in chance.sample(damage.verbs(folder, whole, tmp_path), 6):
            code = cli.run(["--root", str(root), *args])
            said = capsys.readouterr().err
            assert code in (0, 1, 2, 64), (how, file, args, said)
