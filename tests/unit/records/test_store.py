from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from runner.acp.buffers import MediatedWrite
from runner.config.plan import Cell
from runner.errors import InfraError, UsageError
from runner.records.disk import DiskFull, disk_errors
from runner.records.schema import Change, Record, Verdict
from runner.records.store import AttemptDir, SweepDir, default_directory
from tests.unit.evidence.conversations import record as run


def cell(name: str = "a--r1", **changes: Any) -> Cell:
    fields: dict[str, Any] = {
        "order": 1, "block": 1, "name": name, "arm": name.partition("--")[0], "replicate": 1, "warmup": False,
        "image": "i", "adapter": "a@1", "surface": "acp", "fixture": "f", "policy": "allow_once", "model": "scripted/s",
        "reset": "container", "expect": "passed",
    }  # fmt: skip
    return Cell.model_validate({**fields, **changes})


def record(attempt: AttemptDir, **changes: Any) -> Record:
    fields: dict[str, Any] = {
        "sweep": "s", "cell": attempt.cell, "arm": "a", "replicate": 1, "attempt": attempt.number, "adapter": "a@1",
        "surface": "acp", "fixture": "f", "policy": "allow_once", "model": "scripted/s", "reset": "container",
        "expect": "passed", "outcome": "passed", "started_at": "2026-01-01T00:00:00Z", "start_ns": 1, "end_ns": 2,
    }  # fmt: skip
    return Record.model_validate({**fields, **changes})


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


CELLS = [cell("a--r1"), cell("b--r1", order=2)]


@pytest.fixture
def made(tmp_path: Path) -> Any:
    with SweepDir.create(tmp_path / "out", b"id: s\n", {"sweep": "s", "seed": 1}, CELLS) as directory:
        yield directory


def test_create(made: SweepDir) -> None:
    assert made.sweep_yaml == b"id: s\n"
    assert made.lock == {"sweep": "s", "seed": 1}
    assert SweepDir.read(made.path).cells == tuple(CELLS)
    assert sorted(path.name for path in made.path.iterdir()) == [
        ".owner",
        "lock.json",
        "plan.jsonl",
        "runs",
        "sweep.yaml",
    ]


