"""The history: one Parquet data set, one row a run and metric, only ever added to.

A night is a sweep, and it is known by its runs, not by its folder: each run has a hash, and a file brings only runs
that no file has yet. So appending a sweep twice, or a copy of its folder, changes nothing; a sweep that was resumed
brings its new runs in a file of their own, to the night it was; and a CI that gives every night the same folder has as
many nights. Files are written whole and never again, and those from before runs had hashes are read as they are. Nights
are compared by their medians, since runs of one night share machine, kernel and mood; a step in them is a hint for
whoever looks, never a gate.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import itertools
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from runner.analysis import stats
from runner.config.outcome import UNMEASURED
from runner.errors import UsageError
from runner.records.disk import disk_error
from runner.records.schema import Record
from runner.records.store import LeftOut, SweepDir
from runner.text.encoding import has_surrogate, repaired, text_written_out
from runner.text.files import open_regular, unreadable
from runner.wire.numbers import bounded, measure

#: Column -> its Arrow type. `value`: numbers, null where the metric is text or does not apply; `text`: the rest.
#: `directory`: a night's name for a reader; `night`: what tells it from all others (null in files of earlier versions:
#: there the name does it).
COLUMNS = {
    "sweep": "string", "directory": "string", "started_at": "timestamp", "arm": "string",
    "adapter": "string", "surface": "string", "fixture": "string", "policy": "string",
    "model": "string", "reset": "string", "machine": "string", "replicate": "int32", "attempt": "int32",
    "outcome": "string", "metric": "string", "kind": "string", "value": "double", "text": "string", "night": "string",
}  # fmt: skip
#: What a query reads of them.
_QUERIED = ("started_at", "directory", "night", "arm", "adapter", "machine", "replicate", "attempt", "value")
#: In a file's own metadata: which night it belongs to, and the hashes of its runs.
_NIGHT, _RUNS = b"acpbench.night", b"acpbench.runs"
#: How `default_directory` ends a name.
_DATED = re.compile(r"-\d{8}T\d{6}Z-[0-9a-f]{4}$")


@dataclass(frozen=True)
class Night:
    """One sweep's runs of one arm and metric."""

    started_at: datetime
    directory: str
    machine: str
    found: stats.Summary


@dataclass(frozen=True)
class Series:
    """All nights of one arm and metric, oldest first."""

    arm: str
    nights: list[Night] = field(default_factory=list)

    @property
    def medians(self) -> list[float]:
        return [night.found.median for night in self.nights]


def append(history: Path, sweep: SweepDir, left_out: LeftOut | None = None) -> Path | None:
    """Add a sweep's runs; the file, or None where the history has all of them.

    Warm-ups and runs that measured nothing (`infra`, `aborted`) are left out. Raises InfraError where the disk refuses.
    left_out: told of each record that cannot be read or has no row; the others are added. None: UsageError names it.
    """
    import pyarrow.parquet as parquet

    _check_utf8(history)
    records = list(_dated(list(sweep.records(left_out)), left_out))
    name = _name(text_written_out(sweep.path.resolve().name), records)
    latest = {record.cell: record for record in records}
    measured = [
        record
        for cell in sweep.cells
        if not cell.warmup and (record := latest.get(cell.name)) is not None and record.outcome not in UNMEASURED
    ]
    known = _known(history, records)
    fresh = [record for record in measured if run_hash(record) not in known]
    target = history / f"{name}.parquet"
    if not fresh and (measured or target.exists()):
        return None
    mine = [known[found] for record in records if (found := run_hash(record)) in known]
    night = mine[0] if mine else _identity(sweep.lock, records)
    number = itertools.count(2)
    while target.exists():
        target = history / f"{name}-{next(number)}.parquet"
    table = _table(name, night, sweep.lock, fresh, left_out)
    hashes = json.dumps([run_hash(record) for record in fresh]).encode()
    table = table.sort_by("metric").replace_schema_metadata({_NIGHT: night.encode(), _RUNS: hashes})
    aside = history / f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp"
    try:
        history.mkdir(parents=True, exist_ok=True)
        # By metric, so that a query for one reads one stretch of each file.
        parquet.write_table(table, aside, compression="zstd", row_group_size=8192)
        aside.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink()
        raise disk_error(error, target) from error
    return target


def _dated(records: Iterable[Record], left_out: LeftOut | None) -> Iterator[Record]:
    """Those whose start is a time. `left_out`: as for `append`."""
    for record in records:
        if _begun(record) is not None:
            yield record
            continue
        where = f"runs/{record.cell}/{record.attempt}/record.json"
        told = UsageError(f"{where}: has no row in a history: {record.started_at!r} is no time")
        if left_out is None:
            raise told
        left_out(told)


def run_hash(record: Record) -> str:
    """What tells a run from all others, wherever its folder lies."""
    return _hash(record.arm, record.replicate, record.attempt, datetime.fromisoformat(record.started_at))


