"""What the gateway is told to serve a run, whatever its model is; and what its ledger says went wrong afterwards."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from runner.config.adapter import Adapter
from runner.config.loaded_sweep import LoadedSweep
from runner.config.normaliser import BuiltinNormaliser, Normaliser
from runner.config.plan import Cell
from runner.errors import ConfigError, InfraError, RunError, UsageError
from runner.gateway.cassette import read_tape, replay_problems
from runner.gateway.compile import compile_program
from runner.gateway.journal import JournalEntry, script_problems
from runner.records.outcome import Aborted


def program_for(loaded: LoadedSweep, cell: Cell, workspace: str) -> dict[str, Any]:
    """The program of a run: a script compiled for its adapter, or one of the modes `capture`, `live`, `replay`.

    :raises UsageError: see `compile_program`; ConfigError: the tape is not one.
    """
    adapter = loaded.adapters[cell.adapter]
    mode = cell.model.partition("/")[0]
    if mode == "scripted":
        return compile_program(loaded.script(cell.model), adapter, workspace)
    head: dict[str, Any] = {"mode": mode, "dialect": adapter.dialect, "side_requests": _rules(adapter)}
    if mode != "replay":
        upstream = loaded.upstreams[cell.model]
        return {**head, "upstream": upstream.id, "normalisers": normalisers(upstream.normalisers, adapter)}
    cassette = loaded.cassettes[cell.model]
    found = cassette.tape(cell.adapter, cell.surface, cell.fixture, cell.policy)
    folder = loaded.cassette_folder(cassette.id)
    if found is None:
        raise ConfigError(folder / "cassette.yaml", None, f"no tape for {cell.arm}")
    return {
        **head,
        "version": cassette.normaliser_version,
        "normalisers": normalisers(cassette.normalisers, adapter),
        "tape": read_tape(folder / found.file),
        "timing": loaded.knobs(cell.matrix).replay_timing,
    }


def check_programs(loaded: LoadedSweep, cells: Iterable[Cell]) -> None:
    """Raise ConfigError at its arm where a script cannot be said in an adapter's tools, before anything is started."""
    for matrix, name, model in sorted({(cell.matrix, cell.adapter, cell.model) for cell in cells}):
        script = loaded.scripts.get(model)
        if script is None:
            continue
        try:
            compile_program(script, loaded.adapters[name], "/workspace")
        except UsageError as problem:
            raise ConfigError(loaded.path, loaded.arm_lines[matrix], str(problem)) from None


def _rules(adapter: Adapter) -> list[dict[str, Any]]:
    return [rule.model_dump(mode="json") for rule in adapter.side_requests]


def normalisers(declared: list[BuiltinNormaliser | Normaliser], adapter: Adapter) -> list[Any]:
    """Normalisers, then those of the adapter, as JSON data with the keys a user writes."""
    return [
        normaliser if isinstance(normaliser, str) else normaliser.model_dump(by_alias=True)
        for normaliser in [*declared, *adapter.normalisers]
    ]


def model_problems(
    entries: Collection[JournalEntry], program: dict[str, Any], *, stopped: str | None = None
) -> list[str]:
    """One line for each way in which the run and its model did not fit; a live model fits whatever it is asked."""
    mode = program.get("mode", "scripted")
    if mode == "scripted":
        return script_problems(entries, program, stopped=stopped)
    return replay_problems(entries, program["tape"], stopped=stopped) if mode == "replay" else []


def model_failures(entries: Collection[JournalEntry]) -> list[RunError]:
    """Why a live model did not answer, which is nobody's fault whom this measures: out of reach, or too dear.

    An error of its own (a status, an answer cut short) is for the agent to get over; the run fails where it was the
    last thing that the model said.
    """
    refused = [entry.reason or "" for entry in entries if entry.kind == "refused"]
    lost = [reason for reason in refused if reason.startswith("upstream ")]
    last = next((entry.reason for entry in reversed(list(entries)) if entry.kind == "main"), None)
    if last is not None and last.startswith("upstream "):
        lost.append(last)
    spent = [reason for reason in refused if reason.startswith("budget ")]
    return [
        *(InfraError(f"model gateway: {reason}") for reason in lost[:1]),
        *(Aborted(reason) for reason in spent[:1]),
    ]
