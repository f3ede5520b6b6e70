"""A report as tables of text and sentences, for the renderers that print it. No judgement is made here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from runner.analysis.report import Arm, Exact, Report, Sampled
from runner.analysis.stats import range_coverage
from runner.evidence import metrics
from runner.records.finding_texts import DESCRIPTIONS
from runner.report.text import clipped
from runner.text.visible import SENTENCE, one_line

#: Not applicable.
NONE = "-"
#: After a value that differs between the runs of its arm.
VARIES = "*"

#: Longest text of a cell, longest name of an arm; most rows of what was found. JSON has all.
_CELL, _LABEL, _ROWS = 100, 220, 200
#: Counts that differ between the runs of one arm: the warning's id, and how many of them are named in the notes.
_VARYING: Final = "nondeterministic"
_VARYING_NAMED = 5
#: Warnings of one id that are said: an agent with a thousand tools has a thousand that differ.
_OF_AN_ID = 50

_IDENTITY = ("adapter", "surface", "fixture", "policy", "model", "reset")

Cell = Callable[[Arm], str]


@dataclass(frozen=True)
class Sheet:
    """One table: the first column names the arm, all cells are text. `title` says what it holds."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Page:
    """All that is printed of a report. `caption` is what all arms share."""

    caption: str
    sheets: tuple[Sheet, ...]
    notes: tuple[str, ...]


def page(report: Report) -> Page:
    """The tables and notes of a report. The arms of a sweep that share all but the surface are named by it alone."""
    varying = [name for name in _IDENTITY if name == "surface" or len({getattr(arm, name) for arm in report.arms}) > 1]
    shared = [getattr(report.arms[0], name) for name in _IDENTITY if name not in varying] if report.arms else []
    varying.sort(key=lambda name: name != "surface")

    def label(arm: Arm) -> str:
        return one_line(" ".join([*(getattr(arm, name) for name in varying), *_twin(arm)]), _LABEL)

    listened = any(_names(arm) != NONE for arm in report.arms)
    cancelled = [arm for arm in report.arms if "cancel_during" in arm.exact]

    def sheet(title: str, columns: Sequence[tuple[str, Cell]], arms: Sequence[Arm]) -> Sheet:
        rows = [(label(arm), *(one_line(cell(arm), _CELL) for _, cell in columns)) for arm in arms]
        return Sheet(title, ("/".join(varying), *(name for name, _ in columns)), tuple(rows))

    return Page(
        caption=", ".join(shared),
        sheets=(
            sheet("Time, median [min-max]", (*_SIZE, *_TIME), report.arms),
            sheet("Counts", _COUNTS, report.arms),
            sheet("The whole run, median [min-max]", _WHOLE, report.arms),
            *([sheet("Cancelled turns, median [min-max]", _CANCELLED, cancelled)] if cancelled else []),
            *([sheet("Host names tried", _TRIED, report.arms)] if listened else []),
            *_findings("/".join(varying), list(map(label, report.arms)), report.arms),
        ),
        notes=tuple(notes(report)),
    )


def notes(report: Report) -> list[str]:
    """The sentences under the tables: what the ranges are worth, outcomes, builds, what was compared exactly; each
    once.
    """
    found = [*_coverage(report), *_outcomes(report), *_compared(report), *_turns(report), *_load(report)]
    counts: Counter[str] = Counter()
    for arm in report.arms:
        found += _varying(arm)
        for warning in arm.warnings:
            if warning.id in ("insufficient", _VARYING):
                continue
            counts[warning.id] += 1
            if counts[warning.id] <= _OF_AN_ID:
                found.append(f"{warning.id}: {warning.message}.")
    found += [
        f"{name}: {count - _OF_AN_ID} more (--format json has all)."
        for name, count in counts.items()
        if count > _OF_AN_ID
    ]
    if any(cell(arm).endswith(VARIES) for _, cell in _COUNTS for arm in report.arms):
        found.append(f"{VARIES} differs between the runs of its row.")
    return [one_line(note, 5 * SENTENCE) for note in dict.fromkeys(found)]


def _varying(arm: Arm) -> list[str]:
    """One sentence on all counts that differ between the runs of an arm, those that a reader knows by name first."""
    varying = sorted((w.metric for w in arm.warnings if w.id == _VARYING and w.metric is not None), key=metrics.rank)
    if not varying:
        return []
    named = clipped([f"{name} ({', '.join(map(str, arm.exact[name].values))})" for name in varying], _VARYING_NAMED)
    verb = "differs" if len(varying) == 1 else "differ"
    return [f"{_VARYING}: {arm.name}: {len(varying)} of {len(arm.exact)} counts {verb} between its runs: {named}."]


