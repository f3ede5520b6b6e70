"""A sweep's runs as the rules see them: record, frames, model journal, program and file system, read when asked for.

Rules choose runs by what is in them (what initialize declared, how asks were answered, the labels of the program, the
canaries planted), never by a name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from runner.acp.toolcalls import ToolCall
from runner.config.outcome import OFF_SCRIPT
from runner.errors import InfraError, UsageError
from runner.evidence.conversation import Conversation
from runner.evidence.handshake import Handshake, handshake
from runner.evidence.messages import Exchange
from runner.evidence.permissions import Ask, asks
from runner.evidence.results import tool_results
from runner.gateway.journal import JournalEntry, LoggedEntries
from runner.records.schema import Record
from runner.records.store import NAMES_FILE, SweepDir
from runner.study.model import Reference
from runner.study.shapes import Answers, FsDiff, ProgramShape, checked
from runner.text.encoding import repaired
from runner.text.files import is_there, read_regular, unreadable
from runner.wire.log import read_frames
from runner.wire.values import as_list, as_object, as_text


@dataclass(frozen=True)
class Journal:
    """A run's journal without the bodies: what they showed is taken out once."""

    entries: tuple[JournalEntry, ...]
    #: Call id -> (seq of the first request that carried its result, the result as JSON text).
    results: Mapping[str, tuple[int, str]]
    #: Canary name -> seq of the first request whose body holds it.
    canaries: Mapping[str, int]


