from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from runner.analysis import stats
from runner.analysis.history import COLUMNS, Night, Series, append, machine_of, query
from runner.analysis.steps import steps
from runner.config.plan import Cell
from runner.errors import InfraError, UsageError
from runner.records.schema import Record
from runner.records.store import SweepDir
from runner.report.history import plot, sparkline
from tests.unit.report.sample_reports import cell, run

NIGHT = datetime(2026, 11, 1, 2, 17, tzinfo=UTC)
LOCK = {"sweep": "nightly", "kernel": "6.1", "engine": {"arch": "x86_64", "cpus": 2, "name": "docker", "version": "20"}}


def sweep(folder: Path, night: int, values: list[float], lock: dict[str, Any] | None = None, **fields: Any) -> SweepDir:
    """A sweep of one arm, a run a value, `night` days after the first one, after a warm-up."""
    cells: list[Cell] = [cell("acp", 1, warmup=True), *(cell("acp", n) for n in range(1, len(values) + 1))]
    with SweepDir.create(folder / f"night-{night:03}", b"id: nightly\n", lock or LOCK, cells) as made:
        for planned, value in zip(cells, [9999.0, *values], strict=True):
            started = NIGHT + timedelta(days=night, seconds=planned.replicate)
            figures: dict[str, Any] = {
                "started_at": started.isoformat(timespec="milliseconds"),
                "exact": {"tool_calls": 9, "stop_reason": "end_turn", "default_mode": None},
                "sampled": {"to_result_ms": value, "handshake_ms": None},
            }
            record: Record = run(planned, **(figures | fields))
            made.attempt(planned).commit(record)
    return SweepDir.read(made.path)


def test_one_row_a_run_and_metric(tmp_path: Path) -> None:
    file = append(tmp_path / "history", sweep(tmp_path, 0, [100.0, 110.0]))
    assert file is not None
    table = pyarrow.parquet.read_table(file)
    assert table.column_names == list(COLUMNS)
    rows = {(row["metric"], row["replicate"]): row for row in table.to_pylist()}
    assert len(rows) == table.num_rows == 2 * 5
    one = rows["to_result_ms", 2]
    assert (one["value"], one["text"], one["kind"], one["outcome"]) == (110.0, None, "sampled", "passed")
    assert one["started_at"] == NIGHT + timedelta(seconds=2)
    assert one["machine"] == "x86_64, 2 cpus, 6.1, docker, 20"
    assert (rows["stop_reason", 1]["value"], rows["stop_reason", 1]["text"]) == (None, "end_turn")
    assert (rows["handshake_ms", 1]["value"], rows["default_mode", 1]["text"]) == (None, None)
    assert (rows["tool_calls", 1]["value"], rows["tool_calls", 1]["kind"]) == (9.0, "exact")


def test_appending_twice_changes_nothing(tmp_path: Path) -> None:
    one = sweep(tmp_path, 0, [100.0])
    file = append(tmp_path / "history", one)
    assert file is not None
    before = file.read_bytes()
    assert append(tmp_path / "history", one) is None
    assert file.read_bytes() == before
    assert list((tmp_path / "history").iterdir()) == [file]


def test_a_night_is_told_by_its_start_too(tmp_path: Path) -> None:
    """A CI writes every night to a folder of one name, and brings the history back from its cache."""
    history = tmp_path / "history"
    for night, value in ((0, 100.0), (1, 120.0)):
        made = sweep(tmp_path / f"checkout-{night}", night, [value])
        same = made.path.rename(made.path.with_name("nightly"))
        assert append(history, SweepDir.read(same)) is not None
        assert append(history, SweepDir.read(same)) is None
    assert sorted(file.name for file in history.iterdir()) == [
        f"nightly-2026110{day}T021701Z.parquet" for day in (1, 2)
    ]
    (one,) = query(history, "to_result_ms")
    assert one.medians == [100.0, 120.0]


def test_a_name_that_holds_the_start_is_enough(tmp_path: Path) -> None:
    made = sweep(tmp_path, 0, [100.0])
    dated = made.path.rename(tmp_path / "nightly-20261101T021700Z-5d2a")
    file = append(tmp_path / "history", SweepDir.read(dated))
    assert file is not None
    assert file.stem == dated.name


