"""From a finished sweep of `capture/` models to cassettes that can be played.

Every attempt keeps its tape (`tape.jsonl`). Of each arm the first run that ended as expected gives the cassette's tape.
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from ruamel.yaml import YAML

from runner.config.base import on_disk
from runner.config.cassette import Cassette, Tape
from runner.config.catalog import LoadedSweep
from runner.config.source import shown
from runner.config.upstream import Upstream
from runner.errors import UsageError
from runner.gateway.journal import parse_journal
from runner.records.schema import Record
from runner.records.store import SweepDir, disk_error

TAPE = "tape.jsonl"


def name_of(upstream: Upstream) -> str:
    """The cassette that `capture/` writes for it."""
    return upstream.cassette or upstream.id


def demand_room(loaded: LoadedSweep, models: Iterable[str]) -> None:
    """Raise UsageError where a cassette would be written over another: before a request was paid for."""
    for model in sorted(set(models)):
        if not model.startswith("capture/"):
            continue
        folder = loaded.cassette_folder(name_of(loaded.upstreams[model]))
        if folder.exists():
            name = loaded.upstreams[model].id
            raise UsageError(
                f"{shown(folder)} is there already: remove it, or name another one by 'cassette:' in model '{name}'"
            )


def keep(out: SweepDir, loaded: LoadedSweep) -> list[str]:
    """Write the cassettes of a sweep; one line on each, for the user.

    :raises InfraError: the disk refuses.
    """
    latest = out.latest()
    notes = []
    for model in sorted({cell.model for cell in out.cells if cell.model.startswith("capture/")}):
        upstream = loaded.upstreams[model]
        arms: dict[str, Record | None] = {}
        for cell in sorted(out.cells, key=lambda cell: (cell.warmup, cell.replicate)):
            if cell.model != model or cell.warmup:
                continue
            record = latest.get(cell.name)
            good = record is not None and record.outcome == cell.expect and _tape(out, record).is_file()
            arms[cell.arm] = arms.get(cell.arm) or (record if good else None)
        notes.append(_written(out, loaded, upstream, arms))
    return notes


def _tape(out: SweepDir, record: Record) -> Path:
    return out.path / "runs" / record.cell / str(record.attempt) / TAPE


def _written(out: SweepDir, loaded: LoadedSweep, upstream: Upstream, arms: Mapping[str, Record | None]) -> str:
    folder = loaded.cassette_folder(name_of(upstream))
    lacking = [arm for arm, record in arms.items() if record is None]
    found = [record for record in arms.values() if record is not None]
    told = f"; no run of {', '.join(lacking)} ended as expected" if lacking else ""
    if not found:
        return f"no cassette '{folder.name}'{told}"
    if folder.exists():
        return f"{shown(folder)} is there already and stays as it is; the tapes of this sweep are in {out.path}"
    tapes = [
        Tape(
            file="--".join(map(on_disk, (one.adapter, one.surface, one.fixture, one.policy))) + ".jsonl",
            adapter=one.adapter,
            surface=one.surface,
            fixture=one.fixture,
            policy=one.policy,
        )
        for one in found
    ]
    cassette = Cassette(
        id=folder.name,
        title=upstream.title,
        dialect=upstream.dialect,
        captured=datetime.now(UTC).date().isoformat(),
        normaliser_version=_version(out, found[0]),
        normalisers=upstream.normalisers,
        tapes=tapes,
    )
    aside = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    try:
        aside.mkdir(parents=True)
        for tape, record in zip(tapes, found, strict=True):
            shutil.copyfile(_tape(out, record), aside / tape.file)
        (aside / "cassette.yaml").write_bytes(_yaml(cassette))
        aside.rename(folder)
    except OSError as problem:
        shutil.rmtree(aside, ignore_errors=True)
        raise disk_error(problem, folder) from problem
    return f"cassette replay/{cassette.id}: {len(tapes)} tape(s) in {shown(folder)}{told}"


def _version(out: SweepDir, record: Record) -> int:
    """Of the gateway's normalisers, as it said itself."""
    lines = _tape(out, record).with_name("model.jsonl").read_bytes().split(b"\n")
    return next(
        entry.tape.version
        for entry in parse_journal(lines)
        if entry.tape is not None and entry.tape.version is not None
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