class LoadedRun:
    """One measured run. `name` is the path of its attempt, relative to the sweep's folder."""

    def __init__(self, folder: Path, name: str, record: Record) -> None:
        self.folder = folder
        self.name = name
        self.record = record

    # files

    @cached_property
    def conversation(self) -> Conversation:
        """Empty for a run that left no frame log."""
        path = self.folder / "frames.jsonl"
        try:
            return Conversation.of(read_frames(path), as_kept=True) if is_there(path) else Conversation()
        except OSError as error:
            raise unreadable(path, error) from None
        except ValueError as error:
            raise UsageError(f"{path}: not a frame log: {error}") from None

    @property
    def altered(self) -> str | None:
        """How the logs differ from what their record counted: torn, cut or edited since. None: they do not."""
        exact, entries = self.record.exact, len(self.journal.entries)
        told = []
        if (frames := exact.get("frames")) is not None and frames != len(self.conversation):
            told.append(f"{len(self.conversation)} frames, its record counted {frames}")
        if (requests := (exact.get("model_requests") or 0) + (exact.get("side_requests") or 0)) > entries:
            told.append(f"{entries} requests to the model, its record counted {requests}")
        return "; ".join(told) or None

    @cached_property
    def journal(self) -> Journal:
        path = self.folder / "model.jsonl"
        try:
            return self._read_journal(path)
        except OSError as error:
            raise unreadable(path, error) from None
        except InfraError as error:
            raise UsageError(f"{path}: {error}") from None

    def _read_journal(self, path: Path) -> Journal:
        results: dict[str, tuple[int, str]] = {}
        canaries: dict[str, int] = {}
        bare: list[JournalEntry] = []
        for entry in LoggedEntries(path) if is_there(path) else ():
            body = entry.request.text
            for identity, result in tool_results(body).items():
                results.setdefault(identity, (entry.seq, result))
            for name, canary in self.record.canaries.items():
                # Of a body that was not kept the gateway says so itself.
                if canary in body or name in entry.canaries:
                    canaries.setdefault(name, entry.seq)
            bare.append(entry.without_bodies())
        return Journal(tuple(bare), results, canaries)

    @cached_property
    def program(self) -> dict[str, Any]:
        """What the model was scripted to say; {} for a run without a script."""
        path = self.folder / "program.json"
        return checked(ProgramShape, read_json(path), path) if is_there(path) else {}

    @cached_property
    def outside(self) -> dict[str, dict[str, Any]]:
        """Path -> what fsdiff.json says of a file outside the workspace after the run."""
        listed = as_list(self._fsdiff.get("outside"))
        return {path: item for item in map(as_object, listed) if (path := as_text(item.get("path"))) is not None}

    @cached_property
    def git_changes(self) -> frozenset[str]:
        """Files of the repository's own that are not as they were, below `.git/`."""
        return frozenset(filter(None, map(as_text, as_list(self._fsdiff.get("git_changes")))))

    @cached_property
    def _fsdiff(self) -> dict[str, Any]:
        path = self.folder / "fsdiff.json"
        return checked(FsDiff, read_json(path), path) if is_there(path) else {}

    # what the frames say

    @property
    def acp(self) -> bool:
        return self._initialize is not None

    @cached_property
    def _initialize(self) -> Exchange | None:
        return self.conversation.first("client", "initialize")

    @property
    def initialize_seq(self) -> int | None:
        return self._initialize.request.seq if self._initialize is not None else None

    @cached_property
    def declared(self) -> dict[str, Any]:
        """clientCapabilities as they were sent."""
        return as_object(self._initialize.request.payload.get("clientCapabilities")) if self._initialize else {}

    @cached_property
    def handshake(self) -> Handshake:
        return handshake(self.conversation)

    @cached_property
    def session_new(self) -> dict[str, Any]:
        """The params of session/new."""
        found = self.conversation.requests("client", "session/new")
        return found[0].request.payload if found else {}

    @property
    def cwd(self) -> str:
        return as_text(self.session_new.get("cwd")) or f"/workspace/{self.record.fixture}"

    @property
    def home(self) -> str:
        return self.record.agent_env.get("HOME", "/home/agent")

    @cached_property
    def additional(self) -> tuple[str, ...]:
        return tuple(path for path in as_list(self.session_new.get("additionalDirectories")) if isinstance(path, str))

    @cached_property
    def mode(self) -> str | None:
        """The mode the prompt ran in: the last one set before it, else the session's own."""
        sets = [
            as_text(exchange.request.payload.get("modeId"))
            for exchange in self.conversation.requests("client", "session/set_mode")
            if exchange.result is not None and (self.prompt_seq is None or exchange.request.seq < self.prompt_seq)
        ]
        return sets[-1] if sets else self.handshake.default_mode

    @cached_property
    def prompt_seq(self) -> int | None:
        prompts = self.conversation.requests("client", "session/prompt")
        return prompts[0].request.seq if prompts else None

    @cached_property
    def asks(self) -> list[Ask]:
        return asks(self.conversation)

    @cached_property
    def answers(self) -> frozenset[str]:
        """Every way in which an ask of this run was answered."""
        return frozenset(map(self.answer_of, self.asks))

    def answer_of(self, ask: Ask) -> str:
        """How an ask was answered; `never` where nobody did, or only session/cancel, which owes `cancelled` to all."""
        if ask.answer is None or ask.answered_seq is None:
            return "never"
        swept = ask.answer == "cancelled" and self._cancel_seq is not None and self._cancel_seq < ask.answered_seq
        return "never" if swept else ask.answer

    @cached_property
    def _cancel_seq(self) -> int | None:
        return next((cancel.seq for cancel in self.conversation.cancels), None)

    @cached_property
    def read_through_client(self) -> frozenset[str]:
        """Paths that the agent asked the client's fs/read_text_file for."""
        calls = self.conversation.requests("agent", "fs/read_text_file")
        return frozenset(path for call in calls if (path := as_text(call.request.payload.get("path"))) is not None)

    @cached_property
    def tool_calls(self) -> dict[str, ToolCall]:
        return self.conversation.tool_calls

    @cached_property
    def labels(self) -> frozenset[str]:
        """Labels of the program's steps."""
        return frozenset(label for step in _steps(self.program) if (label := as_text(step.get("label"))) is not None)

    @property
    def plain(self) -> bool:
        """A session as any editor opens it: no MCP server, further directory, open document; not pre-authorised."""
        record = self.record
        return not (
            self.additional
            or as_list(self.session_new.get("mcpServers"))
            or record.buffers
            or record.probes
            or record.pristine is False
            or record.reset != "container"
        )

    # references

    def frame(self, seq: int, shows: str, what: str = "") -> Reference:
        return Reference(run=self.name, kind="frame", seq=seq, shows=shows, what=what)

    def model(self, seq: int, shows: str, what: str = "") -> Reference:
        return Reference(run=self.name, kind="model", seq=seq, shows=shows, what=what)

    def file(self, path: str, digest: str | None, shows: str, what: str = "") -> Reference:
        return Reference(run=self.name, kind="file", path=path, hash=digest, shows=shows, what=what)

    def member(self, path: str, shows: str, what: str = "") -> Reference:
        """A member of record.json, by its dotted path."""
        return Reference(run=self.name, kind="record", path=path, shows=shows, what=what)