def sampled_text(found: Sampled | None, digits: int = 0) -> str:
    """`820 [772-922]`; `820` for a single run; `-` where there is none."""
    if found is None or found.median is None or found.min is None or found.max is None:
        return NONE
    median, low, high = (f"{value:.{digits}f}" for value in (found.median, found.min, found.max))
    return f"{median} [{low}-{high}]" if found.n > 1 else median


def exact_text(found: Exact | None) -> str:
    """The value; `9-10*` where runs differ; `-` where there is none."""
    if found is None or all(value is None for value in found.values):
        return NONE
    if found.value is not None:
        return _value_text(found.value)
    known = [value for value in found.values if value is not None]
    if all(isinstance(value, int) and not isinstance(value, bool) for value in known):
        low, high = min(known), max(known)
        return f"{_value_text(low)}-{_value_text(high)}{VARIES}" if low != high else f"{_value_text(low)}{VARIES}"
    return one_line("/".join(dict.fromkeys(map(_value_text, known))), _CELL) + VARIES


def _value_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else one_line(str(value), _CELL)


def _time(metric: str, digits: int = 0) -> Cell:
    return lambda arm: sampled_text(arm.sampled.get(metric), digits)


def _count(metric: str) -> Cell:
    def text(arm: Arm) -> str:
        # Under a live model counts are sampled.
        return sampled_text(arm.sampled[metric]) if metric in arm.sampled else exact_text(arm.exact.get(metric))

    return text


def _both(first: str, second: str) -> Cell:
    def text(arm: Arm) -> str:
        texts = [_count(first)(arm), _count(second)(arm)]
        if texts == [NONE, NONE]:
            return NONE
        mark = VARIES if any(text.endswith(VARIES) for text in texts) else ""
        return "/".join(text.rstrip(VARIES) for text in texts) + mark

    return text


def _passed(arm: Arm) -> str:
    return f"{arm.outcomes.get('passed', 0)}/{arm.planned}"


_SIZE: tuple[tuple[str, Cell], ...] = (("n", lambda arm: str(arm.n)), ("passed", _passed))
_TIME: tuple[tuple[str, Cell], ...] = (
    ("handshake ms", _time("handshake_ms")),
    ("turn ms", _time("turn_ms")),
    ("to_result ms", _time("to_result_ms")),
    ("model ms", _time("model_ms")),
    ("agent ms", _time("agent_ms")),
)
_COUNTS: tuple[tuple[str, Cell], ...] = (
    ("tokens", _count("tokens_reported")),
    ("tokens served", _count("tokens_served")),
    ("tool calls", _count("tool_calls")),
    ("asks", _count("permission_requests")),
    ("client fs/terminal", _both("client_fs_calls", "client_terminal_calls")),
    ("undeclared calls", _count("undeclared_calls")),
    ("stop", _count("stop_reason")),
)
_WHOLE: tuple[tuple[str, Cell], ...] = (
    ("active ms", _time("active_ms")),
    ("client ms", _time("client_ms", 1)),
    ("wall ms", _time("wall_ms")),
    ("cpu s", _time("cpu_s", 2)),
    ("memory MB", _time("peak_anon_mb")),
    ("overhead ms", _time("overhead_ms")),
)
#: Of arms with a cancelled turn.
_CANCELLED: tuple[tuple[str, Cell], ...] = (
    ("ended", lambda arm: "/".join(arm.outcomes)),
    ("cancelled during", _count("cancel_during")),
    ("asks cancelled", _count("cancel_asks")),
    ("stop", _count("cancel_stop")),
    ("to stop ms", _time("cancel_to_stop_ms")),
    ("updates after", _count("cancel_updates_after")),
)


def _findings(head: str, labels: Sequence[str], arms: Sequence[Arm]) -> list[Sheet]:
    """What the frames, the schema and the exit showed of each agent, a row each; none where nothing was found."""
    rows = []
    for label, arm in zip(labels, arms, strict=True):
        for name, found in sorted(arm.exact.items()):
            prefix, _, identity = name.partition(".")
            having = [value for value in found.values if value]
            if prefix == "findings" and having:
                text = exact_text(Exact.of(having))
                meaning = DESCRIPTIONS.get(identity, "")
                rows.append((label, one_line(identity, _CELL), f"{len(having)}/{len(found.values)}", text, meaning))
    if len(rows) > _ROWS:
        rows = [*rows[:_ROWS], (f"({len(rows) - _ROWS} more rows: --format json has all)", "", "", "", "")]
    return [Sheet("Findings", (head, "finding", "runs", "in a run", "which means"), tuple(rows))] if rows else []


