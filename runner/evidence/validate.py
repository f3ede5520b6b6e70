"""A run's frames against the ACP schemas: the one its adapter was built with, and the newest stable one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from runner.acp.findings import UNTERMINATED
from runner.acp.schema import Validator, calls
from runner.records.findings import Findings
from runner.records.schema import Finding
from runner.wire.frames import UNTERMINATED as UNTERMINATED_FLAG
from runner.wire.frames import Frame

#: Invalid by the newest schema alone: no defect of an adapter built with an older one, but news for its maintainer.
NEWEST_INVALID = "schema-newest-invalid"


def schema_findings(frames: Iterable[Frame], schemas: Mapping[str, Path]) -> Findings:
    """Findings for the agent's frames.

    :param frames: read once.
    :param schemas: SDK version -> schema file; the last one is the adapter's own, the others are newer.
    :raises OSError, ValueError: a schema file is gone or is no ACP schema.
    """
    findings = Findings()
    if not schemas:
        return findings
    *newer, (own, mine) = [(version, _validator(path)) for version, path in schemas.items()]
    newest: list[Findings] = [Findings() for _ in newer]
    for frame, message, method in calls(frames):
        problem = mine.check(frame.direction, message, method)
        if problem is not None:
            findings.append(Finding(id=problem.severity, message=f"SDK {own}: {problem}", seq=frame.seq))
            continue
        for into, (version, validator) in zip(newest, newer, strict=True):
            problem = validator.check(frame.direction, message, method)
            if problem is not None:
                into.append(Finding(id=NEWEST_INVALID, message=f"SDK {version}: {problem}", seq=frame.seq))
    for of_one in newest:
        findings.extend(of_one)
    return findings


def tail_findings(frames: Iterable[Frame]) -> list[Finding]:
    """A stream that ended inside a line shows only when the container is gone, after whoever drove the agent."""
    return [
        Finding(id=UNTERMINATED, message="the stream ended inside a line", seq=frame.seq)
        for frame in frames
        if frame.channel == "stdout" and UNTERMINATED_FLAG in frame.flags
    ]


@lru_cache(maxsize=8)
def _validator(path: Path) -> Validator:
    """Compiled once per process: a sweep validates many runs against the same file."""
    return Validator(path)
