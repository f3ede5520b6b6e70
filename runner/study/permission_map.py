"""The permission map: every labelled action of a run, whether anybody was asked, and whether it was done.

What was done is told by the effect that the script names for the action (`effect`): a text in what came back to the
model, or a file that is not as it was. What the agent says of its own call is no evidence.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from runner.config.nearest import suggest
from runner.errors import UsageError
from runner.study.actions import Action, actions
from runner.study.boundary_actions import changed
from runner.study.damaged import told
from runner.study.model import Reference, StudyPart
from runner.study.runs import LoadedRun, load
from runner.wire.values import as_list, as_object, as_text

SCHEMA_VERSION = 1

#: `asked`: somebody was, and said yes. `free`: done and nobody was asked. `refused`: somebody said no. `unanswered`:
#: somebody was asked and nobody said anything. Not done and nobody asked: `blocked` where the agent, or the client's
#: fs/*, would not; `failed` where it did not work.
Word = Literal["asked", "free", "refused", "blocked", "failed", "unanswered"]


class ActionTried(StudyPart):
    """What became of one action in one run."""

    label: str
    #: The command, or the path.
    what: str
    tool: str
    word: Word
    #: Whether its effect was seen; null: the script names none.
    done: bool | None
    #: Of the ask: the tool kind, the kinds of its options in order, the kind that was chosen.
    kind: str | None = None
    offered: list[str] = []
    answer: str | None = None
    #: A read that the agent left to the client.
    by_client: bool = False
    evidence: Reference

    @property
    def text(self) -> str:
        """The word, marked where the effect says otherwise: `asked-` allowed and not done, `refused!` done."""
        if self.word == "asked" and self.done is False:
            return "asked-"
        return f"{self.word}!" if self.word in ("refused", "unanswered") and self.done else self.word


class Column(StudyPart):
    """One arm. `tried`: label -> what became of it, a run each."""

    arm: str
    adapter: str
    surface: str
    policy: str
    model: str
    runs: int
    #: The session's mode during the prompt.
    mode: str | None
    tried: dict[str, list[ActionTried]]

    def text(self, label: str) -> str:
        """What became of an action in all runs: `free`; `free/asked` where they differ; '': none reached it."""
        return "/".join(dict.fromkeys(attempt.text for attempt in self.tried.get(label, [])))

    @property
    def counts(self) -> dict[str, int]:
        """Word -> actions, by the first run."""
        return dict(Counter(tried[0].text for tried in self.tried.values()))


class PermissionMap(StudyPart):
    """The arms of a sweep side by side; its JSON names are a contract."""

    schema_version: int = SCHEMA_VERSION
    sweep: str
    #: In the order of the scripts.
    labels: list[str]
    columns: list[Column]
    #: Path of an attempt -> why it is in no figure.
    excluded: dict[str, str] = {}

    def groups(self) -> list[list[Column]]:
        """What is worth holding side by side: the adapters under the same conditions; of one adapter, all its arms."""
        if len({column.adapter for column in self.columns}) == 1:
            return [self.columns]
        found: dict[tuple[str, str, str], list[Column]] = {}
        for column in self.columns:
            found.setdefault((column.model, column.surface, column.policy), []).append(column)
        return list(found.values())

    def differing(self, columns: Sequence[Column] | None = None) -> list[str]:
        """Labels of which the columns (default: all) that have them do not all say the same."""
        shown = self.columns if columns is None else columns
        return [
            label for label in self.labels if len({column.text(label) for column in shown if label in column.tried}) > 1
        ]


def build(directory: Path, arm: str = "*") -> PermissionMap:
    """The map of a sweep's folder; `arm`: a glob over arm names.

    Raises UsageError for what cannot be read, for a glob that fits nothing, and where no run has labelled actions.
    """
    loaded = load(directory)
    runs = [run for study in loaded.studies for run in study.runs if run.acp and run.labels]
    if not runs:
        raise UsageError(f"{directory}: no run over ACP plays a script with labelled actions")
    fitting = [run for run in runs if fnmatch.fnmatchcase(run.record.arm, arm)]
    if not fitting:
        names = list(dict.fromkeys(run.record.arm for run in runs))
        raise UsageError(f"--arm '{arm}' fits no arm{suggest(arm, names)}")
    arms: dict[str, list[LoadedRun]] = {}
    for run in fitting:
        arms.setdefault(run.record.arm, []).append(run)
    labels = dict.fromkeys(label for run in fitting for label in _labels(run))
    return PermissionMap(
        sweep=loaded.sweep,
        labels=list(labels),
        columns=sorted(
            (told(own, partial(column, name, own)) for name, own in arms.items()),
            key=lambda one: (one.model, one.surface, one.policy, _natural(one.adapter), one.arm),
        ),
        excluded=loaded.excluded,
    )


def _natural(adapter: str) -> list[tuple[int, str]]:
    """Versions in their own order: 0.64.0 before 0.101.0."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", adapter)]


