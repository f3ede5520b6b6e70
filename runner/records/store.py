"""A sweep's directory: what stands in it, and how it is written so that nothing half-written is ever read as whole.

    sweep.yaml  lock.json  plan.jsonl  runs/<cell>/<attempt>/{record.json, ...}  report.json  .owner

Files appear whole: written aside, flushed to the disk, renamed, the folder flushed. `plan.jsonl` comes last of the
sweep's own files and `record.json` last of an attempt's: a directory without the first is no sweep, an attempt without
the second is unfinished. Attempts are numbered from 1 and never used again. One process writes (`flock` on `.owner`,
which the kernel drops however the process ends); any number may read.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import ValidationError

from runner.config import plan
from runner.config.base import on_disk
from runner.config.nearest import quoted, suggest
from runner.config.plan import Cell
from runner.errors import UsageError
from runner.records.disk import (
    disk_error,
    disk_errors,
    flush,
    full_disk,
    json_bytes,
    name_bytes,
    write_pieces_whole,
    write_whole,
)
from runner.records.lock import check_lock
from runner.records.schema import SCHEMA_VERSION, Record
from runner.text.encoding import repaired, written_out
from runner.text.files import check_folder, is_there, read_regular, unreadable

_OWNER = ".owner"
_RECORD = "record.json"
_PLAN = "plan.jsonl"
#: What the package registries said of our pins before the first run, in a sweep's folder.
NAMES_FILE = "adapters-check.json"
#: NAME_MAX of Linux file systems, bytes.
_NAME_MAX = 255
#: What a record says of its cell again, in ids.
_IDS = ("arm", "adapter", "surface", "fixture", "policy", "model", "reset")
#: Largest figure of a record: of what is larger no mean, ratio or column can be made.
_LARGEST = 2**63 - 1
#: What an attempt's folder is called.
_NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


#: Told why a record is left out.
LeftOut = Callable[[UsageError], None]


def default_directory(results: Path, sweep: str) -> Path:
    """`<results>/<sweep>-<UTC yyyymmddThhmmssZ>-<4 random hex digits>`."""
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    return results / f"{on_disk(sweep)}-{now}-{secrets.token_hex(2)}"


class AttemptDir:
    """One attempt's folder while it is being written. All writers raise InfraError where the disk refuses."""

    def __init__(self, path: Path, cell: str, number: int) -> None:
        self.path = path
        self.cell = cell
        #: From 1.
        self.number = number

    def write_bytes(self, name: str, data: bytes) -> Path:
        """Write a file of the attempt, whole or not at all; its path."""
        if name == _RECORD:
            raise ValueError(f"{_RECORD} is written by commit alone")
        return write_whole(self.path / name, data)

    def write_json(self, name: str, value: Any) -> Path:
        """Write a value as JSON, indented; text that is no Unicode is written out (`runner.text.encoding`)."""
        return self.write_bytes(name, json_bytes(written_out(value)))

    def write_lines(self, name: str, lines: Iterable[str | bytes]) -> Path:
        """Write lines, each given without its newline."""
        encoded = (name_bytes(line) if isinstance(line, str) else line for line in lines)
        return self.write_bytes(name, b"".join(line + b"\n" for line in encoded))

    def write_pieces(self, name: str, pieces: Iterable[bytes]) -> Path:
        """Write a file of the attempt as its bytes come, whole or not at all; its path. Raises what `pieces` raises."""
        if name == _RECORD:
            raise ValueError(f"{_RECORD} is written by commit alone")
        return write_pieces_whole(self.path / name, pieces)

    def commit(self, record: Record) -> Path:
        """Write record.json: from now on the attempt counts. Files written by others (frames.jsonl, ...) are flushed
        to the disk first. Raises ValueError for a record of another attempt or a second commit.

        `record` is written out already (`Record.written_out`).
        """
        if (record.cell, record.attempt) != (self.cell, self.number):
            raise ValueError(f"record of {record.cell}/{record.attempt} in {self.path}")
        if (self.path / _RECORD).exists():
            raise ValueError(f"{self.path / _RECORD} is committed already")
        with disk_errors(self.path):
            for path in self.path.rglob("*"):
                flush(path)
        return write_whole(self.path / _RECORD, json_bytes(record.model_dump()))