def _hash(arm: str, replicate: int, attempt: int, started_at: datetime) -> str:
    """Of columns that files of every version have; times in milliseconds, as they stand there."""
    milliseconds = round(started_at.timestamp() * 1000)
    return hashlib.sha256(f"{arm}\0{replicate}\0{attempt}\0{milliseconds}".encode()).hexdigest()[:24]


def _identity(lock: Mapping[str, Any], records: Sequence[Record]) -> str:
    """A sweep is what began with this run, by this configuration: what is resumed later began with it too."""
    first = min((record.started_at, run_hash(record)) for record in records) if records else ()
    return hashlib.sha256(json.dumps([lock.get("sweep"), lock.get("sweep_sha256"), first]).encode()).hexdigest()[:24]


def _known(history: Path, records: Sequence[Record]) -> dict[str, str]:
    """Of `records`' runs those that the history has: hash -> night. A file that cannot be read tells nothing here."""
    import pyarrow

    wanted = {run_hash(record) for record in records}
    times = [datetime.fromisoformat(record.started_at) for record in records]
    found: dict[str, str] = {}
    for file in sorted(history.glob("*.parquet")) if records else []:
        try:
            held = _runs_of(file, min(times), max(times))
        except (OSError, ValueError, pyarrow.ArrowException):
            continue
        found |= {run: night for run, night in held.items() if run in wanted}
    return found


def _runs_of(file: Path, first: datetime, last: datetime) -> dict[str, str]:
    """The runs of one file, hash -> night; of an earlier version's only where it has any between two times."""
    import pyarrow.parquet as parquet

    with parquet.ParquetFile(file) as data:
        notes = data.schema_arrow.metadata or {}
        if _RUNS in notes:
            return dict.fromkeys(json.loads(notes[_RUNS]), notes[_NIGHT].decode())
        if not _may_hold(data.metadata, first, last):
            return {}
        columns = ["arm", "replicate", "attempt", "started_at", "directory"]
        rows = data.read(columns).group_by(columns).aggregate([]).to_pylist()
    return {_hash(row["arm"], row["replicate"], row["attempt"], row["started_at"]): row["directory"] for row in rows}


def _may_hold(metadata: Any, first: datetime, last: datetime) -> bool:
    """Whether a file has rows from between two times, by the bounds in its footer."""
    column = metadata.schema.names.index("started_at")
    margin = timedelta(milliseconds=1)
    for index in range(metadata.num_row_groups):
        bounds = metadata.row_group(index).column(column).statistics
        if bounds is None or not bounds.has_min_max or (bounds.min <= last + margin and bounds.max >= first - margin):
            return True
    return False


def query(history: Path, metric: str, *, adapter: str | None = None, arm: str = "*") -> list[Series]:
    """The nights of a metric, a series an arm. `adapter`: a glob over ids; `arm`: one over names.

    Raises UsageError for a history that is not there or has no number of that name.
    """
    import pyarrow
    import pyarrow.compute as compute
    import pyarrow.dataset as dataset

    _check_utf8(history)
    metric = repaired(metric)
    found = sorted(history.glob("*.parquet"))
    if not found:
        raise UsageError(f"{history}: no history yet; `acpbench nightly` and `acpbench history --add DIR` write it")
    files = []
    for path in found:
        try:
            # The library would wait for a pipe, and read a folder's files.
            open_regular(path, links=True).close()
        except OSError as error:
            raise unreadable(path, error) from None
        files.append(str(path))
    try:
        # With our own types: what another program wrote there is refused, and a column it lacks is null.
        data = dataset.dataset(files, format="parquet", schema=_schema())
        table = data.to_table(
            columns=list(_QUERIED),
            filter=(compute.field("metric") == metric)
            & compute.field("value").is_valid()
            & compute.is_finite(compute.field("value"))
            & compute.field("arm").is_valid()
            & compute.field("adapter").is_valid()
            & compute.field("started_at").is_valid(),
        )
    except (OSError, pyarrow.ArrowException) as error:
        raise UsageError(f"{history}: cannot be read: {' '.join(str(error).split())}") from None
    if not table.num_rows:
        raise UsageError(f"{history}: {_without(data, metric)}")
    runs: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in _once(table.to_pylist()):
        if fnmatch.fnmatchcase(row["arm"], arm) and (adapter is None or fnmatch.fnmatchcase(row["adapter"], adapter)):
            runs.setdefault((row["arm"], _night_of(row)), []).append(row)
    if not runs:
        raise UsageError(f"{history}: no runs of that arm or adapter have '{metric}'")
    return _series(runs)


def _night_of(row: Mapping[str, Any]) -> str:
    return str(row["night"] or row["directory"])