def column(arm: str, runs: list[LoadedRun]) -> Column:
    """One arm's runs."""
    tried: dict[str, list[ActionTried]] = {}
    for run in runs:
        for attempt in tries(run):
            tried.setdefault(attempt.label, []).append(attempt)
    first = runs[0].record
    return Column(
        arm=arm,
        adapter=first.adapter,
        surface=first.surface,
        policy=first.policy,
        model=first.model,
        runs=len(runs),
        mode=runs[0].mode,
        tried=tried,
    )


def tries(run: LoadedRun) -> Iterator[ActionTried]:
    """The settled, labelled actions of a run's own conversation, in order."""
    effects = _effects(run)
    results = as_object(run.program.get("results"))
    patterns = {word: [re.compile(result) for result in as_list(results.get(word))] for word in ("rejected", "blocked")}
    for action in actions(run):
        if action.label is None or action.subagent is not None or not action.settled:
            continue
        done = _done(action, effects.get(action.label, {}))
        ask = action.ask
        yield ActionTried(
            label=action.label,
            what=action.what,
            tool=action.served.tool,
            word=_word(action, done, patterns),
            done=done,
            kind=ask.kind if ask is not None else None,
            offered=[option.kind for option in ask.options] if ask is not None else [],
            answer=run.answer_of(ask) if ask is not None else None,
            by_client=action.mediated,
            evidence=action.reference("asked" if action.surfaced else "not-asked", action.label),
        )


def _word(action: Action, done: bool | None, patterns: Mapping[str, Iterable[re.Pattern[str]]]) -> Word:
    if action.ask is not None:
        if action.run.answer_of(action.ask) == "never":
            return "unanswered"
        return "asked" if action.allowed else "refused"
    if done:
        return "free"
    said = action.result[1] if action.result is not None else ""
    if any(pattern.search(said) for pattern in patterns["rejected"]):
        return "refused"
    if any(pattern.search(said) for pattern in patterns["blocked"]):
        return "blocked"
    return "failed" if done is False else "free"


def _done(action: Action, effect: dict[str, Any]) -> bool | None:
    """Whether the effect that the script names was seen."""
    shows, changes = as_text(effect.get("shows")), as_text(effect.get("changes"))
    if shows is not None:
        return action.result is not None and re.search(shows, action.result[1]) is not None
    return None if changes is None else _changed(action.run, changes)


def _changed(run: LoadedRun, path: str) -> bool:
    if path.startswith(".git/"):
        return path.removeprefix(".git/") in run.git_changes
    return changed(run, posixpath.normpath(posixpath.join(run.cwd, path)))


def _labels(run: LoadedRun) -> list[str]:
    steps = map(as_object, as_list(run.program.get("steps")))
    return [label for step in steps if (label := as_text(step.get("label"))) is not None]


def _effects(run: LoadedRun) -> dict[str, dict[str, Any]]:
    steps = map(as_object, as_list(run.program.get("steps")))
    return {label: as_object(step.get("effect")) for step in steps if (label := as_text(step.get("label"))) is not None}