class SweepDir:
    """A sweep's directory, opened by `create`, `resume` (both to write, until `close`) or `read`."""

    def __init__(self, path: Path, cells: Sequence[Cell], owner: int | None = None) -> None:
        self.path = path
        #: The plan, in order.
        self.cells = tuple(cells)
        self._owner = owner

    @classmethod
    def create(cls, path: Path, sweep_yaml: bytes, lock: Mapping[str, Any], cells: Sequence[Cell]) -> SweepDir:
        """Start a new directory. `path` may exist if it is empty.

        Raises UsageError if there is something in it, if another process writes it, or if it cannot be made;
        InfraError where the disk refuses.
        """
        if len(os.fsencode(path.name)) > _NAME_MAX:
            raise UsageError(f"{path.name[:40]}...: a name of more than {_NAME_MAX} bytes")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise UsageError(f"{path}: is a file, not a folder") from None
        except OSError as error:
            raise full_disk(error, path) or UsageError(f"{path}: cannot be made: {error.strerror}") from None
        _check_empty(path)
        owner = _own(path)
        try:
            _check_empty(path)  # again, now that nobody else can be creating it
            with _all_or_nothing(path):
                write_whole(path / "sweep.yaml", sweep_yaml)
                write_whole(path / "lock.json", json_bytes(lock))
                with disk_errors(path):
                    (path / "runs").mkdir()
                write_whole(path / _PLAN, plan.dump(cells))
        except BaseException:
            os.close(owner)
            raise
        return cls(path, cells, owner)

    @classmethod
    def resume(cls, path: Path) -> SweepDir:
        """Open a directory to go on writing. Raises UsageError if it is no sweep's or another process writes it."""
        cells = cls.read(path).cells
        return cls(path, cells, _own(path))

    @classmethod
    def read(cls, path: Path) -> SweepDir:
        """Open a directory to read. Raises UsageError, with the nearest name, if it is no sweep's."""
        if not path.is_dir():
            problem = "is a file, not a folder" if path.exists() else "no such folder" + _near(path)
            raise UsageError(f"{path}: {problem}")
        data = _read(path / _PLAN, missing=f"{path}: not a sweep's folder: it has no {_PLAN}")
        cells = plan.load(data, path / _PLAN)
        if not cells:
            raise UsageError(f"{path / _PLAN}: holds no cell; a sweep has at least one")
        return cls(path, cells)

    @property
    def sweep_yaml(self) -> bytes:
        """The sweep's configuration as given."""
        return _read(self.path / "sweep.yaml")

    @property
    def lock(self) -> dict[str, Any]:
        """lock.json. Raises UsageError if it cannot be read, or is none of this version's."""
        path = self.path / "lock.json"
        return check_lock(repaired(_read_json(path)), path)

    def write_json(self, name: str, value: Any) -> Path:
        """Write a file of the sweep's own (`lock.json`, `report.json`)."""
        return write_whole(self.path / name, json_bytes(value))

    def write_text(self, name: str, text: str) -> Path:
        """Write a report beside the sweep's own files."""
        return write_whole(self.path / name, text.encode("utf-8", "backslashreplace"))

    def attempt(self, cell: Cell) -> AttemptDir:
        """A new folder for the next attempt at a cell. Raises InfraError where the disk refuses."""
        folder = self.path / "runs" / cell.name
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            number = max(_numbers(folder), default=0) + 1
            while True:
                with contextlib.suppress(FileExistsError):
                    (folder / str(number)).mkdir()
                    break
                number += 1
            flush(folder)
            flush(folder.parent)
        return AttemptDir(folder / str(number), cell.name, number)

    def records(self, left_out: LeftOut | None = None) -> Iterator[Record]:
        """Every committed record, in the plan's order, attempts ascending.

        left_out: told of each record that cannot be read, which is then left out. None: UsageError names the first.
        """
        for _, path in self._attempts():
            if not is_there(path / _RECORD):
                continue
            try:
                record = _record(path)
            except UsageError as problem:
                if left_out is None:
                    raise
                left_out(problem)
                continue
            yield record

    def latest(self, left_out: LeftOut | None = None) -> dict[str, Record]:
        """Cell name -> the record of its last committed attempt; cells without one are not in it. `left_out`: as
        for `records`."""
        return {record.cell: record for record in self.records(left_out)}

    def unfinished(self) -> list[Path]:
        """Folders of attempts without a record: cut short, or still running."""
        return [path for _, path in self._attempts() if not is_there(path / _RECORD)]

    def _attempts(self) -> Iterator[tuple[Cell, Path]]:
        """No folder on the way is a link: a sweep's records stand in its own folder."""
        check_folder(self.path / "runs")
        for cell in self.cells:
            folder = self.path / "runs" / cell.name
            for number in sorted(_numbers(folder)) if check_folder(folder) else ():
                check_folder(folder / str(number))
                yield cell, folder / str(number)

    def close(self) -> None:
        """Let another process write. Closing twice does nothing."""
        if self._owner is not None:
            os.close(self._owner)
            self._owner = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def record_of(attempt: Path) -> Record | None:
    """The record of an attempt; None where it was never committed."""
    return _record(attempt) if is_there(attempt / _RECORD) else None


