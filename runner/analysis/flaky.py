"""Equal workspaces that got different verdicts: then it is the verifier that differs, not what was verified. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from runner.records.schema import Record

ID = "verifier-flaky"
#: Runs that a message names on each side.
_NAMED = 3
_HASH = 12


@dataclass(frozen=True)
class Flaky:
    """One workspace of one fixture, and the cells (any arm's) in which it passed and failed."""

    fixture: str
    #: Name of the judged tree (`verdict.workspace` of a record).
    workspace: str
    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def cells(self) -> set[str]:
        return {*self.passed, *self.failed}

    @property
    def message(self) -> str:
        return (
            f"the verifier of fixture {self.fixture} is flaky: the same workspace (tree {self.workspace[:_HASH]}) "
            f"passed in {_few(self.passed)} and failed in {_few(self.failed)}; `acpbench fixture check` finds how often"
        )


def flaky(records: Iterable[Record]) -> list[Flaky]:
    """The workspaces with more than one verdict. `records`: those that count, one a cell."""
    found: dict[tuple[str, str], Flaky] = {}
    for record in records:
        verdict = record.verdict
        if verdict is not None and verdict.workspace is not None:
            key = (record.fixture, verdict.workspace)
            one = found.setdefault(key, Flaky(*key))
            (one.passed if verdict.passed else one.failed).append(record.cell)
    return [one for _, one in sorted(found.items()) if one.passed and one.failed]


def tally(records: Iterable[Record]) -> dict[str, dict[str, int]]:
    """Workspace -> verdict (`passed` or `failed`) -> runs."""
    found: dict[str, dict[str, int]] = {}
    for record in records:
        verdict = record.verdict
        if verdict is not None and verdict.workspace is not None:
            counts = found.setdefault(verdict.workspace, {})
            word = "passed" if verdict.passed else "failed"
            counts[word] = counts.get(word, 0) + 1
    return dict(sorted(found.items()))


def differing(base: Mapping[str, Mapping[str, int]], new: Mapping[str, Mapping[str, int]]) -> list[str]:
    """The workspaces that both sides have and that did not get one and the same verdict."""
    return sorted(name for name in base.keys() & new.keys() if len({*base[name], *new[name]}) > 1)


def _few(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(sorted(names)[:_NAMED]) + (f" and {more} more" if more > 0 else "")
