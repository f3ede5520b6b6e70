"""Nightly medians for people: one bar a night, and a picture."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

from runner.analysis.history import Series
from runner.analysis.steps import steps
from runner.errors import UsageError
from runner.text.visible import one_line, printable

#: Longest text in a picture, name of an arm, and head of a column.
_LABEL = 160
_ARM = 220
_HEAD = 200
_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float]) -> str:
    """One bar a value, the lowest and the highest at the ends of the scale."""
    low, high = min(values), max(values)
    if low == high:
        return _BARS[3] * len(values)
    return "".join(_BARS[round((value - low) / (high - low) * (len(_BARS) - 1))] for value in values)


def nights(series: Series, metric: str, last: int) -> str:
    """An arm's bars and the table of its `last` nights; steps among the earlier ones are named below it."""
    steps_by_night = {step.index: step for step in steps(series.medians)}
    whole = all(value == int(value) for night in series.nights for value in night.found.values)
    digits = 0 if whole or max(series.medians) >= 20 else 2
    first = max(0, len(series.nights) - last)
    rows = []
    for index, night in enumerate(series.nights[first:], start=first):
        figures = night.found
        step = steps_by_night.get(index)
        moved = index > 0 and night.machine != series.nights[index - 1].machine
        notes = [f"step? x {step.ratio:.2f}" if step else "", "another machine" if moved else ""]
        rows.append(
            (
                night.started_at.strftime("%Y-%m-%d %H:%M"),
                figures.n,
                f"{figures.median:.{digits}f} [{figures.min:.{digits}f}-{figures.max:.{digits}f}]",
                ", ".join(filter(None, notes)),
            )
        )
    heads = ["night (UTC)", "n", one_line(f"{metric}, median [min-max]", _HEAD), ""]
    lines = [f"{one_line(series.arm, _ARM)}  {sparkline(series.medians)}"]
    lines.append(printable(tabulate(rows, headers=heads, missingval="-", disable_numparse=True)))
    if first:
        earlier = [
            f"{series.nights[index].started_at:%Y-%m-%d} x {step.ratio:.2f}"
            for index, step in steps_by_night.items()
            if index < first
        ]
        stepped = f", step? {', '.join(earlier)}" if earlier else ""
        lines.append(f"({first} earlier nights are not listed{stepped}; --last {len(series.nights)} shows all)")
    return "\n".join([*lines, ""])


def plot(series: Sequence[Series], metric: str, file: Path) -> None:
    """A picture of nightly medians with their ranges, one line an arm; the file's ending says its kind.

    Raises UsageError where it cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5), layout="constrained")
    axes = figure.add_subplot()
    for arm_nights in series:
        times: list[Any] = [night.started_at for night in arm_nights.nights]
        below = [night.found.median - night.found.min for night in arm_nights.nights]
        above = [night.found.max - night.found.median for night in arm_nights.nights]
        drawn = axes.errorbar(
            times,
            arm_nights.medians,
            yerr=[below, above],
            fmt="o-",
            markersize=4,
            capsize=2,
            elinewidth=0.8,
            label=_label(arm_nights.arm),
        )
        for step in steps(arm_nights.medians):
            axes.axvline(times[step.index], color=drawn.lines[0].get_color(), linestyle=":", linewidth=1)
    # A name may hold `$`, which begins mathematics for matplotlib.
    axes.set_ylabel(_label(metric), parse_math=False)
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, alpha=0.3)
    axes.set_title("Nightly medians with the range of their runs; dotted: a step", fontsize=10, loc="left")
    legend = axes.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.12), frameon=False)
    for text in legend.get_texts():
        text.set_parse_math(False)
    figure.autofmt_xdate()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a character that the font lacks is drawn as a box
            figure.savefig(file, dpi=130)
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: cannot be written: {error}") from None


def _label(text: str) -> str:
    """Text in a picture; the library hides what begins with `_`."""
    return one_line(text, _LABEL).lstrip("_") or "-"