def _steps(program: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = [as_object(step) for step in as_list(program.get("steps"))]
    for agent in as_list(program.get("subagents")):
        found += [as_object(step) for step in as_list(as_object(agent).get("steps"))]
    return found


@dataclass(frozen=True)
class Study:
    """The measured runs of one adapter in one sweep."""

    adapter: str
    runs: tuple[LoadedRun, ...]
    #: What the package registries said of the pins; None where nobody asked.
    names: dict[str, Any] | None = None

    @property
    def acp(self) -> list[LoadedRun]:
        return [run for run in self.runs if run.acp]


@dataclass(frozen=True)
class LoadedStudies:
    sweep: str
    studies: tuple[Study, ...]
    #: Path of an attempt (or name of a cell) -> why it is in no figure.
    excluded: dict[str, str] = field(default_factory=dict)
    #: Adapter -> why some of the sweep's runs were not in its plan.
    left_out: dict[str, list[str]] = field(default_factory=dict)


def load(directory: Path) -> LoadedStudies:
    """The runs of a sweep's folder, by adapter in the plan's order; the last attempt at a cell counts.

    Warm-ups are left out, and so are runs that say nothing about their agent. Raises UsageError for what cannot be
    read.
    """
    sweep = SweepDir.read(directory)
    latest = sweep.latest()
    excluded: dict[str, str] = {}
    by_adapter: dict[str, list[LoadedRun]] = {}
    for cell in sweep.cells:
        if cell.warmup:
            continue
        record = latest.get(cell.name)
        if record is None:
            excluded[cell.name] = "never ran"
            continue
        name = f"runs/{cell.name}/{record.attempt}"
        if record.outcome in OFF_SCRIPT:
            excluded[name] = f"{record.outcome}: {record.reason}" if record.reason else record.outcome
            continue
        if bodies := record.cut.get("model_bodies"):
            # "It never reached the model" cannot be said of what was not kept.
            excluded[name] = f"{bodies} bodies of its requests to the model were not kept (knob model_cap_mb)"
            continue
        by_adapter.setdefault(record.adapter, []).append(LoadedRun(directory / name, name, record))
    names = _names(directory)
    return LoadedStudies(
        sweep=str(sweep.lock.get("sweep", directory.name)),
        studies=tuple(Study(adapter, tuple(runs), names) for adapter, runs in by_adapter.items()),
        excluded=excluded,
        left_out={
            adapter: [why for why in map(as_text, as_list(reasons)) if why is not None]
            for adapter, reasons in as_object(sweep.lock.get("left_out")).items()
        },
    )


def _names(directory: Path) -> dict[str, Any] | None:
    path = directory / NAMES_FILE
    return checked(Answers, read_json(path), path) if is_there(path) else None


def read_json(path: Path) -> Any:
    """A file of JSON. Raises UsageError where it is torn, or cannot be read."""
    try:
        return repaired(json.loads(read_regular(path)))
    except OSError as error:
        raise unreadable(path, error) from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON: {error}") from None


def groups(runs: Iterable[LoadedRun], key: Any) -> dict[Any, list[LoadedRun]]:
    """Runs by `key(run)`, in order of appearance."""
    found: dict[Any, list[LoadedRun]] = {}
    for run in runs:
        found.setdefault(key(run), []).append(run)
    return found
