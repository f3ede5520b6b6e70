"""`acpbench frames`: what crossed the wire in one run, one frame a line; or one piece of evidence, whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from runner.cli.options import MAX_WIDTH
from runner.cli.output import err, out
from runner.config.base import MAX_COUNT
from runner.config.nearest import suggest
from runner.errors import InfraError, UsageError
from runner.text.files import is_there

_LOG = "frames.jsonl"
_JOURNAL = "model.jsonl"
#: What the time line adds up to.
_TIMES = ("turn_ms", "model_ms", "client_ms", "agent_ms", "active_ms")


def frames(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="An attempt's folder, runs/<cell>/<attempt>.")],
    seq: Annotated[
        int | None, typer.Option(min=0, max=MAX_COUNT, metavar="N", help="Print this frame alone, whole.")
    ] = None,
    model: Annotated[
        int | None, typer.Option(min=0, max=MAX_COUNT, metavar="N", help="Print this entry of the model's journal.")
    ] = None,
    file: Annotated[
        str | None, typer.Option(metavar="PATH", help="Print what the record says of a file: before, after, hashes.")
    ] = None,
    record: Annotated[
        str | None, typer.Option(metavar="PATH", help="Print a member of record.json by its dotted path.")
    ] = None,
    with_model: Annotated[bool, typer.Option("--with-model", help="Also the requests to the model, by time.")] = False,
    width: Annotated[int, typer.Option(min=40, max=MAX_WIDTH, help="Columns of a line; what is longer is cut.")] = 160,
) -> int:
    """Print a run's frame log: seq, milliseconds since the agent's start, direction, channel, bytes, summary.

    With --with-model a request to the model is two lines, m<seq>: => when it had come in, <= when its answer was out.
    """
    from runner.records.store import spawn_of
    from runner.report.frames import render, render_one
    from runner.text.files import unreadable
    from runner.wire.log import read_frames

    asked = [
        (kind, value) for kind, value in (("model", model), ("file", file), ("record", record)) if value is not None
    ]
    if asked:
        if len(asked) > 1 or seq is not None or with_model:
            raise UsageError("one of --seq, --model, --file, --record, --with-model at a time")
        out(_evidence(run, *asked[0]))
        return 0
    log = log_of(run)
    try:
        if seq is not None:
            head, _, body = render_one(read_frames(log), seq).rstrip("\n").partition("\n")
            err(head)  # what stays on standard output can be piped into a JSON tool
            out(body)
            return 0
        lines = _with_model(run, width) if with_model else render(list(read_frames(log)), spawn_of(run), width)
        for line in lines:
            out(line)
    except OSError as error:
        raise unreadable(log, error) from None
    except ValueError as error:
        raise UsageError(f"{log}: not a frame log: {error}") from None
    return 0


def _evidence(run: Path, kind: str, what: int | str) -> str:
    """One piece of evidence that is no frame, as indented JSON."""
    from runner.study.references import file_entry, member, model_entry
    from runner.text.visible import json_text

    if not run.is_dir():
        log_of(run)
    readers: dict[str, Callable[[Path, Any], Any]] = {"model": model_entry, "file": file_entry, "record": member}
    value = readers[kind](run, what)
    return json_text(json.dumps(value, indent=2, ensure_ascii=False))


def _with_model(run: Path, width: int) -> Iterator[str]:
    from runner.gateway.journal import LoggedEntries
    from runner.records.store import record_of, spawn_of
    from runner.report.timeline import render_with_model
    from runner.wire.log import read_frames

    journal = run / _JOURNAL
    if not is_there(journal):
        raise UsageError(f"{run}: has no {_JOURNAL}: no request to the model was kept of it")
    record = record_of(run)
    try:
        entries = [entry.without_bodies() for entry in LoggedEntries(journal)]
    except InfraError as error:
        raise UsageError(f"{journal}: {error}") from None
    offset = record.clock_offset_ns if record is not None else 0
    yield from render_with_model(list(read_frames(run / _LOG)), entries, spawn_of(run), width, offset)
    times = {name: record.sampled.get(name) for name in _TIMES} if record is not None else {}
    err(", ".join(f"{name} {'-' if value is None else f'{value:.1f}'}" for name, value in times.items()))


def log_of(run: Path) -> Path:
    """The frame log of an attempt. Raises UsageError with the nearest name where it is not one."""
    log = run / _LOG
    if is_there(log):
        return log
    if not run.exists():
        names = sorted(entry.name for entry in run.parent.iterdir()) if run.parent.is_dir() else []
        raise UsageError(f"{run}: no such folder{suggest(run.name, names) if names else ''}")
    attempts = sorted(
        int(path.parent.name)
        for path in run.glob(f"*/{_LOG}")
        if path.parent.name.isascii() and path.parent.name.isdigit()
    )
    if attempts:
        raise UsageError(f"{run}: is a cell; name one of its attempts, for example {run / str(attempts[-1])}")
    raise UsageError(f"{run}: not an attempt's folder: it has no {_LOG}")
