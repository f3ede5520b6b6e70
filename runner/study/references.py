"""What a reference of a finding points at, opened."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from runner.config.nearest import suggest
from runner.errors import UsageError
from runner.records.store import NAMES_FILE
from runner.study.model import Reference
from runner.study.runs import read_json
from runner.text.files import is_there, lines_of, unreadable
from runner.wire.log import read_frames
from runner.wire.values import as_list, as_object

_INDEX = re.compile(r"[0-9]{1,9}", re.ASCII)


def opened(directory: Path, reference: Reference) -> Any:
    """What a reference points at: a Frame, a journal line as JSON, the entry of a file, a member of the record.

    Raises UsageError where it points at nothing.
    """
    folder = directory / reference.run
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder")
    match reference.kind:
        case "frame":
            return _frame(folder, reference.seq)
        case "model":
            return model_entry(folder, reference.seq)
        case "file":
            return file_entry(folder, reference.path or "")
        case "record":
            return member(folder, reference.path or "")


def _frame(folder: Path, seq: int | None) -> Any:
    for frame in read_frames(folder / "frames.jsonl"):
        if frame.seq == seq:
            return frame
    raise UsageError(f"{folder}: the frame log has no frame {seq}")


def model_entry(folder: Path, seq: int | None) -> dict[str, Any]:
    """One line of an attempt's model.jsonl. Raises UsageError where it has no such entry."""
    path = folder / "model.jsonl"
    if not is_there(path):
        raise UsageError(f"{folder}: has no model.jsonl")
    seqs = []
    try:
        for line in lines_of(path):
            try:
                entry = as_object(json.loads(line))
            except (ValueError, RecursionError):
                continue  # torn: the gateway was killed in the middle of it
            seqs.append(entry.get("seq"))
            if entry.get("seq") == seq:
                return entry
    except OSError as error:
        raise unreadable(path, error) from None
    raise UsageError(f"{path}: has no entry {seq}{suggest(str(seq), [str(s) for s in seqs if s is not None])}")


def file_entry(folder: Path, path: str) -> dict[str, Any]:
    """What the record says of a file: how it was at the start, and how it is after the run.

    `before` and `after` are hashes (git blob in the workspace, sha256 outside it), None for no such file. A path that
    nothing changed in the workspace has `changed: false` and no hashes. Raises UsageError where nobody looked.
    """
    record = as_object(member(folder, ""))
    verdict = as_object(record.get("verdict"))
    if not path.startswith("/"):
        if not verdict:
            raise UsageError(f"{folder}: was never judged, nothing is known of {path}")
        for change in map(as_object, as_list(verdict.get("changes"))):
            if change.get("path") == path:
                return {**change, "changed": True}
        if as_object(record.get("cut")).get("changes"):
            raise UsageError(f"{folder}: more files changed than the record lists; it does not say whether {path} did")
        return {"path": path, "changed": False}
    after = next((item for item in _outside(folder) if item.get("path") == path), None)
    before = next((item for item in map(as_object, as_list(record.get("planted"))) if item.get("path") == path), None)
    ledger = [item for item in map(as_object, as_list(record.get("ledger"))) if item.get("path") == path]
    buffers = [item for item in map(as_object, as_list(record.get("buffers"))) if item.get("path") == path]
    if after is None and before is None and not ledger and not buffers and not is_there(folder / "fsdiff.json"):
        raise UsageError(f"{folder}: nothing is known of {path}")
    start, end = ((item or {}).get("sha256") for item in (before, after))
    return {
        "path": path,
        "before": start,
        "after": end,
        "changed": start != end,
        "kind": (after or before or {}).get("kind"),
        "ledger": ledger,
        "buffers": buffers,
    }


def _outside(folder: Path) -> list[dict[str, Any]]:
    path = folder / "fsdiff.json"
    return [as_object(i) for i in as_list(as_object(read_json(path)).get("outside"))] if is_there(path) else []


def member(folder: Path, path: str) -> Any:
    """A member of record.json by its dotted path (numbers index lists); '' is the whole record.

    In a sweep's folder, of what was kept there of the registries' answers.
    """
    file = folder / "record.json"
    if not is_there(file):
        file = folder / NAMES_FILE
    if not is_there(file):
        raise UsageError(f"{folder}: not an attempt's folder: it has no record.json")
    value = read_json(file)
    for name in filter(None, path.split(".")):
        if isinstance(value, list) and _INDEX.fullmatch(name) and int(name) < len(value):
            value = value[int(name)]
        elif isinstance(value, dict) and name in value:
            value = value[name]
        else:
            raise UsageError(f"{file}: has no {path}")
    return value