def spawn_of(attempt: Path) -> int | None:
    """When the agent of a committed attempt was started, CLOCK_MONOTONIC ns; None where nobody knows."""
    record = record_of(attempt)
    return None if record is None or record.agent is None else record.agent.spawn_ns


def _check_empty(path: Path) -> None:
    try:
        names = {entry.name for entry in path.iterdir()}
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    if names - {_OWNER}:
        raise UsageError(f"{path}: is not empty; give a new folder, or --resume to go on with what is there")


@contextlib.contextmanager
def _all_or_nothing(path: Path) -> Iterator[None]:
    """Where a folder cannot be filled, it is empty again: without a plan nobody could go on with it, nor begin anew."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            (path / "runs").rmdir()
        for name in (_PLAN, "lock.json", "sweep.yaml"):
            (path / name).unlink(missing_ok=True)
        raise


def _own(path: Path) -> int:
    """Take the writer's lock; the file descriptor holds it."""
    file = path / _OWNER
    try:
        # Neither a pipe is waited for nor a link followed: what it leads to would be emptied.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        owner = os.open(file, flags, 0o644)
    except OSError as error:
        raise full_disk(error, file) or UsageError(f"{file}: cannot be written: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(owner).st_mode):
        os.close(owner)
        raise UsageError(f"{file}: is no file; remove it")
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(owner, 0)
        os.pwrite(owner, f"{os.getpid()}\n".encode(), 0)
    except BlockingIOError:
        pid = os.pread(owner, 32, 0).decode("ascii", "replace").strip()
        os.close(owner)
        raise UsageError(f"{path}: another acpbench (process {pid or 'unknown'}) is writing it") from None
    except OSError as error:
        os.close(owner)
        raise disk_error(error, file) from None
    return owner


def _numbers(folder: Path) -> list[int]:
    """Numbers of the attempts in a cell's folder, in no order."""
    try:
        return [int(name) for name in (entry.name for entry in folder.iterdir()) if _NUMBER.fullmatch(name)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable(folder, error) from None


def _record(attempt: Path) -> Record:
    path = attempt / _RECORD
    value = repaired(_read_json(path))
    version = value.get("schema_version")
    if type(version) is not int or version != SCHEMA_VERSION:
        message = f"has schema version {quoted(version)}; this acpbench reads {SCHEMA_VERSION}"
        raise UsageError(f"{path}: {message}: use the acpbench that wrote it")
    try:
        record = Record.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"{path}: not a record: {where}: {first['msg']}") from None
    for name in _IDS:
        if not plan.WORD.fullmatch(getattr(record, name)):
            raise UsageError(f"{path}: not a record: no {name} is called {quoted(getattr(record, name))}")
    for name, figure in [*record.exact.items(), *record.sampled.items()]:
        if not _is_figure(figure):
            raise UsageError(f"{path}: not a record: {quoted(name)} is no figure: {quoted(figure)}")
    # A path as given may end in `..` or be relative to the attempt itself.
    there = attempt.absolute() if attempt.name and attempt.parent.name else attempt.resolve()
    shown = f"{record.cell}/{record.attempt}"
    if shown != f"{there.parent.name}/{there.name}":
        raise UsageError(f"{path}: is the record of another attempt ({shown[:220]})")
    return record


def _is_figure(value: Any) -> bool:
    """What metrics are: nothing, a truth, a text, or a number that can be counted with."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return abs(value) <= _LARGEST
    return value is None or isinstance(value, bool | str)


def _read(path: Path, missing: str | None = None) -> bytes:
    try:
        return read_regular(path)
    except FileNotFoundError:
        raise UsageError(missing or f"{path}: no such file") from None
    except OSError as error:
        raise unreadable(path, error) from None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError(f"{path}: not a JSON object")
    return value


def _near(path: Path) -> str:
    try:
        names = sorted(entry.name for entry in path.absolute().parent.iterdir() if (entry / _PLAN).is_file())
    except OSError:
        return ""
    return suggest(path.name, names) if names else ""