@pytest.mark.parametrize("name", ["a-copy", "night-000", "nightly-20261101T021700Z-5d2a"])
def test_a_copy_of_a_folder_is_no_second_night(tmp_path: Path, name: str) -> None:
    one = sweep(tmp_path / "first", 0, [100.0, 110.0])
    append(tmp_path / "history", one)
    copy = Path(shutil.copytree(one.path, tmp_path / "copies" / name))
    assert append(tmp_path / "history", SweepDir.read(copy)) is None
    assert append(tmp_path / "history", SweepDir.read(one.path.rename(tmp_path / "moved"))) is None
    assert len(list((tmp_path / "history").iterdir())) == 1
    (night,) = query(tmp_path / "history", "to_result_ms")[0].nights
    assert night.found.n == 2


def resumed(made: SweepDir, replicate: int, value: float, **fields: Any) -> None:
    """One more attempt at a cell, an hour later."""
    (planned,) = (one for one in made.cells if not one.warmup and one.replicate == replicate)
    started = (NIGHT + timedelta(hours=1, seconds=replicate)).isoformat(timespec="milliseconds")
    figures: dict[str, Any] = {"started_at": started, "exact": {}, "sampled": {"to_result_ms": value}}
    with SweepDir.resume(made.path) as again:
        attempt = again.attempt(planned)
        attempt.commit(run(planned, **{**figures, **fields, "attempt": attempt.number}))


def unfinished(folder: Path, name: str) -> SweepDir:
    """A sweep of three runs, one of which has not been made."""
    made = sweep(folder, 0, [100.0, 110.0, 120.0])
    path = made.path.rename(folder / name)
    shutil.rmtree(path / "runs" / made.cells[-1].name)
    return SweepDir.read(path)


@pytest.mark.parametrize("name", ["nightly", "nightly-20261101T021700Z-5d2a"])
def test_a_resumed_sweep_brings_its_new_runs_to_the_night_it_was(tmp_path: Path, name: str) -> None:
    history = tmp_path / "history"
    made = unfinished(tmp_path, name)
    first = append(history, made)
    assert append(history, made) is None
    resumed(made, 3, 500.0)
    second = append(history, SweepDir.read(made.path))
    assert first is not None
    assert second is not None
    assert second != first
    assert append(history, SweepDir.read(made.path)) is None
    (night,) = query(history, "to_result_ms")[0].nights
    assert sorted(night.found.values) == [100.0, 110.0, 500.0]
    assert night.directory == first.stem
    # The copy of what it was before, and of what it is now, by whatever name.
    assert append(history, SweepDir.read(Path(shutil.copytree(made.path, tmp_path / "copy")))) is None


def test_a_run_that_was_made_again_counts_in_place_of_the_first(tmp_path: Path) -> None:
    """A resumed sweep reruns whole blocks."""
    history = tmp_path / "history"
    made = sweep(tmp_path, 0, [100.0, 110.0])
    append(history, made)
    resumed(made, 1, 300.0)
    assert append(history, SweepDir.read(made.path)) is not None
    (night,) = query(history, "to_result_ms")[0].nights
    assert sorted(night.found.values) == [110.0, 300.0]


def test_a_resumed_sweep_that_had_measured_nothing_yet(tmp_path: Path) -> None:
    history = tmp_path / "history"
    made = sweep(tmp_path, 0, [100.0], outcome="infra")
    append(history, made)
    assert append(history, made) is None
    resumed(made, 1, 100.0)
    assert append(history, SweepDir.read(made.path)) is not None
    (night,) = query(history, "to_result_ms")[0].nights
    assert night.found.values == (100.0,)


def test_two_nights_of_one_name_and_second_are_two(tmp_path: Path) -> None:
    """Two machines of a CI start at the same moment into folders of the same name."""
    history = tmp_path / "history"
    for part, surface in ((1, "acp"), (2, "cli")):
        made = sweep(tmp_path / str(part), 0, [100.0 * part], arm=f"an-arm--{surface}")
        assert append(history, made) is not None
    assert [one.medians for one in query(history, "to_result_ms")] == [[100.0], [200.0]]


def old_format(file: Path) -> None:
    """As files were before runs had hashes: no such column, and no notes."""
    table = pyarrow.parquet.read_table(file).drop_columns(["night"]).replace_schema_metadata(None)
    pyarrow.parquet.write_table(table, file)


@pytest.mark.parametrize("others", [[], [1, 2]])
def test_files_of_earlier_versions_are_read_and_their_runs_known(tmp_path: Path, others: list[int]) -> None:
    history = tmp_path / "history"
    made = unfinished(tmp_path, "nightly")
    file = append(history, made)
    assert file is not None
    old_format(file)
    for night in others:
        append(history, sweep(tmp_path, night, [200.0]))
    assert append(history, made) is None
    assert append(history, SweepDir.read(Path(shutil.copytree(made.path, tmp_path / "copy")))) is None
    resumed(made, 3, 500.0)
    assert append(history, SweepDir.read(made.path)) is not None
    nights = query(history, "to_result_ms")[0].nights
    assert [night.found.n for night in nights] == [3, *(1 for _ in others)]
    assert nights[0].directory == file.stem


