"""A sweep's configuration -> its cells in the order they run. Pure: no clock, no file, no chance but the seed's."""

from __future__ import annotations

import fnmatch
import itertools
import json
import random
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runner.config.base import MAX_COUNT, on_disk
from runner.config.loaded_sweep import LoadedSweep, policy_id
from runner.config.loader import raise_all
from runner.config.nearest import quoted, suggest
from runner.errors import ConfigError, UsageError

#: Longest name of a cell, bytes: it is a folder's name (NAME_MAX is 255) with room for what is put before and after it.
MAX_NAME = 200
#: What `on_disk` leaves of ids.
_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
#: What names in a plan are made of: ids, and `<kind>/<name>` of a model.
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@/-]{0,999}", re.ASCII)
#: The reset that gives each run a container of its own; every other one keeps an arm's.
FRESH = "container"
TWIN = "--twin"
#: The ids that make an arm, in the order of its name.
_ID_KEYS = ("adapter", "surface", "fixture", "policy", "model", "reset")


class Cell(BaseModel):
    """One planned run. `name` = `<arm>--r<replicate>`, or `<arm>--w<n>` for a warm-up."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: Position in the sweep, from 1.
    order: int = Field(ge=0, le=MAX_COUNT)
    #: From 1; 0 for warm-ups. A block holds every arm (that still has replicates left) once; an arm that keeps its
    #: container stands whole in block 1.
    block: int = Field(ge=0, le=MAX_COUNT)
    name: str
    arm: str
    #: From 1, per arm (warm-ups are counted on their own).
    replicate: int = Field(ge=0, le=MAX_COUNT)
    warmup: bool
    #: Folder under images/ of the adapter's image.
    image: str
    adapter: str
    surface: str
    fixture: str
    policy: str
    model: str
    reset: str
    expect: str
    #: Entry of the sweep's `arms` (from 0) that it comes from: its knobs are there.
    matrix: int = Field(default=0, ge=0, le=MAX_COUNT)
    #: Of an arm that repeats another one (A/A); its name ends in `--twin`.
    twin: bool = False


@dataclass(frozen=True)
class _Arm:
    """A cell without its replicate. `ids`: the cell's fields that come from it."""

    name: str
    image: str
    repeat: int
    ids: dict[str, Any]

    @property
    def kept(self) -> bool:
        return bool(self.ids["reset"] != FRESH)

    def cell(self, number: int, *, block: int, warmup: bool) -> Cell:
        name = f"{self.name}--{'w' if warmup else 'r'}{number}"
        return Cell(
            order=0,
            block=block,
            name=name,
            arm=self.name,
            replicate=number,
            warmup=warmup,
            image=self.image,
            **self.ids,
        )


def plan(
    loaded: LoadedSweep, *, repeat: int | None = None, only: str | None = None, names: Collection[str] | None = None
) -> list[Cell]:
    """All cells of a sweep in order.

    Warm-ups come first: per image `warmup` many, on that image's first arm. Then the blocks: block b holds every arm
    of at least b replicates once, shuffled by `random.Random(f"{seed}/{b}")`, so that drift is common to the arms.
    Replicates of an arm that keeps its container follow one another, in block 1: each starts where the last one ended.

    repeat: replicates of every arm, in place of the configuration's.
    only: a glob over cell and arm names; the order of what stays is that of the whole plan, the warm-ups are those of
    the images that are left.
    names: of the arms to plan; None: all.

    Raises ConfigError for an arm planned twice or a name too long, UsageError where `only` fits nothing.
    """
    arms = [arm for arm in _arms(loaded, repeat) if names is None or arm.name in names]
    measured: list[Cell] = []
    for block in range(1, max(arm.repeat for arm in arms) + 1):
        due = [arm for arm in arms if arm.repeat >= block and (block == 1 or not arm.kept)]
        random.Random(f"{loaded.sweep.seed}/{block}").shuffle(due)  # noqa: S311 - order, not secrecy
        for arm in due:
            numbers = range(1, arm.repeat + 1) if arm.kept else (block,)
            measured.extend(arm.cell(number, block=block, warmup=False) for number in numbers)
    if only is None:
        cells = _warmups(arms, loaded.sweep.warmup) + measured
    else:
        cells = _select(arms, measured, loaded.sweep.warmup, only)
    return [cell.model_copy(update={"order": order}) for order, cell in enumerate(cells, start=1)]


def check_planned(loaded: LoadedSweep, cells: Iterable[Cell], path: Path) -> None:
    """Raise UsageError where a plan that was read from `path` has a cell that the configuration knows nothing of: a
    resumed sweep goes on with its own configuration."""
    known: dict[str, Collection[str]] = {
        "adapter": loaded.adapters,
        "surface": loaded.surfaces,
        "fixture": loaded.fixtures,
        "policy": loaded.policies,
        "model": {*loaded.scripts, *loaded.upstreams, *loaded.cassettes},
    }
    for cell in cells:
        for name, ids in known.items():
            if getattr(cell, name) not in ids:
                message = f"plans the {name} {quoted(getattr(cell, name))}, which {loaded.path} does not name"
                raise UsageError(f"{path}: {message}; resume with the configuration it was made with")
        if cell.matrix >= len(loaded.sweep.arms):
            raise UsageError(f"{path}: is not the plan of {loaded.path}, which has {len(loaded.sweep.arms)} 'arms'")