def _names(arm: Arm) -> str:
    """`a.example, b.example*`: every name that any run tried, marked where not all did; `-`: nobody listened."""
    prefix = "names_tried."
    found = [
        name.removeprefix(prefix) + ("" if one.value else VARIES)
        for name, one in arm.exact.items()
        if name.startswith(prefix) and any(one.values)
    ]
    heard = exact_text(arm.exact.get("names_tried"))
    return clipped(found) or ("none" if heard == "0" else heard)


_TRIED: tuple[tuple[str, Cell], ...] = (("names", _names),)


def _coverage(report: Report) -> list[str]:
    """What [min-max] is worth at each n, and whether anything can be concluded from it."""
    found: list[str] = []
    for n in sorted({arm.n for arm in report.arms}):
        few = next(
            (w.message for arm in report.arms if arm.n == n for w in arm.warnings if w.id == "insufficient"), None
        )
        if n > 1:
            percent = 100 * range_coverage(n)
            found.append(f"[min-max] of n={n} is a {percent:.3g} % confidence interval of the median.")
        if few is not None:
            found.append(f"{few[0].upper()}{few[1:]}.")
    return found


def _outcomes(report: Report) -> list[str]:
    """One sentence on how the cells ended."""
    planned = sum(arm.planned for arm in report.arms)
    unexpected = sum(arm.unexpected for arm in report.arms)
    if not unexpected:
        return [f"All {planned} planned runs ended as expected."]
    counts: dict[str, int] = {}
    for arm in report.arms:
        for outcome, count in arm.outcomes.items():
            counts[outcome] = counts.get(outcome, 0) + count
    listed = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    return [f"{unexpected} of {planned} planned runs did not end as expected ({listed})."]


def _compared(report: Report) -> list[str]:
    """Per set of ACP arms that differ in the surface alone: which exact metrics are equal on all of them."""
    groups: dict[tuple[str, ...], list[Arm]] = {}
    for arm in report.arms:
        if arm.acp and "permission_requests" in arm.exact:
            key = tuple(getattr(arm, name) for name in _IDENTITY if name != "surface")
            groups.setdefault(key, []).append(arm)
    groups = {key: arms for key, arms in groups.items() if len(arms) > 1}
    varying = [index for index in range(len(_IDENTITY) - 1) if len({key[index] for key in groups}) > 1]
    return [_comparison(arms, [key[index] for index in varying]) for key, arms in groups.items()]


def _turns(report: Report) -> list[str]:
    """Said where arms of both kinds stand under one another: their turns are not the same interval."""
    if len({arm.acp for arm in report.arms if arm.n}) < 2:
        return []
    return [
        (
            "A turn is the session/prompt round trip over ACP and what a CLI says of itself; "
            "to_result (the agent's start to its result) means the same on every surface."
        )
    ]


def _load(report: Report) -> list[str]:
    """Times are of this machine, as busy as it was."""
    if report.load is None:
        return []
    processors = report.lock.get("engine", {}).get("cpus")
    of = f" on {processors} processors" if isinstance(processors, int) else ""
    return [f"Load of the machine when the runs began, median [min-max]: {sampled_text(report.load, 1)}{of}."]


def _comparison(arms: Sequence[Arm], named: Sequence[str]) -> str:
    """One sentence on a set of arms; `named`: what tells it from the other sets."""
    names = sorted({name for arm in arms for name in arm.exact if not metrics.is_information(name)})
    values = {name: [_shown(arm, name) for arm in arms] for name in names}
    # A value that varies inside an arm equals nothing, not even the same range elsewhere.
    differing = [
        name for name in names if len(set(values[name])) > 1 or any(text.endswith(VARIES) for text in values[name])
    ]
    kinds = [name for name in names if name.startswith("tool_calls_by_kind.")]
    calls = " / ".join(dict.fromkeys(values["tool_calls"]))
    if set(differing) & {"tool_calls", *kinds}:
        head = f"tool calls differ ({calls})"
    else:
        listed = clipped([f"{values[name][0]} {name.partition('.')[2]}" for name in kinds])
        head = f"the same tool calls on each ({calls}{': ' if listed else ''}{listed})"
    if differing:
        unequal = clipped([f"{name} ({' / '.join(values[name])})" for name in differing])
        tail = f"{len(names) - len(differing)} of {len(names)} exact metrics are equal, not {unequal}"
    else:
        tail = f"all {len(names)} exact metrics are equal"
    of = f"{', '.join(named)}, compared" if named else "Compared"
    over = ", ".join(" ".join([arm.surface, *_twin(arm)]) for arm in arms)
    return f"{of} exactly over {over}: {head}; {tail}."


def _twin(arm: Arm) -> list[str]:
    return ["twin"] if arm.twin else []


def _shown(arm: Arm, name: str) -> str:
    """An exact metric as text."""
    return exact_text(arm.exact_of(name))
