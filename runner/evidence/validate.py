"""A run's frames against the ACP schemas: the one its adapter was built with, and the newest stable one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path

from runner.acp.findings import UNTERMINATED
from runner.acp.schema import Validator, check_frames
from runner.records.schema import Finding
from runner.wire.frames import UNTERMINATED as UNTERMINATED_FLAG
from runner.wire.frames import Frame

#: Invalid by the newest schema alone: no defect of an adapter built with an older one, but news for its maintainer.
NEWEST_INVALID = "schema-newest-invalid"
#: Invalid frames that are named, by one schema: an agent may send any number of them.
_NAMED = 1000


def schema_findings(frames: Iterable[Frame], schemas: Mapping[str, Path]) -> list[Finding]:
    """Findings for the agent's frames.

    :param frames: read once per schema.
    :param schemas: SDK version -> schema file; the last one is the adapter's own, the others are newer.
    :raises OSError, ValueError: a schema file is gone or is no ACP schema.
    """
    found: list[Finding] = []
    if not schemas:
        return found
    *newer, (own, path) = schemas.items()
    wrong = {finding.seq: finding for finding in islice(check_frames(_validator(path), frames), _NAMED)}
    found += [Finding(id=one.id, message=f"SDK {own}: {one.message}", seq=one.seq) for one in wrong.values()]
    for version, other in newer:
        for one in islice(check_frames(_validator(other), frames), _NAMED):
            if one.seq not in wrong:
                found.append(Finding(id=NEWEST_INVALID, message=f"SDK {version}: {one.message}", seq=one.seq))
    return found


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