def test_a_copy_that_an_earlier_version_took_for_a_night_is_none(tmp_path: Path) -> None:
    history = tmp_path / "history"
    made = sweep(tmp_path, 0, [100.0, 110.0])
    file = append(history, made)
    assert file is not None
    old_format(file)
    table = pyarrow.parquet.read_table(file)
    names = pyarrow.array(["z-copy"] * table.num_rows)
    table = table.set_column(table.column_names.index("directory"), "directory", names)
    pyarrow.parquet.write_table(table, history / "z-copy.parquet")
    (night,) = query(history, "to_result_ms")[0].nights
    assert (night.directory, night.found.n) == (file.stem, 2)


def test_a_torn_file_keeps_no_night_from_being_added(tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "torn.parquet").write_bytes(b"PAR1")
    assert append(tmp_path / "history", sweep(tmp_path, 0, [100.0])) is not None


def test_runs_that_measured_nothing_are_left_out(tmp_path: Path) -> None:
    file = append(tmp_path / "history", sweep(tmp_path, 0, [100.0], outcome="infra"))
    assert file is not None
    assert pyarrow.parquet.read_table(file).num_rows == 0


def test_a_history_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "history").write_text("a file")
    with pytest.raises(InfraError, match="cannot be written"):
        append(tmp_path / "history", sweep(tmp_path, 0, [100.0]))


def test_nights_are_the_unit(tmp_path: Path) -> None:
    for night, values in ((1, [200.0, 210.0, 190.0]), (0, [100.0, 110.0, 90.0])):
        append(tmp_path / "history", sweep(tmp_path, night, values))
    (one,) = query(tmp_path / "history", "to_result_ms")
    assert one.medians == [100.0, 200.0]
    first = one.nights[0].found
    assert (first.n, first.min, first.max) == (3, 90.0, 110.0)
    assert one.nights[0].directory == "night-000-20261101T021701Z"
    assert query(tmp_path / "history", "to_result_ms", adapter="an-adapter@*")[0].medians == one.medians
    with pytest.raises(UsageError, match="no runs of that arm or adapter"):
        query(tmp_path / "history", "to_result_ms", adapter="other@*")


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no history yet"):
        query(tmp_path / "history", "to_result_ms")
    append(tmp_path / "history", sweep(tmp_path, 0, [100.0]))
    with pytest.raises(UsageError, match="no runs with a number 'to_result'; did you mean 'to_result_ms'"):
        query(tmp_path / "history", "to_result")
    with pytest.raises(UsageError, match=r"'stop_reason' is no number \(end_turn\)"):
        query(tmp_path / "history", "stop_reason")
    with pytest.raises(UsageError, match="'handshake_ms' applies to no run"):
        query(tmp_path / "history", "handshake_ms")
    (tmp_path / "history" / "bad.parquet").write_bytes(b"no parquet")
    with pytest.raises(UsageError, match="cannot be read"):
        query(tmp_path / "history", "to_result_ms")


def test_a_step_and_where_it_is() -> None:
    random = Random(1)
    level = [random.gauss(100, 2) for _ in range(15)] + [random.gauss(120, 2) for _ in range(15)]
    (step,) = steps(level)
    assert step.index == 15
    assert step.ratio == pytest.approx(1.2, abs=0.03)
    assert step.p < 0.001


def test_two_steps() -> None:
    random = Random(2)
    level = [random.gauss(mean, 2) for mean in (100, 130, 90) for _ in range(12)]
    assert [step.index for step in steps(level)] == [12, 24]


@pytest.mark.parametrize("medians", [[], [1.0], [100.0] * 40, [100.0, 100, 100, 200, 200, 200]])
def test_no_step(medians: list[float]) -> None:
    assert steps(medians) == []


def test_noise_is_rarely_a_step() -> None:
    """At most as often as STEP_ALPHA says, over 200 histories of 30 nights of pure noise (5 % would be 10)."""
    random = Random(3)
    found = sum(bool(steps([random.gauss(100, 10) for _ in range(30)])) for _ in range(200))
    assert found <= 10


def test_sparkline() -> None:
    assert sparkline([0.0, 7.0, 3.5]) == "▁█▅"
    assert sparkline([5.0, 5.0]) == "▄▄"


