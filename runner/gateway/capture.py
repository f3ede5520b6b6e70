"""From a finished sweep of `capture/` models to cassettes that can be played.

Every attempt keeps its tape (`tape.jsonl`). Of each arm the first run that ended as expected gives the cassette's tape.
A sweep that was stopped leaves a cassette of the arms it came to; resumed, it adds the others.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from runner.config.base import on_disk
from runner.config.cassette import Cassette, Tape
from runner.config.catalog import Catalog
from runner.config.loaded_sweep import LoadedSweep
from runner.config.plan import Cell
from runner.config.source import shown
from runner.config.upstream import Upstream
from runner.errors import ConfigError, UsageError
from runner.gateway.cassette import TAPE_BYTES, read_tape
from runner.gateway.journal import LoggedEntries
from runner.records.disk import disk_error
from runner.records.schema import Record
from runner.records.store import SweepDir
from runner.text.files import is_there, read_regular, unreadable

TAPE = "tape.jsonl"
_FILE = "cassette.yaml"


def name_of(upstream: Upstream) -> str:
    """The cassette that `capture/` writes for it."""
    return upstream.cassette or upstream.id


def check_room(loaded: LoadedSweep, models: Iterable[str]) -> None:
    """Raise UsageError where a cassette would be written over another: before a request was paid for."""
    for model in _captured(models):
        folder = loaded.cassette_folder(name_of(loaded.upstreams[model]))
        if folder.exists():
            name = loaded.upstreams[model].id
            raise UsageError(
                f"{shown(folder)} is there already: remove it, or name another one by 'cassette:' in model '{name}'"
            )


def _captured(models: Iterable[str]) -> list[str]:
    return sorted({model for model in models if model.startswith("capture/")})


@contextlib.contextmanager
def reserved(loaded: LoadedSweep, models: Iterable[str]) -> Iterator[None]:
    """Keep other sweeps from capturing the same cassettes while the block lasts; the kernel lets go however we end.

    :raises UsageError: another sweep captures one of them, or two models of this one would write the same.
    """
    with contextlib.ExitStack() as stack:
        writer: dict[str, str] = {}
        for model in _captured(models):
            name = name_of(loaded.upstreams[model])
            if name in writer:
                raise UsageError(
                    f"{writer[name]} and {model} would both write the cassette '{name}'; name one otherwise"
                )
            writer[name] = model
            file = loaded.root / ".cache" / f"capture-{on_disk(name)}.lock"
            try:
                file.parent.mkdir(exist_ok=True)
                held = stack.enter_context(file.open("ab"))
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(f"another sweep is capturing the cassette '{name}'; wait for it") from None
            except OSError as problem:
                raise disk_error(problem, file) from problem
        yield


def check_tapes(loaded: LoadedSweep, cells: Iterable[Cell]) -> None:
    """Raise ConfigError, with file and line, where a tape that `cells` will play is not whole."""
    for model, adapter, surface, fixture, policy in sorted(
        {(cell.model, cell.adapter, cell.surface, cell.fixture, cell.policy) for cell in cells}
    ):
        cassette = loaded.cassettes.get(model)
        tape = cassette.tape(adapter, surface, fixture, policy) if cassette is not None else None
        if cassette is None or tape is None:
            continue  # no replay; or the catalog has said so
        path = loaded.cassette_folder(cassette.id) / tape.file
        there = len(read_tape(path))
        if there != (tape.entries or max(there, 1)):
            message = (
                f"holds {there} entries, {tape.entries or 'at least 1'} were recorded: it is not whole, bring it back"
            )
            raise ConfigError(shown(path), None, message)


def keep(out: SweepDir, loaded: LoadedSweep) -> list[str]:
    """Write the cassettes of a sweep; one line on each, for the user.

    :raises InfraError: the disk refuses.
    """
    latest = out.latest()
    notes = []
    for model in _captured(cell.model for cell in out.cells):
        arms: dict[str, list[Record]] = {}
        for cell in sorted(out.cells, key=lambda cell: (cell.warmup, cell.replicate)):
            if cell.model != model or cell.warmup:
                continue
            good = arms.setdefault(cell.arm, [])
            record = latest.get(cell.name)
            if record is not None and record.outcome == cell.expect and _bytes(out, record):
                good.append(record)
        notes.append(_kept(out, loaded, loaded.upstreams[model], arms))
    return notes


def _bytes(out: SweepDir, record: Record) -> bytes:
    """A run's tape; empty where it has none, or asked its model nothing."""
    path = out.path / "runs" / record.cell / str(record.attempt) / TAPE
    try:
        return read_regular(path, TAPE_BYTES) if is_there(path) else b""
    except OSError as problem:
        raise unreadable(path, problem) from None