def test_create_in_a_folder_that_is_in_use(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(UsageError, match="is not empty; give a new folder, or --resume"):
        SweepDir.create(tmp_path, b"", {}, CELLS)
    assert names(tmp_path) == ["notes.txt"]
    with pytest.raises(UsageError, match="is a file, not a folder"):
        SweepDir.create(tmp_path / "notes.txt", b"", {}, CELLS)
    with pytest.raises(UsageError, match="cannot be made"):
        SweepDir.create(tmp_path / "notes.txt/x", b"", {}, CELLS)


def test_create_in_an_empty_folder(tmp_path: Path) -> None:
    SweepDir.create(tmp_path, b"", {}, CELLS).close()
    assert SweepDir.read(tmp_path).cells == tuple(CELLS)


def test_a_creation_that_was_cut_short_is_no_sweep(made: SweepDir) -> None:
    (made.path / "plan.jsonl").unlink()
    with pytest.raises(UsageError, match=r"not a sweep's folder: it has no plan\.jsonl"):
        SweepDir.read(made.path)


def test_read_of_what_is_not_there(made: SweepDir) -> None:
    with pytest.raises(UsageError, match="no such folder; did you mean 'out'"):
        SweepDir.read(made.path.parent / "ouT1")
    with pytest.raises(UsageError, match="is a file, not a folder"):
        SweepDir.read(made.path / "lock.json")


def test_one_writer(made: SweepDir) -> None:
    with pytest.raises(UsageError, match=rf"another acpbench \(process {os.getpid()}\) is writing it"):
        SweepDir.resume(made.path)
    made.close()
    made.close()
    with SweepDir.resume(made.path) as again:
        assert again.cells == tuple(CELLS)
    SweepDir.resume(made.path).close()


def test_a_dead_writer_holds_nothing(made: SweepDir) -> None:
    made.close()
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom runner.records.store import SweepDir\n"
        "SweepDir.resume(Path(sys.argv[1]))\nprint('mine', flush=True)\nsys.stdin.read()\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(made.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )  # fmt: skip
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"mine\n"
        with pytest.raises(UsageError, match=f"process {other.pid}"):
            SweepDir.resume(made.path)
        other.kill()
        other.wait()
    SweepDir.resume(made.path).close()


def test_attempts_are_numbered_and_never_used_again(made: SweepDir) -> None:
    first, second = made.attempt(CELLS[0]), made.attempt(CELLS[0])
    assert (first.number, second.number) == (1, 2)
    assert first.path == made.path / "runs/a--r1/1"
    first.path.rmdir()
    assert made.attempt(CELLS[0]).number == 3
    (made.path / "runs/a--r1/notes").mkdir()
    (made.path / "runs/a--r1/10").mkdir()
    assert made.attempt(CELLS[0]).number == 11


def test_records_latest_and_unfinished(made: SweepDir) -> None:
    last = made.attempt(CELLS[1])
    last.commit(record(last))
    for outcome in ("infra", "passed"):
        attempt = made.attempt(CELLS[0])
        attempt.commit(record(attempt, outcome=outcome))
    cut = made.attempt(CELLS[0])
    cut.write_bytes("frames.jsonl", b"{}\n")
    assert [(one.cell, one.attempt) for one in made.records()] == [("a--r1", 1), ("a--r1", 2), ("b--r1", 1)]
    assert {name: one.outcome for name, one in made.latest().items()} == {"a--r1": "passed", "b--r1": "passed"}
    assert made.latest()["a--r1"].attempt == 2
    assert made.unfinished() == [cut.path]


def test_attempt_files(made: SweepDir) -> None:
    attempt = made.attempt(CELLS[0])
    attempt.write_bytes("workspace.patch", b"\x00\xff")
    attempt.write_json("fsdiff.json", {"odd": "\udcff", "é": [1, None]})
    attempt.write_json("numbers.json", {"a": float("nan"), "b": [10**400, 1.5]})
    attempt.write_lines("model.jsonl", ["one", b"two", "\udcff", "\ud800"])
    assert (attempt.path / "workspace.patch").read_bytes() == b"\x00\xff"
    assert json.loads((attempt.path / "fsdiff.json").read_bytes()) == {"odd": r"\udcff", "é": [1, None]}
    assert json.loads((attempt.path / "numbers.json").read_bytes()) == {"a": "nan", "b": ["1e400 or so", 1.5]}
    assert (attempt.path / "model.jsonl").read_bytes() == b"one\ntwo\n\xff\n\\ud800\n"
    with pytest.raises(ValueError, match="commit alone"):
        attempt.write_json("record.json", {})


def test_a_record_is_committed_once_and_to_its_own_attempt(made: SweepDir) -> None:
    attempt, other = made.attempt(CELLS[0]), made.attempt(CELLS[0])
    with pytest.raises(ValueError, match=r"record of a--r1/2 in "):
        attempt.commit(record(other))
    attempt.commit(record(attempt))
    with pytest.raises(ValueError, match="committed already"):
        attempt.commit(record(attempt, outcome="infra"))
    assert made.latest()["a--r1"].outcome == "passed"


def test_a_whole_record_comes_back(made: SweepDir) -> None:
    attempt = made.attempt(CELLS[0])
    change = Change(path="odd\nname", status="A")
    written = record(
        attempt, exact={"tool_calls": 9, "stop_reason": None}, sampled={"wall_ms": 1.5, "turn_ms": None},
        verdict=Verdict(passed=True, changes=[change]),
    )  # fmt: skip
    attempt.commit(written)
    assert list(made.records()) == [written]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not JSON"),
        (b'{"schema_version": 1, "cell"', "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"schema_version": 99}', "has schema version 99; this acpbench reads 1"),
        (b"{}", "has schema version None"),
        (b'{"schema_version": 1}', "not a record: sweep: Field required"),
        (b'{"schema_version": 1, "sampled": {"turn_ms": NaN}}', "not a record: "),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_unreadable_records_are_named(made: SweepDir, content: bytes, words: str) -> None:
    attempt = made.attempt(CELLS[0])
    (attempt.path / "record.json").write_bytes(content)
    with pytest.raises(UsageError) as caught:
        list(made.records())
    assert str(caught.value).startswith(f"{attempt.path}/record.json: ")
    assert words in str(caught.value)


def test_a_record_in_the_wrong_place(made: SweepDir) -> None:
    attempt = made.attempt(CELLS[0])
    attempt.commit(record(attempt))
    attempt.path.rename(attempt.path.with_name("2"))
    with pytest.raises(UsageError, match=r"is the record of another attempt \(a--r1/1\)"):
        made.latest()


def test_unreadable_lock(made: SweepDir) -> None:
    (made.path / "lock.json").write_text("{")
    with pytest.raises(UsageError, match=r"lock\.json: not JSON"):
        _ = made.lock
    (made.path / "lock.json").unlink()
    with pytest.raises(UsageError, match=r"lock\.json: no such file"):
        _ = made.lock


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_disk_full(made: SweepDir, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    attempt = made.attempt(CELLS[0])
    attempt.write_bytes("a", b"before")

    def full(_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", full)
    for act in (
        lambda: attempt.write_bytes("a", b"after"),
        lambda: attempt.commit(record(attempt)),
        lambda: made.attempt(CELLS[1]),
        lambda: SweepDir.create(made.path.parent / "new", b"", {}, CELLS),
    ):
        with pytest.raises(DiskFull, match=r"^disk full: ") as caught:
            act()
        assert "\n" not in str(caught.value)
    assert names(attempt.path) == ["a"]
    assert (attempt.path / "a").read_bytes() == b"before"


@pytest.mark.parametrize("written", range(6))
def test_a_folder_that_a_full_disk_left_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    """After so many flushes, two for each file, there is no room left."""
    flushes = iter(range(written))

    def full(_: int) -> None:
        if next(flushes, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(DiskFull):
            SweepDir.create(tmp_path, b"", {}, CELLS)
    assert names(tmp_path) == [".owner"]
    SweepDir.create(tmp_path, b"", {}, CELLS).close()


def test_really_full_disk() -> None:
    """/dev/full answers every write as a full disk does."""
    full = Path("/dev/full")
    with full.open("wb", buffering=0) as file, pytest.raises(DiskFull), disk_errors(full):
        file.write(b"x")


def test_other_refusals_are_infra(made: SweepDir) -> None:
    attempt = made.attempt(CELLS[0])
    attempt.path.rmdir()
    with pytest.raises(InfraError, match="cannot be written: No such file") as caught:
        attempt.write_bytes("a", b"x")
    assert not isinstance(caught.value, DiskFull)


def test_default_directory() -> None:
    name = default_directory(Path("results"), "three@x/y")
    assert re.fullmatch(r"results/three-x-y-\d{8}T\d{6}Z-[0-9a-f]{4}", str(name))
    assert len({str(default_directory(Path("r"), "s")) for _ in range(20)}) > 1


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([0, 1]), st.sampled_from(["commit", "cut", "gone"])), max_size=12))
def test_any_history_reads_back(tmp_path_factory: pytest.TempPathFactory, history: list[tuple[int, str]]) -> None:
    """Whatever order attempts begin and end in: each committed one is read once, each other one is unfinished."""
    path = tmp_path_factory.mktemp("h") / "out"
    committed: list[tuple[int, int]] = []
    unfinished: list[Path] = []
    numbers: dict[int, int] = {0: 0, 1: 0}
    with SweepDir.create(path, b"", {}, CELLS) as directory:
        for which, end in history:
            attempt = directory.attempt(CELLS[which])
            assert attempt.number == numbers[which] + 1
            numbers[which] = attempt.number
            attempt.write_lines("model.jsonl", ["x"])
            if end == "commit":
                attempt.commit(record(attempt))
                committed.append((which, attempt.number))
            else:
                unfinished.append(attempt.path)
                if end == "gone":  # killed between writing aside and renaming
                    (attempt.path / ".record.json.1-0.tmp").write_bytes(b'{"half')
    found = SweepDir.read(path)
    assert [
        (CELLS.index(next(c for c in CELLS if c.name == one.cell)), one.attempt) for one in found.records()
    ] == sorted(committed)
    assert found.unfinished() == sorted(unfinished, key=lambda p: (p.parent.name, int(p.name)))


def test_what_an_agent_sent_is_kept_whatever_it_is(made: SweepDir) -> None:
    # As a JSON reader understands 1e999. Refused, it would take the whole sweep along.
    attempt = made.attempt(CELLS[0])
    sent = {"version": float("inf"), "more": [{"n": float("-inf")}]}
    attempt.commit(record(attempt, agent_info=sent))
    (found,) = made.records()
    assert found.agent_info == {"version": "inf", "more": [{"n": "-inf"}]}


def test_a_time_is_a_number(made: SweepDir) -> None:
    attempt = made.attempt(CELLS[0])
    with pytest.raises(ValidationError, match="finite number"):
        record(attempt, sampled={"turn_ms": float("nan")})


def test_a_write_of_the_ledger_has_no_unknown_key() -> None:
    write = MediatedWrite(
        path="/w", before=None, after="a" * 40, seq=1, t_ns=1, was_unsaved=False, overwrote_unseen=False
    )
    known = run(ledger=[write]).model_dump(mode="json")
    assert Record.model_validate(known).ledger == [write]
    known["ledger"][0]["more"] = 1
    with pytest.raises(ValidationError, match=r"ledger\.0\.more"):
        Record.model_validate(known)