def _once(rows: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    """Each run once, in the first of the nights that claim it; of the attempts at one cell, the last one."""
    seen: set[tuple[Any, ...]] = set()
    latest: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for row in sorted(rows, key=lambda row: (row["attempt"], row["started_at"], _night_of(row))):
        run = (row["arm"], row["replicate"], row["attempt"], row["started_at"])
        if run not in seen:
            seen.add(run)
            latest[row["arm"], row["replicate"], _night_of(row)] = row
    return latest.values()


def _check_utf8(history: Path) -> None:
    if has_surrogate(str(history)):
        raise UsageError(f"{history}: a name that is not UTF-8, which Parquet's library cannot open; give another one")


def _name(directory: str, records: Iterable[Record]) -> str:
    """A night's name for a reader, and its file's: its directory's, with its start where that is not in it already."""
    if _DATED.search(directory):
        return directory
    started = min((begun for record in records if (begun := _begun(record)) is not None), default=None)
    return directory if started is None else f"{directory}-{started:%Y%m%dT%H%M%SZ}"


def _begun(record: Record) -> datetime | None:
    try:
        return datetime.fromisoformat(record.started_at).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _table(name: str, night: str, lock: Mapping[str, Any], records: Iterable[Record], left_out: LeftOut | None) -> Any:
    import pyarrow

    machine = machine_of(lock)
    rows: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for record in records:
        head = {**record.model_dump(include=set(COLUMNS)), "directory": name, "night": night, "machine": machine}
        try:
            own = list(_rows(head, record))
        except (ValueError, OverflowError) as problem:
            told = UsageError(f"runs/{record.cell}/{record.attempt}/record.json: has no row in a history: {problem}")
            if left_out is None:
                raise told from None
            left_out(told)
            continue
        for row in own:
            for column, values in rows.items():
                values.append(row[column])
    return pyarrow.table(rows, schema=_schema())


def _schema() -> Any:
    import pyarrow

    types = {
        "timestamp": pyarrow.timestamp("ms", tz="UTC"),
        "int32": pyarrow.int32(),
        "double": pyarrow.float64(),
        "string": pyarrow.string(),
    }
    return pyarrow.schema([(name, types[kind]) for name, kind in COLUMNS.items()])


def _rows(head: Mapping[str, Any], record: Record) -> Iterator[dict[str, Any]]:
    """A record's rows, as the columns' types can hold them. Raises ValueError, OverflowError for what they cannot."""
    numbers = {name: _int32(head[name]) for name in ("replicate", "attempt")}
    own = {**repaired(head), **numbers, "started_at": datetime.fromisoformat(record.started_at)}
    for kind, figures in (("exact", record.exact), ("sampled", record.sampled)):
        for metric, found in repaired(figures).items():
            value, text = _split(found)
            yield {**own, "metric": metric, "kind": kind, "value": value, "text": text}


def _int32(number: int) -> int:
    if not -(2**31) <= number < 2**31:
        raise OverflowError(f"{number} is no number of a run")
    return number


def machine_of(lock: Mapping[str, Any]) -> str:
    """A machine in a few words, for a reader: architecture, processors, kernel, engine."""
    engine = lock.get("engine", {})
    cpus = f"{engine['cpus']} cpus" if engine.get("cpus") else None
    parts = (engine.get("arch"), cpus, lock.get("kernel"), engine.get("name"))
    return ", ".join(str(part) for part in (*parts, engine.get("version")) if part)


def _split(value: Any) -> tuple[float | None, str | None]:
    if value is None:
        return None, None
    number = measure(value)
    return (number, None) if number is not None else (None, str(bounded(value)))


def _without(data: Any, metric: str) -> str:
    """Why there is nothing to draw: no such name, or text, or no run to which it applies."""
    from runner.config.nearest import suggest

    table = data.to_table(columns=["metric", "text"])
    names = sorted(str(name) for name in table.column("metric").unique().to_pylist())
    if metric not in names:
        return f"no runs with a number '{metric}'{suggest(metric, names)}"
    said = sorted({row["text"] for row in table.to_pylist() if row["metric"] == metric and row["text"] is not None})
    if not said:
        return f"'{metric}' applies to no run"
    return f"'{metric}' is no number ({', '.join(said[:3])}); `acpbench compare` holds such values against each other"


def _series(runs: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]) -> list[Series]:
    found: dict[str, Series] = {}
    for (arm, _), rows in runs.items():
        ordered = sorted(rows, key=lambda row: row["started_at"])
        summary = stats.summarise([float(row["value"]) for row in ordered])
        assert summary is not None, "a night has at least one run"
        night = Night(ordered[0]["started_at"], ordered[0]["directory"], ordered[0]["machine"], summary)
        found.setdefault(arm, Series(arm)).nights.append(night)
    for series in found.values():
        series.nights.sort(key=lambda night: night.started_at)
    return [found[arm] for arm in sorted(found)]
