"""GitHub's workflow commands: what failed, shown on the job and the pull request."""

from __future__ import annotations

from collections.abc import Iterator

from runner.compare import Compared
from runner.report.junit import sentence
from runner.report.model import Report, Warning

#: Warnings of a report or a comparison after which a job fails.
_ERRORS = frozenset({"missing-cell", "missing-arm", "unexpected-outcome", "unlike"})


def of_report(report: Report) -> str:
    """One line a thing that went wrong in a sweep; empty where nothing did."""
    return "".join(_of(warning) for arm in report.arms for warning in arm.warnings if warning.id != "insufficient")


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
    return "".join([*lines, *_warnings(found)])


def _warnings(found: Compared) -> Iterator[str]:
    for warning in found.warnings:
        # Times that are not compared are the rule across sweeps; arms that may not be are an error.
        if warning.id == "unlike" and found.exit != 64:
            yield _line("notice", warning.id, warning.message)
        else:
            yield _of(warning)


def _of(warning: Warning) -> str:
    return _line("error" if warning.id in _ERRORS else "warning", warning.id, warning.message)


def _line(level: str, title: str, message: str) -> str:
    title = _escaped(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={title}::{_escaped(message)}\n"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