def _arms(loaded: LoadedSweep, repeat: int | None) -> list[_Arm]:
    arms: dict[str, _Arm] = {}
    errors: list[ConfigError] = []
    for index, (matrix, line) in enumerate(zip(loaded.sweep.arms, loaded.arm_lines, strict=True)):
        product = itertools.product(
            matrix.adapters,
            matrix.surfaces,
            matrix.fixtures,
            map(policy_id, matrix.policies),
            matrix.models,
            matrix.resets,
        )
        for ids, twin in itertools.product(product, (False, True) if matrix.twin else (False,)):
            name = "--".join(map(on_disk, ids)) + (TWIN if twin else "")
            if name in arms:
                errors.append(ConfigError(loaded.path, line, f"the arm {name} is planned twice"))
                continue
            if len(f"{name}--r99999".encode()) > MAX_NAME:
                errors.append(
                    ConfigError(loaded.path, line, f"the arm {name} has a name of more than {MAX_NAME} bytes")
                )
                continue
            fields: dict[str, Any] = dict(zip(_ID_KEYS, ids, strict=True))
            if loaded.why_not(fields["adapter"], fields["surface"], fields["model"]) is not None:
                continue
            image = loaded.adapters[ids[0]].image
            count = repeat or matrix.repeat or loaded.sweep.repeat
            fields |= {"expect": matrix.expected(ids[0]), "matrix": index, "twin": twin}
            arms[name] = _Arm(name, image, count, fields)
    if not arms and not errors:
        errors.append(ConfigError(loaded.path, loaded.arm_lines[0], "no arm is left: its adapters can do none of them"))
    raise_all(errors)
    return list(arms.values())


def _warmups(arms: Iterable[_Arm], count: int) -> list[Cell]:
    first: dict[str, _Arm] = {}
    for arm in arms:
        first.setdefault(arm.image, arm)
    return [arm.cell(n, block=0, warmup=True) for arm in first.values() for n in range(1, count + 1)]


def _select(arms: Sequence[_Arm], measured: Sequence[Cell], warmup: int, only: str) -> list[Cell]:
    kept = [cell for cell in measured if _fits(cell, only)]
    if kept:
        names = {cell.arm for cell in kept}
        return _warmups((arm for arm in arms if arm.name in names), warmup) + kept
    warmups = [cell for cell in _warmups(arms, warmup) if _fits(cell, only)]
    if not warmups:
        raise UsageError(f"--only '{only}' fits no cell and no arm{_hint(only, arms)}")
    return warmups


def _hint(only: str, arms: Sequence[_Arm]) -> str:
    """The nearest id to the part of a glob that stands in no arm; where every part does, the arms."""
    ids = [on_disk(str(arm.ids[key])) for key in _ID_KEYS for arm in arms]
    for part in filter(None, re.split(r"--|[*?]", only)):
        if not any(part in arm.name for arm in arms):
            return suggest(part, ids)
    return suggest("", [arm.name for arm in arms])


def _fits(cell: Cell, glob: str) -> bool:
    """A glob fits a cell's name, its arm's, or one of the arm's parts (`cli`, `claude-*`)."""
    return any(fnmatch.fnmatchcase(name, glob) for name in (cell.name, cell.arm, *cell.arm.split("--")))


def units(cells: Iterable[Cell]) -> list[list[Cell]]:
    """What one worker runs in one go: a cell, or all cells of an arm that keeps its container."""
    cellses: list[list[Cell]] = []
    for cell in cells:
        if cell.reset != FRESH and cellses and cellses[-1][0].arm == cell.arm and cellses[-1][0].warmup is cell.warmup:
            cellses[-1].append(cell)
        else:
            cellses.append([cell])
    return cellses


def remaining(cells: Sequence[Cell], done: Collection[str]) -> list[Cell]:
    """What a resumed sweep runs: every block that lacks a cell, whole (its runs must be neighbours in time), and the
    warm-ups of the images in them, again. `done`: names of the cells with a final record."""
    blocks = {cell.block for cell in cells if not cell.warmup and cell.name not in done}
    images = {cell.image for cell in cells if not cell.warmup and cell.block in blocks}
    return [
        cell
        for cell in cells
        if (cell.image in images or cell.name not in done if cell.warmup else cell.block in blocks)
    ]


def dump(cells: Iterable[Cell]) -> bytes:
    """plan.jsonl: one cell a line, keys in a fixed order."""
    return b"".join(json.dumps(cell.model_dump()).encode("ascii") + b"\n" for cell in cells)


def load(data: bytes, path: Path) -> list[Cell]:
    """The inverse of `dump`. Raises UsageError naming file and line of what is not a cell, or is one a second time."""
    cells: dict[str, Cell] = {}
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            cell = Cell.model_validate_json(line)
        except ValidationError:
            raise UsageError(f"{path}:{number}: not a cell of a plan") from None
        if not _FOLDER.fullmatch(cell.name):
            raise UsageError(
                f"{path}:{number}: a cell's name is that of its folder, which {quoted(cell.name)} cannot be"
            )
        odd = next((name for name in (*_ID_KEYS, "arm", "image") if not WORD.fullmatch(getattr(cell, name))), None)
        if odd is not None:
            raise UsageError(f"{path}:{number}: no {odd} is called {quoted(getattr(cell, odd))}")
        if cell.name in cells:
            raise UsageError(f"{path}:{number}: the cell {cell.name} stands there twice, and would count twice")
        cells[cell.name] = cell
    return list(cells.values())