def test_a_picture(tmp_path: Path) -> None:
    for night in range(10):
        append(tmp_path / "history", sweep(tmp_path, night, [100.0 + 50 * (night > 4), 103.0, 97.0 + night]))
    found = query(tmp_path / "history", "to_result_ms")
    plot(found, "to_result_ms", tmp_path / "one.png")
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
    plot(found, "to_result_ms", tmp_path / "one.svg")
    assert "<svg" in (tmp_path / "one.svg").read_text()
    for wrong in (tmp_path / "one.nothing", tmp_path / "no folder" / "one.png"):
        with pytest.raises(UsageError, match="cannot be written"):
            plot(found, "to_result_ms", wrong)


def test_a_machine_in_words() -> None:
    assert machine_of(LOCK) == "x86_64, 2 cpus, 6.1, docker, 20"
    assert machine_of({"kernel": "6.1"}) == "6.1"


@pytest.mark.filterwarnings("error")
def test_no_name_is_a_formula_of_the_picture(tmp_path: Path) -> None:
    """matplotlib reads what stands between two dollars as a formula, and fails over one that is none."""
    summary = stats.summarise([1.0, 2.0])
    assert summary is not None
    nights = [Night(datetime(2026, 1, 1, tzinfo=UTC), "a", "a machine", summary)]
    odd = [Series(name, nights) for name in ("$\\frac$", "_hidden", "\x1b[2J\u202e", "a\nb")]
    plot(odd, "$\\sum", tmp_path / "p.svg")
    text = (tmp_path / "p.svg").read_text()
    assert "\x1b" not in text
    assert "hidden" in text


@pytest.mark.timeout(60)
@pytest.mark.parametrize("damage", ["pipe", "folder", "garbage", "empty", "other types", "other columns", "link"])
def test_what_is_no_history_is_one_line(tmp_path: Path, damage: str) -> None:
    history = tmp_path / "history"
    append(history, sweep(tmp_path, 0, [100.0, 110.0]))
    odd = history / "odd.parquet"
    if damage == "pipe":
        os.mkfifo(odd)
    elif damage == "folder":
        odd.mkdir()
    elif damage in ("garbage", "empty"):
        odd.write_bytes(b"PAR1 and then nothing" if damage == "garbage" else b"")
    elif damage == "other types":
        pyarrow.parquet.write_table(pyarrow.table({"metric": [1.5], "value": ["text"], "arm": [None]}), odd)
    elif damage == "other columns":
        pyarrow.parquet.write_table(pyarrow.table({"x": [1]}), odd)
    else:
        odd.symlink_to(next(history.glob("night*.parquet")).rename(tmp_path / "elsewhere"))
    if damage in ("other columns", "link"):  # an older or newer acpbench's, and a file that lies on another disk
        rows = sum(len(one.nights) for one in query(history, "to_result_ms")) if damage == "link" else 1
        assert rows == 1
        return
    with pytest.raises(UsageError) as raised:
        query(history, "to_result_ms")
    assert "\n" not in str(raised.value)
    assert "cannot be read" in str(raised.value)


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    made = sweep(tmp_path, 0, [100.0], exact={"files_changed.caf\udce9": 3})
    odd = made.path.rename(tmp_path / "caf\udce9")
    file = append(tmp_path / "history", SweepDir.read(odd))
    assert file is not None
    assert file.name == r"caf\udce9-20261101T021701Z.parquet"
    # As it is printed, or as a shell gives the file's own name.
    for metric in (r"files_changed.caf\udce9", "files_changed.caf\udce9"):
        (one,) = query(tmp_path / "history", metric)
        assert one.nights[0].directory == file.stem
        plot([one], metric, tmp_path / "\udcff.png")
    with pytest.raises(UsageError, match="a name that is not UTF-8"):
        append(tmp_path / "\udcff", SweepDir.read(odd))
    with pytest.raises(UsageError, match="a name that is not UTF-8"):
        query(tmp_path / "\udcff", "to_result_ms")


def test_a_picture_of_names_that_are_mathematics_to_its_library(tmp_path: Path) -> None:
    append(tmp_path / "history", sweep(tmp_path, 0, [100.0], exact={r"updates.$\frac$": 3, "updates.\u2028\x00": 4}))
    for metric in (r"updates.$\frac$", "updates.\u2028\x00"):
        found = query(tmp_path / "history", metric)
        plot(found, metric, tmp_path / "one.svg")
        assert "<svg" in (tmp_path / "one.svg").read_text()