def _kept(out: SweepDir, loaded: LoadedSweep, upstream: Upstream, arms: Mapping[str, Sequence[Record]]) -> str:
    folder = loaded.cassette_folder(name_of(upstream))
    lacking = [arm for arm, good in arms.items() if not good]
    message = f"; no run of {', '.join(lacking)} ended as expected" if lacking else ""
    tapes = [
        [(_tape(entry, data), data) for entry in good if (data := _bytes(out, entry))] for good in arms.values() if good
    ]
    if not tapes:
        return f"no cassette '{folder.name}'{message}"
    try:
        if folder.exists():
            there = _add(loaded, folder, tapes)
        else:
            there = _write(
                folder, _cassette(out, upstream, folder.name, next(good[0] for good in arms.values() if good)), tapes
            )
    except OSError as problem:
        raise disk_error(problem, folder) from problem
    if there is None:
        return f"{shown(folder)} is there already and stays as it is; the tapes of this sweep are in {out.path}"
    return f"cassette replay/{folder.name}: {there} tape(s) in {shown(folder)}{message}"


def _tape(record: Record, data: bytes) -> Tape:
    return Tape(
        file="--".join(map(on_disk, (record.adapter, record.surface, record.fixture, record.policy))) + ".jsonl",
        adapter=record.adapter,
        surface=record.surface,
        fixture=record.fixture,
        policy=record.policy,
        entries=data.count(b"\n"),
    )


def _cassette(out: SweepDir, upstream: Upstream, name: str, record: Record) -> dict[str, Any]:
    """All of a cassette but its tapes."""
    return {
        "id": name,
        "title": upstream.title,
        "dialect": upstream.dialect,
        "captured": datetime.now(UTC).date().isoformat(),
        "normaliser_version": _version(out, record),
        "normalisers": upstream.normalisers,
    }


#: Of each arm the tapes that could stand for it, the first of them to be taken.
Tapes = Sequence[Sequence[tuple[Tape, bytes]]]


def _write(folder: Path, head: Mapping[str, Any], tapes: Tapes) -> int:
    """A cassette that was not there; it appears whole. The number of its tapes."""
    aside = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    try:
        aside.mkdir(parents=True)
        for tape, data in (good[0] for good in tapes):
            (aside / tape.file).write_bytes(data)
        (aside / _FILE).write_bytes(_yaml(Cassette(**head, tapes=[good[0][0] for good in tapes])))
        aside.rename(folder)
    except OSError:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    return len(tapes)


def _add(loaded: LoadedSweep, folder: Path, tapes: Tapes) -> int | None:
    """Add what a cassette of this very sweep lacks; the number of its tapes, or None: it is another one's."""
    try:
        there = Catalog(loaded.root).cassette(folder.name)
    except UsageError:
        return None
    possible = {tape.file: {data for _, data in good} for good in tapes for tape, _ in good}
    if any((folder / tape.file).read_bytes() not in possible.get(tape.file, ()) for tape in there.tapes):
        return None
    has = {tape.file for tape in there.tapes}
    new = [good[0] for good in tapes if good[0][0].file not in has]
    for tape, data in new:
        (folder / tape.file).write_bytes(data)
    if new:
        aside = folder / f".{_FILE}.tmp"
        aside.write_bytes(_yaml(there.model_copy(update={"tapes": [*there.tapes, *(tape for tape, _ in new)]})))
        aside.rename(folder / _FILE)
    return len(there.tapes) + len(new)


def _version(out: SweepDir, record: Record) -> int:
    """Of the gateway's normalisers, as it said itself."""
    path = out.path / "runs" / record.cell / str(record.attempt) / "model.jsonl"
    return next(
        entry.tape.version for entry in LoggedEntries(path) if entry.tape is not None and entry.tape.version is not None
    )


def _yaml(cassette: Cassette) -> bytes:
    buffer = io.BytesIO()
    buffer.write(
        b"# What a live model was asked and answered. A normaliser may be added; the tapes are not to be edited.\n"
    )
    yaml = YAML()
    yaml.width = 120
    yaml.dump(cassette.model_dump(mode="json", by_alias=True), buffer)
    return buffer.getvalue()
