"""GitHub's workflow commands: what failed, shown on the job and the pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from runner.analysis.comparison import Compared
from runner.analysis.report import Report, Warning
from runner.report.junit import sentence
from runner.text.visible import printable

#: Warnings of a report or a comparison after which a job fails.
_ERRORS = frozenset({"missing-cell", "missing-arm", "unexpected-outcome", "unlike"})
#: Longest title and message, characters; GitHub cuts at 4 KiB.
_TITLE, _MESSAGE = 200, 2000
#: Most commands of one report; GitHub shows ten of a kind and step.
_MOST = 50
_ENDS = {"\r": "%0D", "\n": "%0A"}


def of_report(report: Report) -> str:
    """One line a thing that went wrong in a sweep; empty where nothing did."""
    return _joined(_of(warning) for arm in report.arms for warning in arm.warnings if warning.id != "insufficient")


def problem(text: str) -> str:
    """One line for what kept a comparison from being made."""
    return _line("error", "unlike", text)


def of_comparison(found: Compared) -> str:
    """One line a verdict that fails the build, then the warnings; empty where there are none."""
    lines = [
        _line("error", f"{verdict.metric} {verdict.verdict}", f"{verdict.arm}: {sentence(verdict)}")
        for verdict in found.verdicts
        if verdict.fails
    ]
    return _joined([*lines, *_warnings(found)])


def _joined(lines: Iterable[str]) -> str:
    """All of them; of too many the first, errors before warnings, and how many there are beyond."""
    told = list(lines)
    if len(told) <= _MOST:
        return "".join(told)
    told.sort(key=lambda line: not line.startswith("::error "))
    return "".join([*told[:_MOST], _line("warning", "more", f"{len(told) - _MOST} more, in the report")])


def _warnings(compared: Compared) -> Iterator[str]:
    for warning in compared.warnings:
        # Times that are not compared are the rule across sweeps; arms that may not be are an error.
        if warning.id == "unlike" and compared.exit != 64:
            yield _line("notice", warning.id, warning.message)
        else:
            yield _of(warning)


def _of(warning: Warning) -> str:
    return _line("error" if warning.id in _ERRORS else "warning", warning.id, warning.message)


def _line(level: str, title: str, message: str) -> str:
    title = _escaped(title, _TITLE).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={title}::{_escaped(message, _MESSAGE)}\n"


def _escaped(text: str, limit: int) -> str:
    """Each line of it made visible first: GitHub decodes what is escaped here, and shows what comes out."""
    text = text if len(text) <= limit else f"{text[: limit - 3]}..."
    return "".join(_ENDS.get(part) or printable(part).replace("%", "%25") for part in re.split(r"([\r\n])", text))
